package main

import (
	"context"
	"errors"
	"io"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("console", run) }

// sizes say how much there is in the store.
type sizes struct{ questions, agents, capabilities, records int }

var whole = sizes{questions: 500, agents: 200, capabilities: 100_000, records: 1_000_000}

// part is a share of the sizes; the agents stay, since they are configuration.
func (s sizes) part(of float64) sizes {
	less := func(n int) int { return max(10, int(float64(n)*of)) }
	return sizes{less(s.questions), s.agents, less(s.capabilities), less(s.records)}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := command.Flags("console", stderr)
	share := flags.Float64("part", 1, "a part of the data, such as 0.01, for trying things out")
	times := flags.Int("times", 60, "how often each page is requested")
	only := flags.String("only", "", "request only the pages that have this in their name")
	dir := flags.String("dir", "", "a folder for the data, which is kept and used again; a temporary one where empty")
	powerbox := command.Powerbox(flags)
	section := command.Writes(flags, section)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		made, remove, failed := command.Folder("", "console")
		if failed != nil {
			return failed
		}
		defer remove(&err)
		*dir = made
	}
	if *powerbox, err = built.Binary(ctx, *powerbox, *dir); err != nil {
		return err
	}
	t := &town{dir: *dir, sizes: whole.part(*share), powerbox: *powerbox, progress: stderr}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.begin(ctx); err != nil {
		return err
	}
	result, err := t.measure(ctx, *times, *only)
	if err != nil {
		return err
	}
	return section.Put(ctx, stdout, result.section)
}
