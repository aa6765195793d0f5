package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/version"
)

func newVersion(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and build information",
		Example: "  powerbox version\n" +
			"  powerbox version --output json",
	}
	output := cli.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := version.Read()
		if *output == "json" {
			return p.PrintJSON(b)
		}
		fmt.Fprintln(p.Stdout, b)
		return nil
	}
	return cmd
}
