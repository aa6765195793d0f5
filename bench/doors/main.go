package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("doors", run) }

// settings are the flags.
type settings struct {
	rounds, rate int
	cell         time.Duration
	dir          string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 3 && args[0] == verbOPA {
		return serveOPA(ctx, args[1], args[2])
	}
	if len(args) == 2 && args[0] == verbPowerbox {
		return servePowerbox(ctx, args[1])
	}
	var s settings
	flags := command.Flags("doors", stderr)
	flags.IntVar(&s.rounds, "rounds", 6, "rounds; fewer than 6 are for trying things out")
	flags.IntVar(&s.rate, "rate", 200, "requests a second of each of the two that run at once")
	flags.DurationVar(&s.cell, "cell", 10*time.Second, "how long each contestant runs in a round")
	flags.StringVar(&s.dir, "dir", "", "folder on the disk for the records; default the system's temporary one")
	section := command.Writes(flags, section)
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, remove, err := command.Folder(s.dir, "doors")
	if err != nil {
		return err
	}
	defer remove(&err)
	s.dir = dir
	rows, err := measure(ctx, s, stderr)
	if err != nil {
		return err
	}
	return section.Put(ctx, stdout, func(now time.Time) string { return page(rows, s, now) })
}

// measure runs every contestant once in each round, beside the gateway's own decision.
func measure(ctx context.Context, s settings, progress io.Writer) (rows []row, err error) {
	t, err := newTown(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	rows = t.contestants()
	own := &rows[0]
	for round := range s.rounds + 1 { // the first one warms up
		for n := range rows[1:] {
			one := &rows[1+n]
			took, err := openLoop(ctx, s, own.ask, one.ask)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
			if round > 0 {
				own.rounds, one.rounds, one.own = append(own.rounds, took[0]), append(one.rounds, took[1]), append(one.own, took[0])
				fmt.Fprintf(progress, "round %d, %s: p50 %v, p99 %v; own p99 %v\n", round, one.name, took[1].p50, took[1].p99, took[0].p99)
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
