package main

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var most amounts
	flags.IntVar(&most.records, "records", 1_000_000, "records at 100 times")
	flags.IntVar(&most.capabilities, "capabilities", 100_000, "capabilities at 100 times")
	flags.IntVar(&most.revocations, "revocations", 1_000_000, "revocations at 100 times")
	flags.IntVar(&most.agents, "agents", 1000, "agents at 100 times")
	only := flags.String("only", "", "measure only records, capabilities, revocations or agents")
	times := flags.Int("times", 30, "requests of each kind")
	powerbox := flags.String("powerbox", "", "the powerbox binary; built from this checkout where empty")
	write := flags.Bool("write", false, "also write the section of docs/assurance/performance.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if min(most.records, most.capabilities, most.revocations) < 1000 || most.agents < 200 || *times < 1 {
		return errors.New("at least 1,000 of each, 200 agents and one request")
	}
	dir, err := os.MkdirTemp("", "powerbox-growth")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree, err := built.Tree(ctx)
	if err != nil {
		return err
	}
	binary, err := built.Binary(ctx, tree, *powerbox, dir)
	if err != nil {
		return err
	}
	r := result{times: *times}
	for _, s := range all(most) {
		if *only != "" && s.name != *only {
			continue
		}
		if err := s.measure(ctx, binary, dir, *times, stderr); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.series = append(r.series, s)
	}
	text := r.section(time.Now())
	fmt.Fprint(stdout, text)
	if *write {
		return section.Write(tree, text)
	}
	return nil
}
