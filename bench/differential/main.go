package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/bench/internal/command"
)

func main() { command.Main("differential", start) }

// options are what a run is told.
type options struct {
	powerbox, out, replay, dir string
	bindings                   []string
	cases, part                int
	seed                       uint64
	limit                      time.Duration
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := command.Flags("differential", stderr)
	powerbox := command.Powerbox(flags)
	flags.StringVar(&o.out, "out", "", "folder for differences; a new one below the system's for temporary files where empty")
	flags.StringVar(&o.dir, "dir", "", "folder in which the stores are, such as one in memory (/dev/shm); that for temporary files where empty")
	flags.StringVar(&o.replay, "replay", "", "file of a difference, whose request is sent again")
	names := flags.String("bindings", strings.Join(bindings, ","), "what to try")
	flags.IntVar(&o.cases, "cases", 1_000_000, "cases of every binding")
	flags.IntVar(&o.part, "part", 200_000, "cases of a binding after which everything is started anew, so that no store grows on")
	flags.Uint64Var(&o.seed, "seed", 1, "what the cases are made of, with binding and number")
	flags.DurationVar(&o.limit, "time", 0, "longest time for every binding; 0 for no bound")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.powerbox, o.bindings = *powerbox, strings.Split(*names, ",")
	whole, err := o.run(ctx, stdout)
	if err == nil && whole.Differences > 0 {
		err = fmt.Errorf("%d differences; their requests are in %s", whole.Differences, o.out)
	}
	return err
}

// run tries every binding, and prints what became of the cases.
func (o *options) run(ctx context.Context, stdout io.Writer) (whole count, err error) {
	if o.out == "" {
		if o.out, err = os.MkdirTemp("", "differences"); err != nil {
			return whole, err
		}
	}
	if err := os.MkdirAll(o.out, 0o700); err != nil {
		return whole, err
	}
	dir, remove, err := command.Folder(o.dir, "differential")
	if err != nil {
		return whole, err
	}
	defer remove(&err)
	if o.powerbox, err = built.Binary(ctx, o.powerbox, dir); err != nil {
		return whole, err
	}
	if o.replay != "" {
		return o.again(ctx, stdout)
	}
	for _, binding := range o.bindings {
		c, err := o.try(ctx, binding, stdout)
		whole.add(c)
		if err != nil {
			return whole, fmt.Errorf("%s: %w", binding, err)
		}
	}
	if whole.Executed == 0 {
		return whole, errors.New("no handler was reached, so nothing was compared")
	}
	return whole, nil
}

// try runs the cases of one binding, in parts.
func (o *options) try(ctx context.Context, binding string, stdout io.Writer) (count, error) {
	var whole count
	limited, cancel := ctx, context.CancelFunc(func() {})
	if o.limit > 0 {
		limited, cancel = context.WithTimeout(ctx, o.limit)
	}
	defer cancel()
	start := time.Now()
	for from := 0; from < o.cases && limited.Err() == nil; from += o.part {
		c, err := o.stretch(ctx, binding, stdout, func(r *run) error {
			return r.binding(ctx, limited, binding, o.seed, from, min(o.part, o.cases-from))
		})
		whole.add(c)
		if err != nil {
			return whole, err
		}
	}
	elapsed := time.Since(start)
	fmt.Fprintf(stdout, "%s: %d cases in %v, %.0f in a second; %d executed, %d differences\n", binding, whole.Cases, elapsed.Round(time.Second),
		float64(whole.Cases)/elapsed.Seconds(), whole.Executed, whole.Differences)
	return whole, nil
}

// stretch has its own town.
func (o *options) stretch(ctx context.Context, binding string, stdout io.Writer, what func(*run) error) (total count, err error) {
	dir, remove, err := command.Folder(o.dir, "differential")
	if err != nil {
		return count{}, err
	}
	defer remove(&err)
	t, err := newTown(ctx, dir, o.powerbox, []string{binding})
	if err != nil {
		return count{}, err
	}
	defer t.close()
	records, err := openRecords(ctx, dir)
	if err != nil {
		return count{}, err
	}
	defer records.close()
	r := newRun(t, records, o.out, stdout)
	watched := make(chan struct{})
	go func() { r.watch(ctx, t.seen); close(watched) }()
	err = what(r)
	t.close()
	close(t.seen)
	<-watched
	return r.table(stdout, true), err
}

// again sends the request of a difference once more.
func (o *options) again(ctx context.Context, stdout io.Writer) (count, error) {
	text, err := os.ReadFile(o.replay)
	if err != nil {
		return count{}, err
	}
	var d difference
	if err := json.Unmarshal(text, &d); err != nil || d.Request == nil {
		return count{}, fmt.Errorf("%s holds no request: %w", o.replay, err)
	}
	return o.stretch(ctx, d.Request.Binding, stdout, func(r *run) error {
		s := newSender(r.town)
		defer s.close()
		a := r.try(ctx, s, d.Request)
		fmt.Fprintf(stdout, "status %d, decision %q: %s\n", a.status, a.decision, a.body)
		return nil
	})
}
