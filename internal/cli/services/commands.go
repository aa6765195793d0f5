// Package services has the commands that link MCP: the Agent Auth client as an MCP server, and the import of services
// as capabilities. Programs without them leave the package out.
package services

import (
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
)

// Commands are the commands of Agent Auth, in the order of the help text.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{auth.Command(p, newAgentImport(p)), newMCP(p)}
}
