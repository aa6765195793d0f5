package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// The goals, and the section of the page.
const (
	mostCPU       = 50 * time.Millisecond
	mostUnproven  = 2 * time.Millisecond
	mostMiB       = 64.0
	mebibyte      = 1 << 20
	sectionBegins = "## Hostile requests\n"
	sectionBefore = "## Soak\n"
)

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

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

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
	return fmt.Sprintf("| %s | %s | %d | %s | %.2f | %.1f | %.1f | %.1f | %s |", m.request.name, m.identity.name, m.bytes, m.answer, ms(m.cpu), ms(m.perMiB()), peak, peak/m.sent, missed)
}

const explained = `The built program with ` + "`serve --dev`" + ` and the default limits stands in front of stock agents on a2a-go and on the Go SDK of MCP, in mode require.
` + "`cd bench && go run ./hostile -write`" + ` sends it each request and writes this section.
%s, %s, %d CPUs (%s), load %s.

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

The last column names the goal that a row misses.

%s
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
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f | %.1f | %.1f |\n", who.name, all, missed, ms(cpu), ms(per), memory)
	}
	return b.String()
}

// load is how busy the machine is.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// page is the section.
func page(rows []measured, now time.Time) string {
	var b strings.Builder
	b.WriteString(sectionBegins + "\n")
	fmt.Fprintf(&b, explained, now.Format("2 January 2006"), runtime.Version(), runtime.NumCPU(), processor(), load(), tolerated, mostCPU, mostMiB, mostUnproven, summary(rows))
	for _, m := range rows {
		b.WriteString(m.row() + "\n")
	}
	b.WriteString("\n")
	return b.String()
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
