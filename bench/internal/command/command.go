// Package command is what the commands below bench share: they end when they are told to,
// measure in a temporary folder, and write what they found into a section of a page.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// ErrUsage is for a command line that the command does not understand. Main exits with 2.
var ErrUsage = errors.New("usage")

// Main runs a command until it returns, and exits. An interrupt or SIGTERM ends its context.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	if errors.Is(err, ErrUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

// Flags returns an empty set of flags. What Parse complains about goes to stderr.
func Flags(name string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	return flags
}

// Powerbox adds the flag -powerbox. Its value is for built.Binary.
func Powerbox(flags *flag.FlagSet) *string {
	return flags.String("powerbox", "", "the powerbox binary; built from this checkout where empty")
}

// Folder makes a temporary folder below a parent, which is the system's where empty.
// Remove removes it and joins what fails to *err.
func Folder(parent, name string) (dir string, remove func(err *error), err error) {
	dir, err = os.MkdirTemp(parent, "powerbox-"+name)
	return dir, func(err *error) { *err = errors.Join(*err, os.RemoveAll(dir)) }, err
}

// Section prints what a measurement found. With -write it also replaces the section of the page.
type Section struct {
	write *bool
	built built.Section
}

// Writes adds the flag -write for a section.
func Writes(flags *flag.FlagSet, s built.Section) Section {
	return Section{flags.Bool("write", false, "also write the section into docs/assurance/performance.md"), s}
}

// Put prints the section as of now, and writes it if the flag says so.
func (s Section) Put(ctx context.Context, stdout io.Writer, text func(now time.Time) string) error {
	found := text(time.Now())
	fmt.Fprint(stdout, found)
	if !*s.write {
		return nil
	}
	tree, err := built.Tree(ctx)
	if err != nil {
		return err
	}
	return s.built.Write(tree, found)
}
