package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// The goals.
const (
	goal         = 50 * time.Millisecond
	significance = 0.01
	floor        = 25 * time.Millisecond
)

var section = built.Section{Begins: "## Queries for resources\n", Before: "## Hostile requests\n"}

// latency is how long requests took that select something.
type latency struct {
	name          string
	p50, p99, max time.Duration
}

// pair compares the time of hidden resources with that of absent ones.
type pair struct {
	name           string
	floor          time.Duration
	hidden, absent time.Duration // medians
	chance         float64       // that a hidden one takes longer than an absent one
	p              float64       // two-sided, of Mann-Whitney's test
}

type result struct {
	rows, samples int
	latencies     []latency
	pairs         []pair
}

// absent is the customer that no row has.
const absent = `{"customer":"customer-x"}`

// hidden are filters that select only rows that alice may not see.
var hidden = []struct{ name, filter string }{
	{"rows of other users", `{"customer":"customer-0"}`}, {"rows that policy hides", `{"customer":"customer-1"}`},
}

func (t *town) measure(ctx context.Context, samples int) (result, error) {
	r := result{rows: t.rows, samples: samples}
	if err := t.serve(ctx, floor); err != nil {
		return r, err
	}
	for _, one := range []struct {
		name   string
		filter func() string
	}{
		{"all rows of the user, first page", func() string { return "{}" }},
		{"one customer", func() string { return fmt.Sprintf(`{"customer":"customer-%d"}`, 2+t.random.IntN(customers-2)) }},
		{"a range of years", func() string { return fmt.Sprintf(`{"year":{"min":%[1]d,"max":%[1]d}}`, 2000+t.random.IntN(20)) }},
	} {
		l, err := t.latency(ctx, one.name, one.filter, samples)
		if err != nil {
			return r, err
		}
		r.latencies = append(r.latencies, l)
	}
	for _, h := range hidden {
		p, err := t.compare(ctx, h.name, h.filter, floor, samples)
		if err != nil {
			return r, err
		}
		r.pairs = append(r.pairs, p)
	}
	// With nearly no floor the same test has to see the difference, or it sees nothing.
	if err := t.program.End(); err != nil {
		return r, err
	}
	if err := t.serve(ctx, time.Millisecond); err != nil {
		return r, err
	}
	p, err := t.compare(ctx, hidden[1].name, hidden[1].filter, time.Millisecond, samples)
	r.pairs = append(r.pairs, p)
	return r, err
}

func (t *town) latency(ctx context.Context, name string, filter func() string, samples int) (latency, error) {
	fmt.Fprintln(t.progress, name)
	var all []time.Duration
	for range samples {
		took, resources, err := t.ask(ctx, filter())
		if err == nil && resources == 0 {
			err = fmt.Errorf("%s selects nothing", name)
		}
		if err != nil {
			return latency{}, err
		}
		all = append(all, took)
	}
	slices.Sort(all)
	return latency{name, all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}, nil
}

// compare asks for hidden and absent resources in a random order.
func (t *town) compare(ctx context.Context, name, filter string, floor time.Duration, samples int) (pair, error) {
	fmt.Fprintf(t.progress, "%s, floor %s\n", name, floor)
	order := make([]bool, 2*samples)
	for n := range order {
		order[n] = n%2 == 0
	}
	t.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var h, a []time.Duration
	for _, isHidden := range order {
		asked := absent
		if isHidden {
			asked = filter
		}
		took, resources, err := t.ask(ctx, asked)
		if err == nil && resources > 0 {
			err = fmt.Errorf("%s are visible", name)
		}
		if err != nil {
			return pair{}, err
		}
		if isHidden {
			h = append(h, took)
		} else {
			a = append(a, took)
		}
	}
	p := pair{name: name, floor: floor}
	p.chance, p.p = mannWhitney(h, a)
	slices.Sort(h)
	slices.Sort(a)
	p.hidden, p.absent = h[len(h)/2], a[len(a)/2]
	return p, nil
}

// mannWhitney returns the chance that a value of x is larger than one of y, ties as halves,
// and the two-sided p by the normal approximation without a correction for ties, which
// times in nanoseconds hardly have.
func mannWhitney(x, y []time.Duration) (chance, p float64) {
	type value struct {
		of time.Duration
		x  bool
	}
	var all []value
	for _, v := range x {
		all = append(all, value{v, true})
	}
	for _, v := range y {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.of, b.of) })
	ranks := 0.0
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to].of == all[from].of {
			to++
		}
		for _, v := range all[from:to] {
			if v.x {
				ranks += float64(from+to+1) / 2
			}
		}
		from = to
	}
	n, m := float64(len(x)), float64(len(y))
	u := ranks - n*(n+1)/2
	z := (u - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
	return u / (n * m), math.Erfc(math.Abs(z) / math.Sqrt2)
}

const explained = `The built program with ` + "`serve --dev`" + ` and its SQLite store asks PostgreSQL 15 or newer on the same machine, over a socket. ` + "`cd bench && go run ./query -write`" + ` fills the table, measures and writes this section.
%s

The table has %d rows of %d users, with an index by user and one by customer. One caller requests a capability, one request after the other, and no page is kept.
A time is that of the whole call: session, lookup, policy, the signed token, and the record on the disk. The whole request has a floor of %s and a random part of up to half of it ([resources](../how-to/resources.md)).

| %d requests each | p50 ms | p99 ms | largest ms | p99 at most %d ms |
| --- | --- | --- | --- | --- |
`

const explainedPairs = `
The second table compares requests that select only hidden rows with requests that select none. %d of each are sent in a random order.
The test is that of Mann and Whitney, two-sided. The goal is p of at least %g: the times do not tell the two apart. Chance is how probable it is that a hidden row takes longer; 0.5 tells nothing.
The last row is the control: with nearly no floor, the same test has to find the difference.

| hidden | floor | hidden p50 ms | absent p50 ms | chance | p | |
| --- | --- | --- | --- | --- | --- | --- |
`

// section is the section of the page.
func (r result) section(now time.Time) string {
	var b strings.Builder
	b.WriteString(section.Begins + "\n")
	fmt.Fprintf(&b, explained, built.Machine(now), r.rows, owners, floor, r.samples, goal.Milliseconds())
	said := func(met bool) string {
		if met {
			return "met"
		}
		return "**missed**"
	}
	for _, l := range r.latencies {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %s |\n", l.name, built.Milliseconds(l.p50), built.Milliseconds(l.p99), built.Milliseconds(l.max), said(l.p99 <= goal))
	}
	fmt.Fprintf(&b, explainedPairs, r.samples, significance)
	for _, p := range r.pairs {
		met := said(p.p >= significance)
		if p.floor != floor {
			met = "control: " + map[bool]string{true: "found", false: "**not found**"}[p.p < significance]
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f | %.3f | %.2g | %s |\n", p.name, p.floor, built.Milliseconds(p.hidden), built.Milliseconds(p.absent), p.chance, p.p, met)
	}
	b.WriteString("\n")
	return b.String()
}
