package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// The goal, and the section of the page.
const (
	goal          = 300 * time.Millisecond
	origin        = "console.example.org/log"
	sectionBegins = "## The console with much data\n"
	sectionBefore = "## Hostile requests\n"
)

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (m measured) row() string {
	met := "met"
	if m.p95 > goal {
		met = "**missed**"
	}
	if m.failed > 0 {
		met = fmt.Sprintf("**%d not answered in time**", m.failed)
	}
	return fmt.Sprintf("| %s | %.1f | %.1f | %.1f | %.1f | %d | %s |", m.name, ms(m.first), ms(m.p50), ms(m.p95), ms(m.cpu), m.bytes>>10, met)
}

const explained = `The built program with ` + "`serve --dev`" + ` and its SQLite store, on loopback. ` + "`cd bench && go run ./console -write`" + ` fills the store, requests each page and writes this section.
%s, %s, %d CPUs (%s).

The store has %d waiting questions, %d agents, %d capabilities in force and %d records of %d days. The largest tree has %d capabilities, and the busiest caller holds %d.
The packages of the store put them there, in %s. The program is ready %s after its start.

An operator requests each page %d times, one request after the other, or for at most %s. The goal is a p95 of at most %d ms.
First is the first of these requests. CPU is the mean user and system time of the program for one request; other work on the machine affects it less than the times. The machine's load was %s.
The highest resident memory of the program in the whole run is %d MiB.

| page | first ms | p50 ms | p95 ms | CPU ms | KiB | |
| --- | --- | --- | --- | --- | --- | --- |
`

// section is the section of the page.
func (r result) section(now time.Time) string {
	var b strings.Builder
	b.WriteString(sectionBegins + "\n")
	s := r.sizes
	fmt.Fprintf(&b, explained, now.Format("2 January 2006"), runtime.Version(), runtime.NumCPU(), processor(), s.questions, s.agents, s.capabilities, s.records, days,
		s.capabilities/largest, s.capabilities/busiest, r.filled.Round(time.Second), r.began.Round(100*time.Millisecond), r.times, slow, goal.Milliseconds(), load(), r.peak>>20)
	for _, m := range r.pages {
		b.WriteString(m.row() + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// load is how busy the machine is.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// processor is what the machine calls its processors.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t :\n")
		}
	}
	return runtime.GOARCH
}

// writeTo puts the section into a page, instead of the one that is there.
func writeTo(file, section string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), sectionBegins)
	if found {
		if _, after, ok := strings.Cut(rest, "\n## "); ok {
			rest = "## " + after
		}
	} else if before, rest, found = strings.Cut(string(old), sectionBefore); found {
		rest = sectionBefore + rest
	}
	if !found {
		return fmt.Errorf("%s has no section %q", file, strings.TrimSpace(sectionBefore))
	}
	return os.WriteFile(file, []byte(before+section+rest), 0o644) //nolint:gosec // a page of the documentation
}
