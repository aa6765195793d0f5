package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// count is what became of the cases of one family.
type count struct{ Cases, Answered, Executed, Differences, Rounded, Unanswered int }

// run is one run of the harness.
type run struct {
	town    *town
	records *records
	out     string // folder for differences
	talk    io.Writer

	mu     sync.Mutex
	counts map[string]map[string]*count // by binding and family
	recent map[string]*request          // by id of the record
	order  []string
	used   map[string]bool // records by which something was executed
	early  map[string]bool // those whose answer is yet to come; the value says whether a number was rounded
	found  []difference
}

// difference is one that was found.
type difference struct {
	Why     []string `json:"why"`
	Seen    seen     `json:"seen"`
	Record  record   `json:"record"`
	Request *request `json:"request"` // nil where it is no longer known
}

// remembered is how many requests are kept for a difference that is yet to be found.
const remembered = 1 << 16

func newRun(t *town, r *records, out string, talk io.Writer) *run {
	return &run{town: t, records: r, out: out, talk: talk, counts: map[string]map[string]*count{}, recent: map[string]*request{}, used: map[string]bool{}, early: map[string]bool{}}
}

func (r *run) of(binding, family string) *count {
	if r.counts[binding] == nil {
		r.counts[binding] = map[string]*count{}
	}
	if r.counts[binding][family] == nil {
		r.counts[binding][family] = &count{}
	}
	return r.counts[binding][family]
}

// workers is how many calls are in flight.
const workers = 16

// binding runs cases of one binding until there were enough, or the time is over:
// those that are under way are awaited.
func (r *run) binding(ctx, limited context.Context, binding string, seed uint64, from, cases int) error {
	numbers := make(chan int)
	go func() {
		defer close(numbers)
		for i := from; i < from+cases && limited.Err() == nil; i++ {
			numbers <- i
		}
	}()
	errs := make(chan error, workers)
	for range workers {
		go func() { errs <- r.work(ctx, binding, seed, numbers) }()
	}
	var err error
	for range workers {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (r *run) work(ctx context.Context, binding string, seed uint64, numbers <-chan int) error {
	g, err := newGenerator(binding)
	s := newSender(r.town)
	defer s.close()
	for number := range numbers { // always to its end: the sender blocks otherwise
		if err == nil {
			r.try(ctx, s, g.make(seed, number))
		}
	}
	return err
}

// try sends one case.
func (r *run) try(ctx context.Context, s *sender, q *request) answer {
	a, err := s.send(ctx, q)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of(q.Binding, q.Family)
	c.Cases++
	if err != nil {
		c.Unanswered++
		if c.Unanswered == 1 {
			fmt.Fprintf(r.talk, "no answer to %s, case %d (%s): %q\n", q.Binding, q.Number, q.Family, err)
		}
		return a
	}
	if a.forwarded {
		c.Answered++
	}
	if a.decision == "" {
		return a
	}
	r.recent[a.decision] = q
	if round, ok := r.early[a.decision]; ok {
		delete(r.early, a.decision)
		c.executed(round)
	}
	if r.order = append(r.order, a.decision); len(r.order) > remembered {
		delete(r.recent, r.order[0])
		r.order = r.order[1:]
	}
	return a
}

// watch judges what handlers saw until the channel is closed.
func (r *run) watch(ctx context.Context, seen <-chan seen) {
	for s := range seen {
		r.judge(ctx, s)
	}
}

func (r *run) judge(ctx context.Context, s seen) {
	if strings.HasPrefix(s.Message, "own-") {
		return // of the harness itself
	}
	var rec record
	c, err := parseContext(s.Contexts)
	if err == nil {
		rec, err = r.records.get(ctx, c.Decision)
	}
	var why []string
	if err != nil {
		why = []string{err.Error()}
	} else {
		why = judge(s, c, rec, func(id string) bool {
			ids := r.town.real[s.Agent]
			return id != "" && (id == ids[foreignTask] || id == ids[foreignContext])
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.used[c.Decision] {
		why = append(why, "the record has let something through before")
	}
	r.used[c.Decision] = true
	q := r.recent[c.Decision]
	for start := time.Now(); q == nil && len(why) > 0 && time.Since(start) < callTime; q = r.recent[c.Decision] {
		r.mu.Unlock()
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // as above
		r.mu.Lock()
	}
	round := rounded(rec.Details.Arguments)
	if q == nil && len(why) == 0 {
		r.early[c.Decision] = round
		return
	}
	k := r.of("", "unknown")
	if q != nil {
		k = r.of(q.Binding, q.Family)
	}
	k.executed(round)
	if len(why) > 0 {
		k.Differences++
		r.found = append(r.found, difference{why, s, rec, q})
		r.print(r.found[len(r.found)-1], len(r.found))
	}
}

func (c *count) executed(rounded bool) {
	c.Executed++
	if rounded {
		c.Rounded++
	}
}

// printed is how many differences are printed and written; the others are counted.
const printed = 200

func (r *run) print(d difference, n int) {
	if n > printed {
		return
	}
	name := filepath.Join(r.out, fmt.Sprintf("difference-unknown-%d.json", n))
	if d.Request != nil {
		name = filepath.Join(r.out, fmt.Sprintf("difference-%s-%d.json", strings.ReplaceAll(d.Request.Binding, "/", "-"), d.Request.Number))
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil && r.out != "" {
		err = os.WriteFile(name, append(text, '\n'), 0o600)
	}
	what := "a request that is no longer known"
	if d.Request != nil {
		what = fmt.Sprintf("%s, %s, case %d of %s", d.Request.Binding, d.Request.Family, d.Request.Number, d.Request.Seed)
	}
	fmt.Fprintf(r.talk, "difference %d: %s: %s (%s)\n", n, what, strings.Join(d.Why, "; "), name)
	if err != nil {
		fmt.Fprintln(r.talk, err)
	}
}

// table is what became of everything.
func (r *run) table(w io.Writer, all bool) count {
	r.mu.Lock()
	defer r.mu.Unlock()
	var whole count
	for _, round := range r.early { // the call had no answer, or one without the id of its record
		r.of("", "unknown").executed(round)
	}
	fmt.Fprintf(w, "%-12s %-16s %9s %9s %9s %10s %9s %8s %8s\n", "binding", "family", "cases", "refused", "answered", "no answer", "executed", "rounded", "differ")
	for _, binding := range slices.Sorted(maps.Keys(r.counts)) {
		var sum count
		for _, family := range slices.Sorted(maps.Keys(r.counts[binding])) {
			c := r.counts[binding][family]
			if all {
				line(w, binding, family, *c)
			}
			sum.add(*c)
		}
		line(w, binding, "all", sum)
		whole.add(sum)
	}
	return whole
}

func (c *count) add(o count) {
	c.Cases += o.Cases
	c.Answered += o.Answered
	c.Executed += o.Executed
	c.Differences += o.Differences
	c.Rounded += o.Rounded
	c.Unanswered += o.Unanswered
}

func line(w io.Writer, binding, family string, c count) {
	fmt.Fprintf(w, "%-12s %-16s %9d %9d %9d %10d %9d %8d %8d\n", binding, family, c.Cases, c.Cases-c.Answered-c.Unanswered, c.Answered, c.Unanswered, c.Executed, c.Rounded, c.Differences)
}
