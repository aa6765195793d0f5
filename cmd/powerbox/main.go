// Command powerbox gives agents the least authority that their task needs, and
// evidence of what they did with it.
//
// Data goes to standard output, messages go to standard error. The exit code is 0 for success or
// allowed, 1 for an error, 2 for wrong use of the command, 3 for denied, and 4 for invalid or tampered.
package main

import (
	"context"
	"io"
	stdlog "log" //nolint:depguard // libraries alone write to it
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
	"github.com/powerbox-project/powerbox/internal/cli/capability"
	"github.com/powerbox-project/powerbox/internal/cli/design"
	"github.com/powerbox-project/powerbox/internal/cli/guard"
	"github.com/powerbox-project/powerbox/internal/cli/investigate"
	"github.com/powerbox-project/powerbox/internal/cli/nodes"
	"github.com/powerbox-project/powerbox/internal/cli/operate"
	"github.com/powerbox-project/powerbox/internal/cli/setup"
	"github.com/powerbox-project/powerbox/internal/cli/verify"
	"github.com/powerbox-project/powerbox/internal/demo"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/version"
)

func main() {
	stdlog.SetFlags(0) // the line of slog has its time
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	stdlog.SetOutput(libraryLog{log})
	steady.Announce(func(by time.Duration) { log.Warn("the clock of this machine jumped", "by", by.String()) })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to end; from then on the second one ends at once.
	context.AfterFunc(ctx, stop)
	code := Run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, newRoot, &cli.Program{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr, Now: wallClock(env)}, args)
}

// newRoot returns the tree of commands: one constructor for each file.
func newRoot(p *cli.Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "powerbox",
		Short: "Least authority for AI agents",
		Long: "An agent requests a capability for one task. Every agent on the way can only narrow it, an operator can\n" +
			"revoke it at once, and every use is recorded as evidence.\n\n" +
			"New here? Run powerbox demo, then powerbox init.\n\n" +
			"Exit codes:\n" +
			"  0  fine, or allowed\n" +
			"  1  an error\n" +
			"  2  wrong use of the command\n" +
			"  3  something is denied\n" +
			"  4  something is invalid, or was tampered with\n" +
			"  5  revoked, but not every gateway confirmed it (revoke --wait)",
		Example: "  powerbox demo                      show a capability requested, narrowed, used and revoked, on this machine only\n" +
			"  powerbox init --agent URL          write a configuration for a running agent; --mcp URL for an MCP server\n" +
			"  powerbox serve                     run the server with its gateway",
		Version:       version.Read().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cobra.EnableCommandSorting = false // the groups have their own order
	// Long adds to Short and does not repeat it.
	root.SetHelpTemplate("{{.Short}}.\n\n{{with .Long}}{{. | trimTrailingWhitespaces}}\n\n{{end}}{{.UsageString}}")
	root.SetVersionTemplate("{{.Version}}\n")
	for _, g := range groups(p) {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, command := range g.commands {
			command.GroupID = g.id
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(operate.OldNames(p)...)
	root.SetHelpCommandGroupID("start")
	root.SetCompletionCommandGroupID("start")
	return root
}

// group is a heading of the help text, with its commands.
type group struct {
	id, title string
	commands  []*cobra.Command
}

func groups(p *cli.Program) []group {
	return []group{
		{"start", "Start", append([]*cobra.Command{demo.Command(p)}, setup.Commands(p)...)},
		{"operate", "Operate", operate.Commands(p)},
		{"investigate", "Stop and investigate", investigate.Commands(p)},
		{"capability", "Use a capability", capability.Commands(p)},
		{"evidence", "Evidence", verify.Commands(p)},
		{"nodes", "Many machines", nodes.Commands(p)},
		{"design", "Design", design.Commands(p)},
		{"auth", "Agent Auth", auth.Commands(p)},
		{"guard", "Coding agents", guard.Commands(p)},
	}
}
