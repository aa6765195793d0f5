package setup

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
)

func newServe(p *cli.Program) *cobra.Command {
	var file string
	var dev, newStore bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server with its gateway",
		Example: "  powerbox serve\n" +
			"  powerbox serve -c powerbox.yaml --dev",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.LoadConfig(file)
			if err != nil {
				return err
			}
			defer serve.Tune(p.Env)()
			return app.Serve(cmd.Context(), app.Assembly{
				Config: c, Dev: dev, NewStore: newStore, Reload: func() (*config.Config, error) { return p.LoadConfig(file) },
				Now: p.Now, Log: slog.New(slog.NewJSONHandler(p.Stderr, nil)), Notes: p.Stderr,
			})
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	cmd.Flags().BoolVar(&dev, "dev", false, "admit the built-in users of identity.dev; NOT SAFE outside experiments")
	cmd.Flags().BoolVar(&newStore, "new-store", false, "begin a new store with keys that belonged to a lost store")
	return cmd
}
