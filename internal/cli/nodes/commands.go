// Package nodes has the commands of the processes on other machines: remote gateways, relays of the feed, witnesses.
package nodes

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newGateway(p), newRelay(p), newWitness(p), newFeed(p)}
}
