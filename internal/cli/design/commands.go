// Package design has the commands for those who build agents: cards, contracts, delegation graphs.
package design

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newCard(p), newGraph(p)}
}
