package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("growth", run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := command.Flags("growth", stderr)
	var most amounts
	flags.IntVar(&most.records, "records", 1_000_000, "records at 100 times")
	flags.IntVar(&most.capabilities, "capabilities", 100_000, "capabilities at 100 times")
	flags.IntVar(&most.revocations, "revocations", 1_000_000, "revocations at 100 times")
	flags.IntVar(&most.agents, "agents", 1000, "agents at 100 times")
	open := map[string]*int{
		"stream":     flags.Int("streams", 10_000, "open streams at 100 times"),
		"subscriber": flags.Int("subscribers", 1000, "subscribers of the feed at 100 times"),
	}
	only := flags.String("only", "", "measure only records, capabilities, revocations, agents, open streams or subscribers of the feed")
	times := flags.Int("times", 30, "requests of each kind")
	powerbox := command.Powerbox(flags)
	section := command.Writes(flags, section)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if min(most.records, most.capabilities, most.revocations) < 1000 || most.agents < 200 || *times < 1 {
		return errors.New("at least 1,000 of each, 200 agents and one request")
	}
	dir, remove, err := command.Folder("", "growth")
	if err != nil {
		return err
	}
	defer remove(&err)
	binary, err := built.Binary(ctx, *powerbox, dir)
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
	for _, o := range openings() {
		if *only != "" && o.name != *only {
			continue
		}
		n := *open[o.one]
		s := &series{name: o.name, sizes: []int{n / 100, n / 10, n}}
		if err := o.measure(ctx, binary, dir, s, *times, stderr); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.series = append(r.series, s)
	}
	return section.Put(ctx, stdout, r.section)
}
