package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"
)

var layout = template.Must(template.New("layout").Parse(`# Performance

Measured with peers and product in one program, in the same run, one after the
other in every round. A number is process CPU time (user and system, garbage
collection included) unless it says otherwise. Reached is the median of the
rounds' ratios, the quartile is the one on the bad side, and a goal is met where
the quartile meets it. Times depend on the machine; ratios are what to quote.

To repeat it:

    make bench

or, with this page as the result, ` + "`cd bench && go run . -write`" + `.

{{.Facts}}

| row | against | goal | reached | quartile | |
| --- | --- | --- | --- | --- | --- |
{{range .Results}}{{.}}
{{end}}| warm, allocations | - | 0 | {{.Allocs}} | {{.Allocs}} | {{if eq .Allocs 0.0}}met{{else}}**missed**{{end}} |

A link is one signed token; 3 links are a root and two narrower ones. Cold means
that the chain is seen for the first time and remembered; warm, that it has been
seen before, with the revocation of every link looked up among 10,000. go-ucan's
work has a proof of possession in it, so ours has one in that row. Chain only is
a SQLite table with the same records, seals, signatures, group commit and
durability, but no tree, no checkpoint and no look-up by the id of a record. Both
use SQLite in the same way: one transaction and few statements for a batch.
Records a second and latencies are wall clock, with whatever else the machine was
doing in them; fsync is measured beside them.

The rows of the gateway are ` + "`powerbox serve`" + ` as it is shipped, SQLite store and
all, beside httputil.ReverseProxy (256 idle connections, a buffer pool), Caddy's
reverse_proxy and a handler that answers itself, each a process of its own, of
which the CPU time is taken. 32 callers with a connection each, TLS 1.3 with a
client certificate and HTTP/1.1 in all of them, the same agent behind on
loopback, which answers with a message of 1 KB; the request has 1 KB too and
names a skill, a resource and another argument. The peers pass it on and check
nothing. For each call the gateway writes two records into its chain and, behind
that, its tree: a decision, which is on the disk before the call goes on, and an
outcome, which is on the disk before the answer goes back; and it signs the context for the agent
behind. By reference means that the caller is known by its certificate and names a
capability on record; (a) has evidence.signatures: batch, so one signature stands
for all records of a commit, and the row without a goal, further down, has them all
signed. With a proof on every call, where every record is signed too, a
chain of 3 links comes with each, known to the gateway but for the proof; at first
sight, root and links are new with every call. Latencies are of calls that come at
half the rate that (a) reached in the round, to (a) and to httputil alike. Limits of
the rate of one caller are off, since one makes all calls.

The rows of Agent Auth are ` + "`powerbox serve`" + ` and better-auth's own server of the
protocol on Node, each on SQLite with a write-ahead log and synchronous=FULL, over
plain HTTP on loopback, with one host that both know as a user's. A registration
has a key that nobody has seen and is active at once; an execution has a token of its
own. Ours writes a record with each registration, and two with each execution, each
signed, as is the default, but where the row says that one signature stands for all of a
commit; it checks the agent's signature, signs whose call it is for the service behind, and
asks that over HTTP. The peer keeps no evidence. It asks the same kind of service through the
adapter that its package has for one (createOpenAPIHandler), as a provider in front of a
service is built with it, and signs nothing for that; where it answers itself, its capability
is a function in its own process, so that it has less to do than ours.

## What is measured elsewhere

Several nodes on PostgreSQL (scale-out, revocation to 200 gateways, what is lost when parts are killed) in
[reliability.md](reliability.md), a thousand gateways in [scale.md](scale.md), graphs of 10,000 agents in [graph.md](../how-to/graph.md).

## What each took

Median over the rounds.

| | CPU us |
| --- | --- |
{{range .Times}}| {{.Name}} | {{.Value}} |
{{end}}
| | |
| --- | --- |
{{range .Others}}| {{.Name}} | {{.Value}} |
{{end}}
{{.Hostile}}{{.Soak}}## Peers

{{range .Peers}}- {{.}}
{{end}}`))

// The sections that a soak and bench/hostile write, which stay as they are when the
// table is measured anew.
const (
	hostileBegins = "## Hostile requests\n\n"
	soakBegins    = "## Soak\n\n"
	soakEnds      = "## Peers\n"
)

// soakOf returns the section of a page about the last soak, "" for none.
func soakOf(page string) string {
	_, rest, found := strings.Cut(page, soakBegins)
	section, _, ended := strings.Cut(rest, soakEnds)
	if !found || !ended {
		return ""
	}
	return soakBegins + section
}

// hostileOf returns the section of a page about hostile requests, "" for none. The soak's
// is behind it.
func hostileOf(page string) string {
	_, rest, found := strings.Cut(page, hostileBegins)
	section, _, ended := strings.Cut(rest, soakBegins)
	if !found || !ended {
		return ""
	}
	return hostileBegins + section
}

// withSoak returns a page with another section about a soak.
func withSoak(page, text string) string {
	before, after, _ := strings.Cut(strings.Replace(page, soakOf(page), "", 1), soakEnds)
	return before + soakBegins + text + "\n" + soakEnds + after
}

type line struct{ Name, Value string }

// report writes the page.
func (f *field) report(w io.Writer, rounds []round, cell time.Duration) error {
	var results []result
	for _, g := range f.goals() {
		results = append(results, g.judge(rounds))
	}
	times, others := lines(rounds)
	return layout.Execute(w, map[string]any{
		"Facts": facts(f.now, len(rounds), cell), "Results": results, "Allocs": f.allocs,
		"Hostile": f.hostile, "Soak": f.soak, "Times": times, "Others": others, "Peers": append(peers(), f.peers...),
	})
}

// lines returns the medians by name: CPU times, and what has a unit of its own.
func lines(rounds []round) (times, others []line) {
	values := map[string][]float64{}
	for _, r := range rounds {
		for name, v := range r {
			values[name] = append(values[name], v)
		}
	}
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		median := quantile(values[name], 0.5)
		if strings.HasSuffix(name, " ms") || strings.HasSuffix(name, " per second") {
			others = append(others, line{name, number(median)})
			continue
		}
		times = append(times, line{name, number(median / 1e3)})
	}
	return times, others
}

// facts is one paragraph on where and when.
func facts(now time.Time, rounds int, cell time.Duration) string {
	return fmt.Sprintf("%s, %s, %s/%s, %d CPUs (%s), %d rounds of %s for each contestant, forty times that for appends.",
		now.UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), rounds, cell)
}

// processor is the CPU's name where the system tells it.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "model unknown"
	}
	for l := range bytes.Lines(data) {
		if name, value, ok := strings.Cut(string(l), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "model unknown"
}

// peers lists the modules that were measured, as they were built.
func peers() []string {
	measured := []string{
		"github.com/biscuit-auth/biscuit-go/v2", "github.com/ucan-wg/go-ucan", "github.com/golang-jwt/jwt/v5", "github.com/superfly/macaroon",
		"github.com/cedar-policy/cedar-go", "github.com/open-policy-agent/opa", "modernc.org/sqlite",
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return measured
	}
	var out []string
	for _, m := range info.Deps {
		if slices.Contains(measured, m.Path) {
			out = append(out, m.Path+" "+m.Version)
		}
	}
	return out
}
