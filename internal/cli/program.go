// Package cli is the base of the commands: flags that several share, the clients behind these flags, output, and exit codes.
package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is what every verb has of the world outside.
type Program struct {
	Env    func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time

	running bool // whether a verb has got as far as its own work
}

// Execute runs one command of the tree that root makes, and returns its exit code.
func Execute(ctx context.Context, newRoot func(*Program) *cobra.Command, p *Program, args []string) int {
	stdin, stdout, stderr := p.Stdin, forPeople(p.Stdout), forPeople(p.Stderr)
	data := &outlet{to: stdout}
	p.Stdout, p.Stderr = data, stderr
	root := newRoot(p)
	p.watch(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(data)
	root.SetErr(stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, err := root, error(nil)
	if found, _, _ := root.Find(args); len(args) > 0 && (args[0] == "help" || args[0] == "completion" || !found.Runnable()) {
		err = unknownCommand(root, args)
	}
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	untold := data.failed()
	if exitCode(err) == ExitFine {
		err = untold // output that was not written is a failure
	}
	if err != nil && !p.running && untold == nil {
		err = &exitStatus{exitUsage, pointToHelp(cmd, cmp.Or(unknownCommand(root, args), missingFlags(cmd, unknownFlag(cmd, err))))}
	}
	var status *exitStatus
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		Printf(stderr, "%s: interrupted\n", root.Name())
	case err != nil && (!errors.As(err, &status) || status.Err != nil):
		Document(stderr, root.Name()+": "+ErrorText(err))
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) && !strings.Contains(err.Error(), ownAuthority) {
			Document(stderr, ownAuthority)
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

// watch notes when a verb begins: every error before that is one of usage.
func (p *Program) watch(cmd *cobra.Command) {
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

// pointToHelp names the help of a command, unless the error of its use already names the right use.
func pointToHelp(cmd *cobra.Command, err error) error {
	for _, advice := range []string{"want", "see powerbox", "did you mean", "named by -c"} {
		if strings.Contains(err.Error(), advice) {
			return err
		}
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// missingFlags explains the flags that cobra's error only names. Other errors stay as they are.
func missingFlags(cmd *cobra.Command, err error) error {
	if !strings.HasPrefix(err.Error(), "required flag(s)") {
		return err
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if required := f.Annotations[cobra.BashCompOneRequiredFlag]; f.Changed || len(required) == 0 || required[0] != "true" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		missing = append(missing, strings.TrimSpace("--"+f.Name+" "+kind)+" is missing: "+strings.TrimSuffix(usage, " (required)"))
	})
	return errors.New(strings.Join(missing, "\n"))
}

// unknownFlag names the flags that a mistyped one can be. Other errors stay as they are.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	// Cobra suggests names of commands alone.
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	near := flags.SuggestionsFor(unknown.GetSpecifiedName())
	if len(near) == 0 {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
}

// unknownCommand returns an error if a word stands where a command is expected and is none. Cobra
// complains about the flags behind such a word first, and ignores it for help, for completion and
// for commands that only group others.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	found, rest, _ := root.Find(args)
	if found == nil || !found.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil
	}
	return argumentError(found, rest[:1], errors.ErrUnsupported)
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
	return fmt.Errorf("%q: wrong number of arguments; want: %s", strings.Join(args, " "), cmd.UseLine())
}

// ReadFile reads a file, or standard input where it is called "-".
func (p *Program) ReadFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.Stdin)
	}
	return os.ReadFile(name)
}
