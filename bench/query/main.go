package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("query", run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := command.Flags("query", stderr)
	t := &town{progress: stderr, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // which request comes next is no secret
	flags.IntVar(&t.rows, "rows", 1_000_000, "rows of the table")
	samples := flags.Int("samples", 2000, "requests of each kind")
	powerbox := command.Powerbox(flags)
	section := command.Writes(flags, section)
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, remove, err := command.Folder("", "query")
	if err != nil {
		return err
	}
	defer remove(&err)
	t.dir = dir
	if t.binary, err = built.Binary(ctx, *powerbox, dir); err != nil {
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
	return section.Put(ctx, stdout, result.section)
}
