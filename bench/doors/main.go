package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "doors:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	rounds, rate int
	cell         time.Duration
	dir          string
	write        bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 3 && args[0] == verbOPA {
		return serveOPA(ctx, args[1], args[2])
	}
	if len(args) == 2 && args[0] == verbPowerbox {
		return servePowerbox(ctx, args[1])
	}
	var s settings
	flags := flag.NewFlagSet("doors", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.rounds, "rounds", 6, "rounds; fewer than 6 are for trying things out")
	flags.IntVar(&s.rate, "rate", 200, "requests a second")
	flags.DurationVar(&s.cell, "cell", 5*time.Second, "how long each contestant runs in a round")
	flags.StringVar(&s.dir, "dir", "", "folder on the disk for the records; default the system's temporary one")
	flags.BoolVar(&s.write, "write", false, "also write the section into docs/assurance/performance.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(s.dir, "powerbox-doors"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	rows, err := measure(ctx, s, stderr)
	if err != nil {
		return err
	}
	text := page(rows, s, time.Now())
	fmt.Fprint(stdout, text)
	if !s.write {
		return nil
	}
	tree, err := built.Tree(ctx)
	if err != nil {
		return err
	}
	return section.Write(tree, text)
}

// measure runs every contestant once in each round.
func measure(ctx context.Context, s settings, progress io.Writer) (rows []row, err error) {
	t, err := newTown(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	rows = t.contestants()
	for round := range s.rounds + 1 { // the first one warms up
		for n := range rows {
			took, err := openLoop(ctx, s, rows[n].ask)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rows[n].name, err)
			}
			if round > 0 {
				rows[n].rounds = append(rows[n].rounds, took)
				fmt.Fprintf(progress, "round %d, %s: p50 %v, p99 %v\n", round, rows[n].name, took.p50, took.p99)
			}
		}
	}
	return rows, nil
}

// child starts this program again under a verb.
func child(ctx context.Context, dir string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, args[0]+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                                  // the process has it
	p := exec.CommandContext(context.WithoutCancel(ctx), self, args...) //nolint:gosec // ourselves
	p.Dir, p.Stderr, p.Stdout = dir, log, log
	return p, p.Start()
}
