package e2e

import (
	"net/http"
	"path/filepath"
	"testing"
)

// straight sends requests to one address, under whatever name they are for.
type straight struct{ address string }

func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host, r.URL.Host = r.URL.Host, s.address
	return http.DefaultTransport.RoundTrip(r)
}

// through has the town's requests go to one address, "" for the one that their URL names.
func (w *town) through(address string) *town {
	at := *w
	if address != "" {
		at.client = &http.Client{Transport: straight{address}}
	}
	return &at
}

// TestATK128_ACallersProofIsUsedOnceForWhatever uses the proof that comes with a session for
// one request and again for another one, at the same remote gateway and at another: calls,
// which the gateway decides, and requests for capabilities, which the server answers.
func TestATK128_ACallersProofIsUsedOnceForWhatever(t *testing.T) {
	w, all := startRemote(t, 2, options{mode: "prefer"})
	alice, at := w.caller(aliceToken), w.agentURL("documents")
	ask := map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Summarize quarterly reports",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	}
	requests := map[string][]byte{
		"a call that reads":          data("search_documents", map[string]any{"query": "x"}),
		"a call that may change":     text("SendMessage", "hello"),
		"a request for capabilities": rpc("a2a/capabilities/request", ask),
		"a list of capabilities":     rpc("a2a/capabilities/list", map[string]any{}),
	}
	for first, before := range requests {
		for second, after := range requests {
			for n := range all {
				h := alice.headers(at)
				allowed(t, w.through(all[0].address).post(at, before, h.Clone()))
				a := w.through(all[n].address).post(at, after, h.Clone())
				if reason := a.reason(); reason != "proof_replayed" && reason != "unauthenticated" {
					t.Errorf("ATK-128 the proof of %s, then for %s at gateway %d: %s", first, second, n, a.Raw)
				}
			}
		}
	}
	if a := w.through(all[1].address).post(at, requests["a list of capabilities"], alice.headers(at)); a.Error != nil {
		t.Errorf("ATK-128 a new proof: %s", a.Raw)
	}
}

// TestATK128_ServerAndGateway uses proofs at the server and at a remote gateway of an agent
// that no gateway_url leads to, so that both take calls under one URL.
func TestATK128_ServerAndGateway(t *testing.T) {
	w := start(t, options{mode: "prefer", issuer: "  feed: {heartbeat: 100ms}"})
	r := &replica{w: w, state: filepath.Join(t.TempDir(), "state"), address: "127.0.0.1:" + freePort(t)}
	r.enroll()
	r.boot()
	alice, at := w.caller(aliceToken), w.agentURL("documents")
	held := alice.reports()
	body := data("search_documents", map[string]any{})
	for _, way := range [][2]string{{"", r.address}, {r.address, ""}} {
		for kind, h := range map[string]http.Header{
			"capability": alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}),
			"session":    alice.headers(at),
		} {
			allowed(t, w.through(way[0]).post(at, body, h.Clone()))
			if a := w.through(way[1]).post(at, body, h.Clone()); a.reason() != "proof_replayed" {
				t.Errorf("ATK-128 the proof of a %s at %q, then at %q: %s", kind, way[0], way[1], a.Raw)
			}
		}
	}
}
