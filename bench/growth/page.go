package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// goal is the largest exponent of what a restart or a page needs.
const goal = 0.3

// later is the one cost without a goal.
const later = "what the start leaves for later, CPU ms"

var section = built.Section{Begins: "## Growth\n", Before: "## Decisions for other gateways\n"}

type result struct {
	times  int
	series []*series
}

const explained = `How costs grow with the size of the store: the built program with ` + "`serve --dev`" + ` and SQLite, on loopback. ` + "`cd bench && go run ./growth -write`" + ` fills the store, measures and writes this section.
%s

One thing grows at a time. Of the others the store has %d agents, %d capabilities, %d revocations and %d records. The store's packages put them there, so the log has its chain, tree and signed checkpoints; SQL puts the revocations there.

The exponent is the slope of log(cost) over log(size) through the three sizes, by least squares: 0 is constant, 1 is linear. The goal is at most %.1f for what a restart or a page needs.
CPU is user and system time. That of a request is the program's, as the median of %d requests, one after the other. A governed call writes two signed records. Export counts the command and the server.
The first costs of a series are fixed costs of the program in part, so a linear part that is still small shows in the largest size first.

Searches for an agent, a caller or a user use an index that the server makes behind the log. Other searches look at 20,000 records at most, so their cost rises until the log has as many.
The server counts for Graph behind the log when calls leave time for it. A page that comes earlier has the rest read. The server keeps what it has counted, and continues there after a restart.
A stream is a message over HTTP/2 to an agent over HTTP/1.1, after its first event. Subscribers use HTTP/2, and an event is a revocation. Memory is that above the program without them.

The server has 20 bytes in memory for every revocation whose target has not expired. A start reads 16,384 of them. The server reads the others behind it, and asks the store until it has.
A start also makes or reads a key for each agent, and fetches 16 cards of agents. The server fetches the other cards behind it.
`

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// number writes a cost with three digits or as an integer.
func number(v float64) string {
	if v >= 100 {
		return thousands(int(v + 0.5))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// section is the section of the page.
func (r result) section(now time.Time) string {
	var b strings.Builder
	b.WriteString(section.Begins + "\n")
	fmt.Fprintf(&b, explained, built.Machine(now), few.agents, few.capabilities, few.revocations, few.records, goal, r.times)
	for _, s := range r.series {
		fmt.Fprintf(&b, "\n| %s |", s.name)
		for _, n := range s.sizes {
			b.WriteString(" " + thousands(n) + " |")
		}
		b.WriteString(" exponent | |\n|" + strings.Repeat(" --- |", len(s.sizes)+3) + "\n")
		for _, c := range s.costs {
			fmt.Fprintf(&b, "| %s |", c.name)
			for _, v := range c.at {
				b.WriteString(" " + number(v) + " |")
			}
			e, met := exponent(s.sizes, c.at), "met"
			switch {
			case c.name == later:
				met = "" // neither a restart nor a page waits for it
			case e > goal:
				met = "**missed**"
			}
			fmt.Fprintf(&b, " %.2f | %s |\n", e, met)
		}
	}
	b.WriteString("\n")
	return b.String()
}
