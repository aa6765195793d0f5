package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

// shares are the loads of the curve, in percent of what a contestant reached with
// [closedCallers] callers that call again at once.
var shares = []int{10, 25, 50, 75, 90, 95, overload}

const (
	overload      = 300
	closedCallers = 64
	// openConnections are more than the calls that are under way while the gateway has too
	// many, so that each call can begin in its time.
	openConnections = 768
)

// point is what became of the calls at one load.
type point struct {
	share            int
	offered          float64 // calls a second
	served, refused  float64 // calls a second
	p50, p99         float64 // ms, of the calls that were served, from when they had to begin
	refusal          float64 // ms, p99 of those that were turned away
	fsync50, fsync99 float64 // ms, measured before it
	own, callers     float64 // us of CPU a call that was offered, of the contestant and of the callers
}

// row is the row of the table.
func (p point) row(name string) string {
	return fmt.Sprintf("| %s | %d | %.0f | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f / %.2f | %.0f | %.0f |",
		name, p.share, p.offered, p.served, p.refused, p.p50, p.p99, p.refusal, p.fsync50, p.fsync99, p.own, p.callers)
}

// curve is a contestant with its points.
type curve struct {
	name     string
	capacity float64 // calls a second
	points   []point
}

// open makes n calls that begin at random times of a mean rate, whatever the answers take.
// A latency counts from when the call had to begin, so that waiting for a connection or
// for the processor counts, too.
func (l load) open(conns []*conn, n int, perSecond float64, request func(i int) []byte) (served, refused []float64, took time.Duration, err error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the times of calls, alike in all runs
	begins := make([]time.Duration, n)
	for i, at := 0, 0.0; i < n; i++ {
		at += random.ExpFloat64() / perSecond
		begins[i] = time.Duration(at * float64(time.Second))
	}
	latencies, turned := make([]float64, n), make([]bool, n)
	var next atomic.Int64
	start := time.Now()
	err = each(conns, func(c *conn) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			begin := start.Add(begins[i])
			if wait := time.Until(begin); wait > 0 {
				time.Sleep(wait) //nolint:forbidigo // this sleep sets the pace
			}
			err := l.call(c, request(i))
			if turned[i] = err == errRefused; err != nil && !turned[i] { //nolint:errorlint // with Retry-After alone
				return err
			}
			latencies[i] = time.Since(begin).Seconds() * 1e3
		}
	})
	took = max(time.Since(start), begins[n-1])
	for i, ms := range latencies {
		if turned[i] {
			refused = append(refused, ms)
		} else {
			served = append(served, ms)
		}
	}
	return served, refused, took, err
}

// measure finds the capacity of a front, and then the latencies at every load.
func (f *front) measure(dir string, length time.Duration, progress func(string)) (curve, error) {
	c := curve{name: f.name}
	var err error
	if c.capacity, err = f.capacity(length); err != nil {
		return c, err
	}
	for _, share := range shares {
		progress(fmt.Sprintf("%s at %d %% of %.0f calls a second", f.name, share, c.capacity))
		p, err := f.at(share, c.capacity*float64(share)/100, length)
		if err != nil {
			return c, fmt.Errorf("%s at %d %%: %w\n%s", f.name, share, err, f.process.tail())
		}
		disk := round{}
		if err := fsyncTrial("fsync", dir).measure(disk, 300*time.Millisecond); err != nil {
			return c, err
		}
		p.fsync50, p.fsync99 = disk["fsync p50 ms"], disk["fsync p99 ms"]
		c.points = append(c.points, p)
		progress(p.row(f.name))
	}
	return c, nil
}

// capacity is how many calls a second a front answers to callers that call again at once.
func (f *front) capacity(length time.Duration) (float64, error) {
	n := int(1500 * length.Seconds())
	conns, err := f.dialed(closedCallers, n)
	if err != nil {
		return 0, err
	}
	elapsed, err := f.load.closed(conns, n, f.request)
	return float64(n) / elapsed.Seconds(), errors.Join(err, closeConns(conns))
}

// at makes calls at a rate.
func (f *front) at(share int, perSecond float64, length time.Duration) (p point, err error) {
	n := max(100, int(perSecond*length.Seconds()))
	conns, err := f.dialed(openConnections, n)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, closeConns(conns)) }()
	before, err := cpuOf(f.process)
	if err != nil {
		return p, err
	}
	served, refused, took, err := f.load.open(conns, n, perSecond, f.request)
	after, errCPU := cpuOf(f.process)
	err = errors.Join(err, errCPU)
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	return point{
		own: each(after.own - before.own), callers: each(after.callers - before.callers),
		share: share, offered: perSecond, served: float64(len(served)) / took.Seconds(), refused: float64(len(refused)) / took.Seconds(),
		p50: quantile(served, 0.5), p99: quantile(served, 0.99), refusal: quantile(refused, 0.99),
	}, err
}

// spent is CPU time of a contestant and of its callers, which are this process.
type spent struct{ own, callers time.Duration }

func cpuOf(p *process) (s spent, err error) {
	if s.own, err = p.cpu(); err != nil {
		return s, err
	}
	s.callers, err = processCPU()
	return s, err
}

// dialed opens connections and makes calls that are not counted, beside n that are.
func (f *front) dialed(connections, n int) ([]*conn, error) {
	warm := n/20 + closedCallers
	if f.fresh != nil {
		if err := f.fresh(n + warm); err != nil {
			return nil, err
		}
	}
	conns, err := f.load.dialAll(context.Background(), connections)
	if err != nil {
		return nil, err
	}
	if _, err := f.load.closed(conns[:closedCallers], warm, func(i int) []byte { return f.request(n + i) }); err != nil {
		return nil, errors.Join(err, closeConns(conns))
	}
	return conns, nil
}

// runCurve measures latency against load, and returns the section of the page and its
// picture. only is a part of the names of the contestants.
func runCurve(ctx context.Context, dir, binary, only string, length time.Duration, progress func(string)) (section, picture string, err error) {
	var curves []curve
	load := loadNow()
	for _, one := range contestants {
		if !strings.Contains(one.name, only) {
			continue
		}
		c, err := one.run(ctx, dir, binary, length, progress)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", one.name, err)
		}
		if c != nil {
			curves = append(curves, *c)
		}
	}
	return curveSection(time.Now(), load, length, curves), drawCurves(curves), nil
}

// loadNow is the load of the machine in the last minute, as far as the system tells it.
func loadNow() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

// contestant is one line of the curve. lines returns sections of the configuration, and what ends
// what they need; ok is false where the machine lacks it.
type contestant struct {
	name     string
	evidence string
	lines    func(ctx context.Context) (lines string, ok bool, stop func() error, err error)
	peer     bool // the tuned proxy instead of the gateway
}

var contestants = []contestant{
	{name: "tuned httputil", peer: true},
	{name: "gateway, SQLite"},
	{name: "gateway, SQLite, outcome: behind", evidence: "outcome: behind"},
	{name: "gateway, PostgreSQL", lines: database},
}

// database starts a private PostgreSQL, on the disk.
func database(ctx context.Context) (lines string, ok bool, stop func() error, err error) {
	if _, err := exec.LookPath("initdb"); err != nil {
		return "", false, nil, nil
	}
	cluster, err := pgtest.New("fsync=on")
	if err != nil {
		return "", false, nil, err
	}
	name, err := cluster.Database(ctx)
	return fmt.Sprintf("store: {postgres: %q, durability: single}", name), true, cluster.Close, err
}

func (c contestant) run(ctx context.Context, dir, binary string, length time.Duration, progress func(string)) (found *curve, err error) {
	p := plan{binary: binary, role: "agent", evidence: c.evidence}
	if c.lines != nil {
		lines, ok, stop, err := c.lines(ctx)
		if err != nil || !ok {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		p.lines, p.migrate = lines, true
	}
	t, err := newTownOf(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	front, err := c.front(ctx, t)
	if err != nil {
		return nil, err
	}
	front.name = c.name
	measured, err := front.measure(dir, length, progress)
	return &measured, err
}

// front receives the calls: the gateway with a proof on every call, or the proxy.
func (c contestant) front(ctx context.Context, t *town) (*front, error) {
	if !c.peer {
		fronts, err := t.withProofs(ctx)
		if err != nil {
			return nil, err
		}
		return fronts[0], nil
	}
	listen, err := freeport.Lasting()
	if err != nil {
		return nil, err
	}
	process, err := t.peer(ctx, "httputil", "httputil", listen, t.folder, "http://"+t.upstream)
	if err != nil {
		return nil, err
	}
	raw := rawRequest(listen, nil, sendMessage("handle", "cap_0"))
	return &front{process: process, load: t.load(listen), request: func(int) []byte { return raw }}, nil
}

// The section of the page, which stays as it is when the table is measured anew.
const (
	curveBegins  = "## Latency under load\n\n"
	curvePicture = "../docs/pictures/latency.svg"
)

func curveSection(now time.Time, load string, length time.Duration, curves []curve) string {
	var s strings.Builder
	fmt.Fprintf(&s, curveBegins+`%s, %s, %d CPUs (%s), load %s at the start, %s for each load, by `+"`go run . -curve %[6]s -write`"+`. The agent, the callers and the contestant share the machine.

- Capacity is what %d callers reach that call again at once.
- At each load, calls begin at random times of a mean rate, whatever the answers take. A latency counts from when the call had to begin, so no wait is left out.
- The gateway is in mode require, with a proof on every call and every record signed.
- The last row of each contestant offers three times its capacity. A refused call gets 503 with Retry-After; any other error ends the measurement.
- fsync is measured beside each row: 4 KiB, written and on the disk.
- CPU is that of the contestant and of the callers for each call that was offered.

![Latency against offered load](../pictures/latency.svg)

| contestant | load %% | offered/s | served/s | refused/s | p50 ms | p99 ms | refusal p99 ms | fsync p50 / p99 ms | CPU us | callers' CPU us |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`, now.UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), processor(), load, length, closedCallers)
	for _, c := range curves {
		for _, p := range c.points {
			s.WriteString(p.row(c.name) + "\n")
		}
	}
	s.WriteString("\nWhat a refusal costs, and what it may cost for 95 % of the capacity to be served at three times of it, while callers and contestant share the processors:\n\n")
	for _, c := range curves {
		s.WriteString(c.refusals(float64(runtime.NumCPU())))
	}
	return s.String() + "\n"
}

// refusals says whether a contestant can serve 95 % of its capacity at three times of it. A
// call costs what it does at 90 %; the time of the agent is not counted.
func (c curve) refusals(processors float64) string {
	high, over := c.points[len(c.points)-3], c.points[len(c.points)-1]
	if over.refused == 0 {
		return ""
	}
	served := over.served / (over.served + over.refused)
	own := max(0, over.own-served*high.own) / (1 - served)
	left := (processors*1e6 - 0.95*c.capacity*(high.own+high.callers)) / (2.05 * c.capacity)
	return fmt.Sprintf("- %s: a refusal costs the gateway %.0f us and its caller %.0f us of CPU; %.0f us are left for both.\n", c.name, own, over.callers, left)
}

// writeCurve puts the section into the page and the picture beside it.
func writeCurve(old, section, picture string) error {
	if err := os.WriteFile(curvePicture, []byte(picture), 0o644); err != nil { //nolint:gosec // a picture of the documentation
		return err
	}
	return os.WriteFile(page, []byte(withCurve(old, section)), 0o644) //nolint:gosec // a page of the documentation
}

func curveOf(page string) string { return sectionOf(page, curveBegins, hostileBegins) }

// withCurve returns a page with another section about latencies.
func withCurve(page, section string) string {
	before, after, _ := strings.Cut(strings.Replace(page, curveOf(page), "", 1), hostileBegins)
	return before + section + hostileBegins + after
}

func curveMain(dir, binary, only string, length time.Duration, write bool, stdout, stderr io.Writer) error {
	section, picture, err := runCurve(context.Background(), dir, binary, only, length, func(line string) { fmt.Fprintln(stderr, line) })
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, section); err != nil || !write {
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	return writeCurve(string(old), section, picture)
}
