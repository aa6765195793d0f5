package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// The goals, and the section of the page.
const (
	mostCPU      = 50 * time.Millisecond
	mostUnproven = 2 * time.Millisecond
	mostMiB      = 64.0
	mebibyte     = 1 << 20
)

var section = built.Section{Begins: "## Hostile requests\n", Before: "## Soak\n"}

// misses is what a row misses, "" for nothing.
func (m measured) misses() string {
	var missed []string
	if !m.identity.proven && m.cpu > mostUnproven {
		missed = append(missed, "CPU before authentication")
	} else if m.cpu > mostCPU {
		missed = append(missed, "CPU")
	}
	if m.peak/m.sent > mostMiB {
		missed = append(missed, "memory")
	}
	return strings.Join(missed, ", ")
}

// perMiB is the CPU time for each MiB sent, where a shorter request counts as one.
func (m measured) perMiB() time.Duration {
	return time.Duration(float64(m.cpu) / max(1, float64(m.bytes)/mebibyte))
}

func (m measured) row() string {
	missed := m.misses()
	if missed != "" {
		missed = "**" + missed + "**"
	}
	peak := max(0, m.peak)
	return fmt.Sprintf("| %s | %s | %d | %s | %.2f | %.1f | %.1f | %.1f | %s |", m.request.name, m.identity.name, m.bytes, m.answer, built.Milliseconds(m.cpu), built.Milliseconds(m.perMiB()), peak, peak/m.sent, missed)
}

const explained = `The built program with ` + "`serve --dev`" + ` and the default limits stands in front of stock agents on a2a-go and on the Go SDK of MCP, in mode require.
` + "`cd bench && go run ./hostile -write`" + ` sends it each request and writes this section.
%s

CPU is the user and system time of the process for one request, garbage collection included. It is the mean of 3 to 50 requests, one after the other.
CPU per MiB is that time divided by the size of the request in MiB; a shorter request counts as one MiB.
Peak memory is the growth of the resident set while the harness sends one MiB of copies at once: at least one copy and at most 64.
The harness restarts the program after each row whose peak is above %d MiB.
The program holds free memory at rest, which hides a part of the peak. A small number beside large ones therefore means little.
Bytes in are the bytes that the client sends, headers included. The gateway may refuse a request before it has read all of them.

The goals are at most %v of CPU for a request and at most %.0f MiB of memory for each MiB sent. If the caller is not authenticated, the goal is at most %v of CPU.
The second column is what the caller shows:

- none: nothing;
- forged token: a session token signed with a key that the gateway does not know;
- false capability: only a text in Powerbox-Capability that is no capability;
- authorized: a session token, and a capability that permits the skill;
- as named: the credentials in the name of the request, which the gateway does not accept.

The table has the rows that miss a goal, the %[6]d with the most CPU and the %[6]d with the most memory; the command prints every row while it measures. The last column names the goal that a row misses.

%[7]s
| request | caller shows | bytes in | answer | CPU ms | CPU ms per MiB | peak MiB | MiB per MiB sent | misses |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

// summary counts the rows that miss a goal, by what the caller shows.
func summary(rows []measured) string {
	var b strings.Builder
	b.WriteString("| caller shows | rows | miss a goal | highest CPU ms | highest CPU ms per MiB | most MiB per MiB sent |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, who := range identities {
		var all, missed int
		var cpu, per time.Duration
		var memory float64
		for _, m := range rows {
			if m.identity.name != who.name {
				continue
			}
			all++
			if m.misses() != "" {
				missed++
			}
			cpu, per, memory = max(cpu, m.cpu), max(per, m.perMiB()), max(memory, m.peak/m.sent)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f | %.1f | %.1f |\n", who.name, all, missed, built.Milliseconds(cpu), built.Milliseconds(per), memory)
	}
	return b.String()
}

// listed is how many rows the page has of those with the most CPU, and of those with the most
// memory.
const listed = 12

// costly are the rows that the page lists, in their order.
func costly(rows []measured) []measured {
	rank := func(of func(m measured) float64) float64 {
		all := make([]float64, 0, len(rows))
		for _, m := range rows {
			all = append(all, of(m))
		}
		slices.Sort(all)
		return all[max(0, len(all)-listed)]
	}
	cpu := func(m measured) float64 { return m.cpu.Seconds() }
	memory := func(m measured) float64 { return m.peak / m.sent }
	mostCPU, mostMemory := rank(cpu), rank(memory)
	return slices.DeleteFunc(slices.Clone(rows), func(m measured) bool {
		return m.misses() == "" && cpu(m) < mostCPU && memory(m) < mostMemory
	})
}

// page is the section.
func page(rows []measured, now time.Time) string {
	var b strings.Builder
	b.WriteString(section.Begins + "\n")
	fmt.Fprintf(&b, explained, built.Machine(now), tolerated, mostCPU, mostMiB, mostUnproven, listed, summary(rows))
	for _, m := range costly(rows) {
		b.WriteString(m.row() + "\n")
	}
	b.WriteString("\n")
	return b.String()
}
