// Command powerbox gives agents the least authority that their task needs, and
// evidence of what they did with it.
//
// Standard output is data, standard error is talk. It exits with 0 where all
// is fine or allowed, 1 on an error, 2 on a wrong use of the command, 3 where
// something is denied and 4 where something is invalid or was tampered with.
package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	stdlog "log" //nolint:depguard // where libraries write to, and nobody else
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/steady"
)

// The exit codes.
const (
	exitFine    = 0
	exitError   = 1
	exitUsage   = 2
	exitDenied  = 3
	exitInvalid = 4
	exitLags    = 5
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

// program is what every verb has of the world outside.
type program struct {
	env    func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time

	running bool // whether a verb has got as far as its own work
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	return execute(ctx, newRoot, &program{env: env, stdin: stdin, stdout: stdout, stderr: stderr, now: wallClock(env)}, args)
}

// execute runs one command of the tree that root makes, and returns its exit code.
func execute(ctx context.Context, newRoot func(*program) *cobra.Command, p *program, args []string) int {
	stdin, stdout, stderr := p.stdin, forPeople(p.stdout), forPeople(p.stderr)
	data := &outlet{to: stdout}
	p.stdout, p.stderr = data, stderr
	root := newRoot(p)
	p.watch(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(data)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	untold := data.failed()
	if exitCode(err) == exitFine {
		err = untold // what was not told was not done
	}
	if err != nil && !p.running && untold == nil {
		err = &exitStatus{exitUsage, err}
	}
	var status *exitStatus
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "powerbox: interrupted")
	case err != nil && (!errors.As(err, &status) || status.err != nil):
		fmt.Fprintln(stderr, "powerbox:", err)
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) && !strings.Contains(err.Error(), ownAuthority) {
			fmt.Fprintln(stderr, ownAuthority)
		}
	}
	return exitCode(err)
}

// outlet is standard output. It remembers that something could not be written, which most verbs
// do not look at. As the file, it may be written by several at once.
type outlet struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Write implements [io.Writer].
func (t *outlet) Write(b []byte) (int, error) {
	n, err := t.to.Write(b)
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err = cmp.Or(t.err, err)
	}
	return n, err
}

// failed is the first error of writing, nil for none.
func (t *outlet) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// newRoot returns the tree of commands: one constructor for each file.
func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:   "powerbox",
		Short: "Least authority for AI agents",
		Long: "Least authority for AI agents: an agent asks for what one task needs, every hop can only narrow it, it can be taken\n" +
			"back in a moment, and every use leaves evidence.\n\n" +
			"Exit codes:\n" +
			"  0  fine, or allowed\n" +
			"  1  an error\n" +
			"  2  wrong use of the command\n" +
			"  3  something is denied\n" +
			"  4  something is invalid, or was tampered with\n" +
			"  5  revoked, and not every gateway said that it has it (revoke --wait)",
		Version:       readBuild().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		newDemo(p), newInit(p), newDoctor(p), newServe(p), newGateway(p), newRelay(p), newWitness(p), newAttach(p), newRequest(p), newNarrow(p), newCall(p), newAgent(p), newMCP(p), newApproval(p), newMode(p),
		newRevoke(p), newFreeze(p), newThaw(p), newPerson(p), newFeed(p),
		newExplain(p), newTrace(p), newReport(p), newUsage(p), newCan(p), newPolicy(p), newEvidence(p), newToken(p), newCard(p), newGraph(p), newDiff(p), newApply(p), newGrant(p), newRegistry(p), newConformance(p), newTrust(p), newMigrate(p), newStore(p), newKeys(p), newConfig(p), newLogin(p), newVersion(p),
	)
	return root
}

// watch notes when a verb begins: every error before that is one of usage.
func (p *program) watch(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			p.running = true
			return run(cmd, args)
		}
	}
	checked := cmd.Args
	if checked == nil {
		checked = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error { return argumentError(cmd, args, checked(cmd, args)) }
	for _, c := range cmd.Commands() {
		p.watch(c)
	}
}

// argumentError says what a verb wants where its arguments are wrong.
func argumentError(cmd *cobra.Command, args []string, err error) error {
	switch {
	case err == nil:
		return nil
	case cmd.HasAvailableSubCommands() && len(args) > 0:
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q for %q; did you mean %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
		}
		return fmt.Errorf("unknown command %q for %q; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
	case len(args) == 0:
		return fmt.Errorf("an argument is missing; want: %s", cmd.UseLine())
	case cmd.Flags().Lookup("config") != nil && strings.HasSuffix(args[len(args)-1], ".yaml"):
		return fmt.Errorf("%q is an argument too many; a configuration is named by -c: %s -c %s", args[len(args)-1], cmd.CommandPath(), args[len(args)-1])
	}
	return fmt.Errorf("%q is not what it takes; want: %s", strings.Join(args, " "), cmd.UseLine())
}

// exitStatus is an error that has an exit code of its own. Without err there is
// nothing to say on standard error: the answer is on standard output.
type exitStatus struct {
	code int
	err  error
}

func (e *exitStatus) Error() string { return fmt.Sprint(e.err) }
func (e *exitStatus) Unwrap() error { return e.err }

// exitWith makes an error that has an exit code of its own. A nil err says nothing on standard error.
func exitWith(code int, err error) error { return &exitStatus{code, err} }

// usage makes err, which is not nil, one of wrong use.
func usage(err error) error {
	return &exitStatus{exitUsage, err}
}

func exitCode(err error) int {
	var status *exitStatus
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &status):
		return status.code
	case errors.Is(err, powerbox.ErrDenied):
		return exitDenied
	}
	return exitError
}

// readFile reads a file, or standard input where it is called "-".
func (p *program) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.stdin)
	}
	return os.ReadFile(name)
}
