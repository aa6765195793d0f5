// Package auth has the commands of the Agent Auth Protocol: connect agents to providers, and serve them as tools of MCP.
package auth

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Commands are the commands of the group, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{newAgent(p), newMCP(p)}
}
