package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

const migrateLong = `Migrate updates the schema of the store to the version of this program. For a SQLite file, serve does this automatically.
For a database that several processes share, run 'powerbox migrate up' of the newer program once. Then replace the older
processes one after the other. Older processes that already run continue to work. An older program cannot start with a
newer schema, and a schema cannot be downgraded.`

// schema is how far a store is, and how far this program would bring it.
type schema struct {
	Store string `json:"store"`
	Has   int64  `json:"has"`
	Wants int64  `json:"wants"`
}

func newMigrate(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{Use: "migrate", Short: "Update the schema of the store", Long: migrateLong}
	cmd.PersistentFlags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	add := func(use, short string, do func(context.Context, *config.Config) (schema, error)) {
		verb := &cobra.Command{Use: use, Short: short, Example: "  powerbox migrate " + use + " -c powerbox.yaml", Args: cobra.NoArgs}
		output := cli.OutputFlag(verb)
		verb.RunE = func(cmd *cobra.Command, _ []string) error {
			c, err := p.LoadConfig(file)
			if err != nil {
				return err
			}
			s, err := do(cmd.Context(), c)
			if err != nil {
				return err
			}
			if *output == "json" {
				return json.NewEncoder(p.Stdout).Encode(s)
			}
			cli.Printf(p.Stdout, "%s: schema %d, this program knows %d\n", s.Store, s.Has, s.Wants)
			return nil
		}
		cmd.AddCommand(verb)
	}
	add("up", "Update the schema to the version of this program", migrateUp)
	add("status", "Print the version of the schema", schemaOf)
	add("check", "Fail unless the schema has the version of this program", func(ctx context.Context, c *config.Config) (schema, error) {
		s, err := schemaOf(ctx, c)
		return s, errors.Join(err, s.fits())
	})
	return cmd
}

// fits refuses a schema that is not the one that this program knows.
func (s schema) fits() error {
	switch {
	case s.Has > s.Wants:
		return cli.Exit(cli.ExitInvalid, fmt.Errorf("the schema of the store is %d, newer than %d, the newest that this program knows; use a newer powerbox", s.Has, s.Wants))
	case s.Has < s.Wants:
		return cli.Exit(cli.ExitInvalid, fmt.Errorf("the schema of the store is %d, older than %d; run 'powerbox migrate up'", s.Has, s.Wants))
	}
	return nil
}

func schemaOf(ctx context.Context, c *config.Config) (s schema, err error) {
	if !c.Store.Shared() {
		s.Store = app.StorePath(c)
		s.Has, s.Wants, err = sqlite.Schema(ctx, s.Store)
		return s, err
	}
	s.Store = "postgres"
	url, err := c.Store.URL(os.ReadFile)
	if err != nil {
		return s, fmt.Errorf("store.postgres_file: %w", err)
	}
	found, err := postgres.Status(ctx, url)
	s.Has, s.Wants = found.Has, found.Wants
	return s, err
}

func migrateUp(ctx context.Context, c *config.Config) (schema, error) {
	if !c.Store.Shared() {
		if err := sqlite.Migrate(ctx, app.StorePath(c)); err != nil {
			return schema{}, err
		}
		return schemaOf(ctx, c)
	}
	url, err := c.Store.URL(os.ReadFile)
	if err != nil {
		return schema{}, fmt.Errorf("store.postgres_file: %w", err)
	}
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return schema{}, err
	}
	return schemaOf(ctx, c)
}
