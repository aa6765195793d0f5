package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// The contestants that are this program are the tests' own binary here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == peerVerb {
		fmt.Fprintln(os.Stderr, runPeer(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(programtest.Main("..", func(built string) int {
		program = built
		defer func() { _ = os.RemoveAll(caddyOnce.dir) }()
		return m.Run()
	}))
}

// program is the binary that the tests measure.
var program string

// measured starts a town with it.
func measured(t *testing.T, evidence string) *town {
	t.Helper()
	world, err := newTownOf(t.Context(), t.TempDir(), plan{binary: program, role: "agent", evidence: evidence})
	must(t, err)
	t.Cleanup(func() { must(t, world.close()) })
	return world
}

// caddyOnce is Caddy with the modules of bench, built once for all tests.
var caddyOnce struct {
	sync.Once

	dir, path string
	err       error
}

func caddyOf(t *testing.T) string {
	t.Helper()
	caddyOnce.Do(func() {
		if caddyOnce.dir, caddyOnce.err = os.MkdirTemp("", "caddy"); caddyOnce.err == nil { //nolint:usetesting // it outlives this test
			caddyOnce.path, caddyOnce.err = (&town{folder: caddyOnce.dir}).build(t.Context(), "caddy", "caddy", ".")
		}
	})
	must(t, caddyOnce.err)
	return caddyOnce.path
}

// Every contestant of the gateway's rows gives the answer of the agent behind;
// ours gives it only to callers that may have it, and no proof is good twice.
func TestContestantsOfTheGateway(t *testing.T) {
	world := measured(t, "signatures: batch")
	fronts, err := world.peers(t.Context(), caddyOf(t))
	must(t, err)
	reference, err := world.byReference(t.Context(), byReference)
	must(t, err)
	ours, err := world.withProofs(t.Context())
	must(t, err)
	ours = append([]*front{reference}, ours...)
	into := round{}
	for _, f := range append(fronts, ours...) {
		must(t, f.cpuTrial().measure(into, time.Millisecond))
		if into[f.name] <= 0 {
			t.Errorf("%s took no time", f.name)
		}
	}
	must(t, ours[0].paceTrial(byReference).measure(into, time.Millisecond))
	must(t, diskTrial(ours[0].calls, t.TempDir(), byReference).measure(into, time.Millisecond))
	if into[p99(byReference)] <= 0 || into[p99(bareDisk)] <= 0 {
		t.Errorf("%v; want a latency of the gateway and one of the disk", into)
	}
	_, handle, err := world.reference(t.Context())
	must(t, err)
	for name, raw := range map[string][]byte{
		"no capability":   rawRequest(world.address, nil, sendMessage(handle, "")),
		"an unknown one":  rawRequest(world.address, nil, sendMessage(handle, "cap_0")),
		"a proof, again":  ours[1].request(0),
		"another handle":  rawRequest(world.address, nil, sendMessage("rh_other", "cap_0")),
		"a changed proof": []byte(strings.Replace(string(ours[1].request(1)), "Summarize", "Summarise", 1)),
	} {
		conns, err := ours[0].load.dialAll(t.Context(), 1)
		must(t, err)
		if err := ours[0].load.call(conns[0], raw); err == nil || !strings.Contains(err.Error(), "-31403") {
			t.Errorf("%s: %v", name, err)
		}
		must(t, closeConns(conns))
	}
}
