package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// amounts say how much there is.
type amounts struct{ agents, capabilities, revocations, records int }

// few is what there is of everything that does not grow in a series.
var few = amounts{agents: 10, capabilities: 100, revocations: 100, records: 1000}

// cost is one cost at each size of a series.
type cost struct {
	name string
	at   []float64
}

// series is one thing that grows, with its costs.
type series struct {
	name  string
	sizes []int
	of    func(a *amounts) *int
	costs []cost
}

// all are the things that grow, each to its largest size.
func all(most amounts) []*series {
	out := []*series{
		{name: "records", of: func(a *amounts) *int { return &a.records }},
		{name: "capabilities", of: func(a *amounts) *int { return &a.capabilities }},
		{name: "revocations", of: func(a *amounts) *int { return &a.revocations }},
		{name: "agents", of: func(a *amounts) *int { return &a.agents }},
	}
	for _, s := range out {
		n := *s.of(&most)
		s.sizes = []int{n / 100, n / 10, n}
	}
	return out
}

// measure fills one store more and more, and measures the program over it at each size.
func (s *series) measure(ctx context.Context, binary, dir string, times int, progress io.Writer) (err error) {
	t := &town{binary: binary, dir: filepath.Join(dir, s.name)}
	defer func() { err = errors.Join(err, t.close(), os.RemoveAll(t.dir)) }()
	for _, n := range s.sizes {
		want := few
		*s.of(&want) = n
		began := time.Now()
		if err := t.fill(ctx, want); err != nil {
			return fmt.Errorf("filling the store: %w", err)
		}
		fmt.Fprintf(progress, "%d %s, filled in %s\n", n, s.name, time.Since(began).Round(time.Second))
		if err := s.measureAt(ctx, t, times, progress); err != nil {
			return err
		}
	}
	return nil
}

func (s *series) add(progress io.Writer, name string, value float64) {
	fmt.Fprintf(progress, "  %s %.3g\n", name, value)
	at := slices.IndexFunc(s.costs, func(c cost) bool { return c.name == name })
	if at < 0 {
		at, s.costs = len(s.costs), append(s.costs, cost{name: name})
	}
	s.costs[at].at = append(s.costs[at].at, value)
}

// read has the program read the log for Graph, which it keeps when it ends. The store's packages
// have put the records there, so that no program has read them yet.
func (s *series) read(ctx context.Context, t *town, progress io.Writer) error {
	if err := t.serve(ctx); err != nil {
		return err
	}
	if err := t.login(ctx); err != nil {
		return err
	}
	all := t.requests()
	at := slices.IndexFunc(all, func(r request) bool { return r.name == graph })
	spent, err := t.first(ctx, all[at])
	if err != nil {
		return err
	}
	if s.name == "records" {
		s.add(progress, "reading the log once for Graph, CPU us a new record", 1000*spent/float64(t.have.records-t.read))
	}
	t.read = t.have.records
	return t.program.End()
}

func (s *series) measureAt(ctx context.Context, t *town, times int, progress io.Writer) error {
	if err := s.read(ctx, t, progress); err != nil {
		return err
	}
	began := time.Now()
	if err := t.serve(ctx); err != nil {
		return err
	}
	s.add(progress, "restart to ready, ms", built.Milliseconds(time.Since(began)))
	spent, err := t.program.CPU()
	if err != nil {
		return err
	}
	s.add(progress, "restart to ready, CPU ms", built.Milliseconds(spent))
	memory, err := t.program.Memory("VmRSS")
	if err != nil {
		return err
	}
	s.add(progress, "resident memory then, MiB", memory)
	rest, err := t.untilQuiet(ctx, spent)
	if err != nil {
		return err
	}
	s.add(progress, later, built.Milliseconds(rest-spent))
	if memory, err = t.program.Memory("VmRSS"); err != nil {
		return err
	}
	s.add(progress, "resident memory after that, MiB", memory)
	if err := t.login(ctx); err != nil {
		return err
	}
	for _, one := range t.requests() {
		if one.name == graph {
			spent, err := t.first(ctx, one)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			s.add(progress, "first Graph after a restart and all that it starts, CPU ms", spent)
		}
		spent, err := t.repeat(ctx, one, times)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		s.add(progress, one.name+", CPU ms", spent)
	}
	if s.name == "records" {
		if err := s.bundle(ctx, t, progress); err != nil {
			return err
		}
	}
	if err := t.program.End(); err != nil {
		return err
	}
	if s.name == "agents" {
		return nil
	}
	bytes, err := size(filepath.Join(t.dir, "state"))
	s.add(progress, "disk, bytes for each", bytes/float64(*s.of(&t.have)))
	return err
}

// The program is quiet when it spends less than quiet in a pause.
const (
	pause = 1500 * time.Millisecond // longer than the server waits between two looks at its log
	quiet = 20 * time.Millisecond
)

// first returns the program's CPU time of one request and of all it does until it is quiet, in ms.
func (t *town) first(ctx context.Context, one request) (float64, error) {
	begin, err := t.program.CPU()
	if err != nil {
		return 0, err
	}
	if err := t.ask(ctx, one); err != nil {
		return 0, err
	}
	end, err := t.untilQuiet(ctx, begin)
	return built.Milliseconds(end - begin), err
}

// untilQuiet waits until the program is quiet, and returns its CPU time then. last is what it was before.
func (t *town) untilQuiet(ctx context.Context, last time.Duration) (time.Duration, error) {
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
		now, err := t.program.CPU()
		if err != nil || now-last < quiet {
			return now, err
		}
		last = now
	}
}

// repeat returns the median of the program's CPU time for a request, in ms.
func (t *town) repeat(ctx context.Context, one request, times int) (float64, error) {
	var all []float64
	for range times + 1 { // the first fills caches
		before, err := t.program.CPU()
		if err != nil {
			return 0, err
		}
		if err := t.ask(ctx, one); err != nil {
			return 0, err
		}
		after, err := t.program.CPU()
		if err != nil {
			return 0, err
		}
		all = append(all, float64((after-before).Nanoseconds())/1e6)
	}
	all = all[1:]
	slices.Sort(all)
	return all[len(all)/2], nil
}

// bundle exports all records and verifies them. CPU is that of the command and the server.
func (s *series) bundle(ctx context.Context, t *town, progress io.Writer) error {
	file := filepath.Join(t.dir, "bundle.jsonl")
	defer func() { _ = os.Remove(file) }() // its folder is removed too
	if _, err := t.command(ctx, "evidence", "trust", "--out", filepath.Join(t.dir, "trust.json")); err != nil {
		return err
	}
	before, err := t.program.CPU()
	if err != nil {
		return err
	}
	spent, err := t.command(ctx, "evidence", "export", "--out", file)
	if err != nil {
		return err
	}
	after, err := t.program.CPU()
	if err != nil {
		return err
	}
	n := float64(t.have.records)
	s.add(progress, "export, CPU us a record", float64((spent+after-before).Microseconds())/n)
	if spent, err = t.command(ctx, "evidence", "verify", file, "--trust", filepath.Join(t.dir, "trust.json")); err != nil {
		return err
	}
	s.add(progress, "verify, CPU us a record", float64(spent.Microseconds())/n)
	return nil
}

// command runs the binary and returns its CPU time.
func (t *town) command(ctx context.Context, words ...string) (time.Duration, error) {
	c := exec.CommandContext(ctx, t.binary, words...) //nolint:gosec // our own binary
	c.Dir = t.dir
	if out, err := c.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("powerbox %v: %w\n%s", words, err, out[max(0, len(out)-2000):])
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}

// size is the bytes of all files of a folder.
func size(dir string) (bytes float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += float64(info.Size())
		}
		return err
	})
	return bytes, err
}

// exponent is the slope of the line through log(cost) over log(size), by least squares.
func exponent(sizes []int, costs []float64) float64 {
	var mx, my, xy, xx float64
	n := float64(len(sizes))
	for i := range sizes {
		mx += math.Log(float64(sizes[i])) / n
		my += math.Log(costs[i]) / n
	}
	for i := range sizes {
		x := math.Log(float64(sizes[i])) - mx
		xy += x * (math.Log(costs[i]) - my)
		xx += x * x
	}
	return xy / xx
}
