// Package setup has the commands that start Powerbox: write a configuration, check an installation, serve.
package setup

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newInit(p), newDoctor(p), newServe(p), cli.NewVersion(p)}
}
