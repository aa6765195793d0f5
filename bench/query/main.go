package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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
		fmt.Fprintln(os.Stderr, "query:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("query", flag.ContinueOnError)
	flags.SetOutput(stderr)
	t := &town{progress: stderr, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // which request comes next is no secret
	flags.IntVar(&t.rows, "rows", 1_000_000, "rows of the table")
	samples := flags.Int("samples", 2000, "requests of each kind")
	powerbox := flags.String("powerbox", "", "the powerbox binary; built from this checkout where empty")
	write := flags.Bool("write", false, "also write the section of docs/assurance/performance.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp("", "powerbox-query"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.dir)) }()
	tree, err := built.Tree(ctx)
	if err != nil {
		return err
	}
	if t.binary, err = built.Binary(ctx, tree, *powerbox, t.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.fill(ctx); err != nil {
		return err
	}
	result, err := t.measure(ctx, *samples)
	if err != nil {
		return err
	}
	text := result.section(time.Now())
	fmt.Fprint(stdout, text)
	if *write {
		return section.Write(tree, text)
	}
	return nil
}
