package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// The goal, and the section of the page.
const (
	goal   = 300 * time.Millisecond
	origin = "console.example.org/log"
)

var section = built.Section{Begins: "## The console with much data\n", Before: "## Hostile requests\n"}

func (m measured) row() string {
	met := "met"
	if m.p95 > goal {
		met = "**missed**"
	}
	if m.failed > 0 {
		met = fmt.Sprintf("**%d not answered in time**", m.failed)
	}
	return fmt.Sprintf("| %s | %.1f | %.1f | %.1f | %.1f | %d | %s |", m.name, built.Milliseconds(m.first), built.Milliseconds(m.p50), built.Milliseconds(m.p95), built.Milliseconds(m.cpu), m.bytes>>10, met)
}

const explained = `The built program with ` + "`serve --dev`" + ` and its SQLite store, on loopback. ` + "`cd bench && go run ./console -write`" + ` fills the store, requests each page and writes this section.
%s

The store has %d waiting questions, %d agents, %d capabilities in force and %d records of %d days. The largest tree has %d capabilities, and the busiest caller holds %d.
The packages of the store put them there, in %s. The program is ready %s after its start.

An operator requests each page %d times, one request after the other, or for at most %s. The goal is a p95 of at most %d ms.
First is the first of these requests. CPU is the mean user and system time of the program for one request; other work on the machine affects it less than the times.
The highest resident memory of the program in the whole run is %.0f MiB.

| page | first ms | p50 ms | p95 ms | CPU ms | KiB | |
| --- | --- | --- | --- | --- | --- | --- |
`

// section is the section of the page.
func (r result) section(now time.Time) string {
	var b strings.Builder
	b.WriteString(section.Begins + "\n")
	s := r.sizes
	fmt.Fprintf(&b, explained, built.Machine(now), s.questions, s.agents, s.capabilities, s.records, days,
		s.capabilities/largest, s.capabilities/busiest, r.filled.Round(time.Second), r.began.Round(100*time.Millisecond), r.times, slow, goal.Milliseconds(), r.peak)
	for _, m := range r.pages {
		b.WriteString(m.row() + "\n")
	}
	b.WriteString("\n")
	return b.String()
}
