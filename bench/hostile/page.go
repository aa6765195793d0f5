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

func (m measured) row() string {
	missed := m.misses()
	if missed != "" {
		missed = "**" + missed + "**"
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %.2f | %.1f | %.1f | %s |", m.request.name, m.identity.name, m.bytes, m.answer, float64(m.cpu.Microseconds())/1000, m.peak, m.peak/m.sent, missed)
}

const explained = `The built program with ` + "`serve --dev`" + ` and the default limits stands in front of stock agents on a2a-go and on the Go SDK of MCP, in mode require.
` + "`cd bench && go run ./hostile -write`" + ` sends it each request and writes this section.
%s, %s, %d CPUs (%s).

CPU is the user and system time of the process for one request, garbage collection included: the mean of 3 to 50 requests, one after the other.
Memory is the peak of the resident set above rest, while as many copies as make one MiB are sent at once (one where a request is longer, 64 at most).
The program is started anew before each row that would find more than %d MiB left by the row before.
Bytes are those that the client sends, headers included; the gateway may refuse a request before it has read them.

The goals: at most %v of CPU for a request, at most %.0f MiB of memory for each MiB sent, and at most %v of CPU where the caller is not authenticated.
A caller shows nothing, or a session token signed with a key that the gateway does not know, or a text in Powerbox-Capability that is no capability, or a session token and a capability that permit the call.
The last column names the goal that a row misses. %d of %d rows miss one.

| request | caller shows | bytes in | answer | CPU ms | peak MiB | MiB per MiB sent | misses |
| --- | --- | --- | --- | --- | --- | --- | --- |
`

// page is the section.
func page(rows []measured, now time.Time) string {
	missed := 0
	for _, m := range rows {
		if m.misses() != "" {
			missed++
		}
	}
	var b strings.Builder
	b.WriteString(sectionBegins + "\n")
	fmt.Fprintf(&b, explained, now.Format("2 January 2006"), runtime.Version(), runtime.NumCPU(), processor(), tolerated, mostCPU, mostMiB, mostUnproven, missed, len(rows))
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

// writeTo puts the section into a page, in the place of the one that is there.
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
