// Command powerbox gives agents the least authority that their task needs, and
// evidence of what they did with it.
//
// Data goes to standard output, messages go to standard error. The exit code is 0 for success or
// allowed, 1 for an error, 2 for wrong use of the command, 3 for denied, and 4 for invalid or tampered.
package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/capability"
	"github.com/powerbox-project/powerbox/internal/cli/design"
	"github.com/powerbox-project/powerbox/internal/cli/guard"
	"github.com/powerbox-project/powerbox/internal/cli/investigate"
	"github.com/powerbox-project/powerbox/internal/cli/nodes"
	"github.com/powerbox-project/powerbox/internal/cli/operate"
	"github.com/powerbox-project/powerbox/internal/cli/services"
	"github.com/powerbox-project/powerbox/internal/cli/setup"
	"github.com/powerbox-project/powerbox/internal/cli/verify"
	"github.com/powerbox-project/powerbox/internal/demo"
)

func main() { cli.Main(newRoot) }

// Run runs one command and returns its exit code.
func Run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot, args, env, stdin, stdout, stderr)
}

// newRoot returns the tree of commands: one constructor for each file.
func newRoot(p *cli.Program) *cobra.Command {
	root := cli.Complete(&cobra.Command{
		Use:   "powerbox",
		Short: "Least authority for AI agents",
		Long: "An agent requests a capability for one task. Every agent on the way can only narrow it, an operator can\n" +
			"revoke it at once, and every use is recorded as evidence.\n\n" +
			"New here? Run powerbox demo, then powerbox init.\n\n" + cli.ExitCodes,
		Example: "  powerbox demo                      show a capability requested, narrowed, used and revoked, on this machine only\n" +
			"  powerbox init --agent URL          write a configuration for a running agent; --mcp URL for an MCP server\n" +
			"  powerbox serve                     run the server with its gateway",
	}, groups(p))
	root.AddCommand(operate.OldNames(p)...)
	return root
}

func groups(p *cli.Program) []cli.Group {
	return []cli.Group{
		{ID: "start", Title: "Start", Commands: append([]*cobra.Command{demo.Command(p)}, setup.Commands(p)...)},
		{ID: "operate", Title: "Operate", Commands: operate.Commands(p)},
		{ID: "investigate", Title: "Stop and investigate", Commands: investigate.Commands(p)},
		{ID: "capability", Title: "Use a capability", Commands: capability.Commands(p)},
		{ID: "evidence", Title: "Evidence", Commands: verify.Commands(p)},
		{ID: "nodes", Title: "Many machines", Commands: nodes.Commands(p)},
		{ID: "design", Title: "Design", Commands: design.Commands(p)},
		{ID: "auth", Title: "Agent Auth", Commands: services.Commands(p)},
		{ID: "guard", Title: "Coding agents", Commands: guard.Commands(p)},
	}
}
