package cli

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/version"
)

// NewVersion returns the command that prints the version.
func NewVersion(p *Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and build information",
		Example: "  powerbox version\n" +
			"  powerbox version --output json",
	}
	output := OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := version.Read()
		if *output == "json" {
			return p.PrintJSON(b)
		}
		Printf(p.Stdout, "%s\n", b)
		return nil
	}
	return cmd
}
