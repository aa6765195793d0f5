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

One program measures Powerbox and its peers in the same run, one after the other in every
round. A number is process CPU time (user and system, garbage collection included) unless
the row says otherwise.

- Reached is the median of the rounds' ratios.
- The quartile is the one on the bad side. A goal is met if the quartile meets it.
- Times depend on the machine, so quote ratios.

To repeat it:

    make bench

To write the result into this page: ` + "`" + `cd bench && go run . -write` + "`" + `.

{{.Facts}}

| row | against | goal | reached | quartile | |
| --- | --- | --- | --- | --- | --- |
{{range .Results}}{{.}}
{{end}}| warm, allocations | - | 0 | {{.Allocs}} | {{.Allocs}} | {{if eq .Allocs 0.0}}met{{else}}**missed**{{end}} |

A link is one signed token; 3 links are a root and two narrower tokens. Cold: the
chain is seen for the first time, and remembered. So are the keys of its holders, except
where the row says that they are known from 256 earlier chains. Warm: the chain has been seen before,
and the revocation of every link is looked up among 10,000. The work of go-ucan includes
a proof of possession, so ours includes one in that row.

Chain only is a SQLite table with the same records, seals, signatures, group commit and
durability. It has no tree, no checkpoint and no index by the id of a record. Both use
SQLite in the same way: one transaction and few statements for a batch. Records a second
and latencies are wall clock, so other work on the machine affects them. fsync is measured
beside them.

### The rows of the gateway

The gateway is ` + "`" + `powerbox serve` + "`" + ` with its SQLite store. Its peers are
httputil.ReverseProxy (256 idle connections, a buffer pool), Caddy's reverse_proxy, and a
plain handler that answers without a backend. Each is a separate process whose CPU time is measured.

- 32 callers have a connection each, with TLS 1.3, a client certificate and HTTP/1.1.
- All contestants call the same agent on loopback, which answers with a message of 1 KB.
- A request has 1 KB too, and names a skill, a resource and another argument.
- The peers forward it and check nothing.
- For each call the gateway writes two records into its chain and, later, its tree. The
  decision is on the disk before the call continues, and the outcome before the answer
  leaves. The gateway also signs the context for the agent.
- By reference: a certificate identifies the caller, which names a capability on record.
- (a) has evidence.signatures: batch, so one signature covers all records of a commit. The
  row without a goal, further down, signs every record.
- With a proof on every call, every record is signed too. Each call carries a chain of 3
  links, of which only the proof is new to the gateway. At first sight, root and links are
  new with every call.
- Latencies of (a) and of httputil are of calls at half the rate that (a) reached in the round.
- A call of "two waits for the disk" only writes two records of 1 KiB, one after the other, at the same rate. Calls
  that wait at once share a write, as at the gateway.
- The rate limit of a caller is off, because one caller makes all calls.
- Rows against proxies that check nothing are context. They have no goal.

### The rows of Caddy with OPA and of Caddy with JWTs

These rows compare (b) with two setups of other software that authorize and record each call.
Both forward to the agent process of (b), with the same TLS, callers and bodies.
CPU is the sum of all processes of a setup. The goals are against the better of the two.
Latencies are of calls at half the rate that the slowest of the three reached in the round.

- Caddy with OPA: forward_auth of Caddy asks OPA over HTTP on loopback. The policy of OPA checks
  method, path and a JWT: signature, issuer, audience, expiry and one claim. The line of the
  decision log is on the disk before OPA answers, so before the call continues. Nothing records
  the outcome.
- Caddy with JWTs: Caddy checks the same JWT, claim, method and path. The line of the access log
  is on the disk before the answer leaves, but after the agent has acted. Nothing is recorded
  before the call continues.
- In all three, calls that come while the disk is busy share the next fsync.

Both setups do less than the gateway:

- The token is a bearer token, the same in all calls. A copy of it works until it expires.
  The gateway checks a new proof for each call, which covers the request and its body.
- They read no body. They decide neither on the skill nor on the resource, and forward the body as it came.
- They have one line in a file for a call. The gateway has two records, for decision and outcome,
  each signed and linked to the one before.
- They look up no revocation, and sign no context for the agent.
- OPA remembers verified tokens (its cache io_jwt is on), so it checks one signature in all. Caddy
  with JWTs checks one for each call.

How they are built:

- OPA runs as a library behind a small HTTP server, in a separate process, because the REST API of OPA does not
  understand forward_auth. OPA prepares the query once.
- Neither OPA nor Caddy has a log that is synced. A plugin and a log writer of bench sync theirs.
- The Go module proxy serves no module of Caddy for JWTs. A handler of bench checks the token with
  golang-jwt.
- Caddy speaks HTTP/1.1 alone, keeps its connections to agent and OPA, asks for no compression, and logs
  errors only. Its administration interface is off.
- Before it is measured, each setup must refuse calls to another agent, and calls without a valid token. Tokens of
  another key, issuer, audience or grant, and expired ones, are tried. After each load, the log must have
  one line for each call. Anything else ends the measurement.
- agentgateway and Envoy are not measured: they are neither Go modules nor packages of Debian.

### The rows of policies

Each engine has n policies, one for each of n groups. The principal is in one group, and the
policy of that group, in the middle of the list, permits the request.

- Powerbox decides the call under its capability first, and asks its policy engine next. A policy names a
  group, an operation, a collection and an attribute of the resource. The engine has an
  index of groups, operations and collections, and evaluates the condition of the one policy that it finds.
- cedar-go evaluates the same conditions and has no index. Its two entities are made for each request.
- OPA evaluates a prepared query over n rules of one name, each of which compares four members of the
  input. OPA's own index finds the rule. The input is a map of Go, which OPA converts for each request.
  In the rows without a goal, the input is converted once, before.

### The rows of Agent Auth

The contestants are ` + "`" + `powerbox serve` + "`" + ` and better-auth's own server of the protocol on
Node. Each runs on SQLite with a write-ahead log and synchronous=FULL, over plain HTTP on
loopback, with one host that belongs to a user at both.

- A registration has a new key and is active at once. An execution has its own token.
- Powerbox writes one record for a registration and two for an execution. Each is signed,
  which is the default; in the rows that say so, one signature covers a commit.
- Powerbox checks the agent's signature, signs the context for the service, and calls the
  service over HTTP.
- The peer keeps no evidence. It calls the same kind of service through the adapter of its
  package (createOpenAPIHandler), and signs nothing for that.
- Where the peer answers itself, its capability is a function in its own process, so it
  has less to do than Powerbox.

{{.Why}}## Times

Median over the rounds.

| | CPU us |
| --- | --- |
{{range .Times}}| {{.Name}} | {{.Value}} |
{{end}}
| | |
| --- | --- |
{{range .Others}}| {{.Name}} | {{.Value}} |
{{end}}
{{.Curve}}{{.Console}}{{.Hostile}}{{.Soak}}## Peers

{{range .Peers}}- {{.}}
{{end}}{{.Size}}`))

// The sections that people, a soak, bench/hostile and bench/console write, which stay as they are
// when the table is measured anew.
const (
	whyBegins     = "### Why goals are missed\n\n"
	whyEnds       = "## Times\n"
	consoleBegins = "## The console with much data\n\n"
	hostileBegins = "## Hostile requests\n\n"
	soakBegins    = "## Soak\n\n"
	soakEnds      = "## Peers\n"
)

// sectionOf returns the section of a page from its heading to the heading of the next one, "" for none.
func sectionOf(page, begins, ends string) string {
	_, rest, found := strings.Cut(page, begins)
	section, _, ended := strings.Cut(rest, ends)
	if !found || !ended {
		return ""
	}
	return begins + section
}

// whyOf returns what people say about the numbers of a page.
func whyOf(page string) string { return sectionOf(page, whyBegins, whyEnds) }

func soakOf(page string) string { return sectionOf(page, soakBegins, soakEnds) }

func consoleOf(page string) string { return sectionOf(page, consoleBegins, hostileBegins) }

func hostileOf(page string) string { return sectionOf(page, hostileBegins, soakBegins) }

// sizeBegins begins the section about the size of the programs, which is the last one.
const sizeBegins = "\n## Size and start\n\n"

// sizeOf returns the section of a page about the size of the programs, "" for none.
func sizeOf(page string) string {
	_, rest, found := strings.Cut(page, sizeBegins)
	if !found {
		return ""
	}
	return sizeBegins + rest
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
		"Why": f.why, "Curve": f.curve, "Console": f.console, "Hostile": f.hostile, "Soak": f.soak, "Size": f.size, "Times": times, "Others": others, "Peers": append(peers(), f.peers...),
	})
}

// lines returns the medians by name: CPU times, and what has its own unit.
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
