// Package auth has the commands of the Agent Auth Protocol: connect agents to providers, and use them.
package auth

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// Command is powerbox agent. Its command import is of another package, which links MCP.
func Command(p *cli.Program, imports *cobra.Command) *cobra.Command { return newAgent(p, imports) }
