package cli

import (
	"context"
	"io"
	stdlog "log" //nolint:depguard // libraries alone write to it
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/version"
)

// Main is the main function of a program with the commands of a tree.
func Main(newRoot func(*Program) *cobra.Command) {
	stdlog.SetFlags(0) // the line of slog has its time
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	stdlog.SetOutput(libraryLog{log})
	steady.Announce(func(by time.Duration) { log.Warn("the clock of this machine jumped", "by", by.String()) })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to end; from then on the second one ends at once.
	context.AfterFunc(ctx, stop)
	code := Run(ctx, newRoot, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs one command of a tree under the clock of this machine, and returns its exit code.
func Run(ctx context.Context, newRoot func(*Program) *cobra.Command, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Execute(ctx, newRoot, &Program{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr, Now: wallClock(env)}, args)
}

// ExitCodes is the part of a program's help that explains its exit codes.
const ExitCodes = "Exit codes:\n" +
	"  0  fine, or allowed\n" +
	"  1  an error\n" +
	"  2  wrong use of the command\n" +
	"  3  something is denied\n" +
	"  4  something is invalid, or was tampered with\n" +
	"  5  revoked, but not every gateway confirmed it (revoke --wait)\n" +
	"  6  pending: a person has not answered yet"

// Group is a heading of the help text, with its commands.
type Group struct {
	ID, Title string
	Commands  []*cobra.Command
}

// Complete gives the root of a program its help, its version and its groups of commands. It
// uses no template of cobra: text/template would keep every method of every linked type.
func Complete(root *cobra.Command, groups []Group) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage, root.Args = true, true, cobra.NoArgs
	shows := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*shows {
			return cmd.Help()
		}
		Printf(cmd.OutOrStdout(), "%s\n", version.Read())
		return nil
	}
	cobra.EnableCommandSorting = false // the groups have their own order
	// Long adds to Short and does not repeat it.
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Short + ".\n\n"
		if cmd.Long != "" {
			text += strings.TrimRight(cmd.Long, " \t\n") + "\n\n"
		}
		Document(cmd.OutOrStdout(), text+cmd.UsageString())
	})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.ID, Title: g.Title})
		for _, command := range g.Commands {
			command.GroupID = g.ID
		}
		root.AddCommand(g.Commands...)
	}
	root.SetHelpCommandGroupID(groups[0].ID)
	root.SetCompletionCommandGroupID(groups[0].ID)
	return root
}
