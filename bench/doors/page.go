package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// mostAdded is the goal: what a door may add to the p99 of the gateway's own decision.
const mostAdded = time.Millisecond

var section = built.Section{Begins: "## Decisions for other gateways\n", Before: "## Soak\n"}

// row is one contestant.
type row struct {
	name   string
	ask    asking
	goal   bool // whether the goal is about it
	rounds []quantiles
	own    []quantiles // of the gateway, in the same rounds
}

// quartile is the upper quartile of a number of the rounds, and half is their median.
func quartile(all []time.Duration) time.Duration { return at(all, 0.75) }

func half(all []time.Duration) time.Duration { return at(all, 0.5) }

func at(all []time.Duration, where float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(where*float64(len(all))))]
}

// each is a number of every round.
func (r row) each(value func(n int, q quantiles) time.Duration) []time.Duration {
	out := make([]time.Duration, len(r.rounds))
	for n, q := range r.rounds {
		out[n] = value(n, q)
	}
	return out
}

const explained = `Other gateways ask Powerbox for decisions (docs/how-to/other-gateways.md). These rows compare the latency of an answer with that of the gateway's own decision, which is measured inside the server.
` + "`cd bench && go run ./doors -write`" + ` measures them and writes this section.
%s

%d requests a second come at a fixed rate, %d rounds of %v for each row. As many go to the gateway's own decision in between, so that both meet the same state of disk and machine. Each request is a message to an A2A agent that names a skill, with a fresh proof of its sender; OPA's policy reads the same message and checks no proof. AuthZEN asks about the same skill in its own words, without a proof.
All run on this machine, each server in a separate process. Powerbox records each decision durably before the answer. OPA is measured as a library, because opa-envoy-plugin is not on the Go module proxy. Its decision log is on: once with a plugin that syncs the log to the disk before the answer, and once with the default, which does not sync.
The last row has the time of gRPC alone, between two processes: its answer is the same for every request.

A thin client asks by gRPC: the thread that has a request writes it and reads the answer, as a proxy's thread does. One row has the client of grpc-go, which hands each call to other goroutines and back.

The goal for the doors is at most %v over the gateway's own p99, in the upper quartile of the rounds.

| decision | p50 ms | p99 ms | p99 over the gateway's own, ms | upper quartile | |
| --- | --- | --- | --- | --- | --- |
`

// page is the section. The first row is the gateway's own decision.
func page(rows []row, s settings, now time.Time) string {
	var b strings.Builder
	b.WriteString(section.Begins + "\n")
	fmt.Fprintf(&b, explained, built.Machine(now), s.rate, s.rounds, s.cell, mostAdded)
	for _, r := range rows {
		p50, p99 := half(r.each(func(_ int, q quantiles) time.Duration { return q.p50 })), half(r.each(func(_ int, q quantiles) time.Duration { return q.p99 }))
		if r.own == nil {
			fmt.Fprintf(&b, "| %s | %.2f | %.2f | | | |\n", r.name, built.Milliseconds(p50), built.Milliseconds(p99))
			continue
		}
		over := r.each(func(n int, q quantiles) time.Duration { return q.p99 - r.own[n].p99 })
		met := ""
		if r.goal {
			if met = "met"; quartile(over) > mostAdded {
				met = "**missed**"
			}
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f | %.2f | %s |\n", r.name, built.Milliseconds(p50), built.Milliseconds(p99), built.Milliseconds(half(over)), built.Milliseconds(quartile(over)), met)
	}
	b.WriteString("\n")
	return b.String()
}
