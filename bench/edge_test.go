package main

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The edges and the gateway with proofs answer and record each call, and the edges
// refuse each wrong token before they are measured.
func TestEdgesAuthorizeAndRecord(t *testing.T) {
	world, caddy := measured(t, "signatures: record"), caddyOf(t)
	edges, err := world.edges(t.Context(), caddy)
	must(t, err)
	into := round{}
	for _, f := range edges {
		must(t, f.cpuTrial().measure(into, time.Millisecond))
		must(t, f.paceTrial(f.name).measure(into, time.Millisecond))
		if into[f.name] <= 0 || into[p99(f.name)] <= 0 {
			t.Errorf("%s took no time: %v", f.name, into)
		}
	}
	for _, log := range []struct{ name, field, want string }{{"decisions.log", "result", "true"}, {"access.log", "status", "200"}} {
		text, err := os.ReadFile(filepath.Join(world.folder, log.name))
		must(t, err)
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		var last map[string]any
		must(t, json.Unmarshal([]byte(all[len(all)-1]), &last))
		if fmt.Sprint(last[log.field]) != log.want || !strings.Contains(all[len(all)-1], "/agents/documents") {
			t.Errorf("%s: %s", log.name, all[len(all)-1])
		}
	}
	ours, err := world.withProofs(t.Context())
	must(t, err)
	before := recordsOf(t, world)
	must(t, ours[0].cpuTrial().measure(into, time.Millisecond))
	n := ours[0].count(time.Millisecond)
	if calls, got := n+n/10+connections, recordsOf(t, world)-before; got != 2*calls {
		t.Errorf("%d records of %d calls; want 2 for each", got, calls)
	}
	front := *edges[0]
	front.log = edges[1].log // which gets no line
	if err := front.cpuTrial().measure(into, time.Millisecond); err == nil || !strings.Contains(err.Error(), "has 0 lines for") {
		t.Errorf("a log without the calls is no error: %v", err)
	}
	peers, err := world.peers(t.Context(), caddy)
	must(t, err)
	if err := peers[2].authorizes(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))); err == nil || !strings.Contains(err.Error(), "must be 401 or 403") {
		t.Errorf("a proxy that checks nothing passes for an edge: %v", err)
	}
}

// recordsOf is the size of the log of a town's server.
func recordsOf(t *testing.T, w *town) (size int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.address+"/checkpoint", http.NoBody)
	must(t, err)
	answer, err := w.client.Do(r)
	must(t, err)
	defer func() { must(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	var origin string
	if _, err := fmt.Sscanf(string(text), "%s\n%d\n", &origin, &size); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return size
}
