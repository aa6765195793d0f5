package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// TestATK29_AGatewayApartOnEveryBinding has two remote gateways take every
// binding and version: a task that one of them learned of is its owner's at
// both, and a call that the server's own gateway refuses is refused here.
func TestATK29_AGatewayApartOnEveryBinding(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w, _ := startRemote(t, 2, options{on: on, agent: "    enforces: context"}, "--lease", "2s")
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		held, other := alice.reports(), bob.reports()
		for range 4 {
			if a := alice.looksUp(held); a.Error != nil {
				t.Fatalf("ATK-29 %s\n%s", a.Raw, w.log)
			}
		}
		handle := held.ResourceHandles[0].Handle
		body := data("delete_document", map[string]any{"resourceHandle": handle})
		a := alice.present("documents", body, proven{chain: []string{held.Token}, operation: opDelete, arguments: map[string]any{"resourceHandle": handle}})
		if a.reason() != "operation_not_granted" || a.Error.Code != -31403 {
			t.Errorf("ATK-29 another operation: %s", a.Raw)
		}
		task := ""
		if on.binding != overMCP { // which has none
			task, _ = alice.open(held)
		}
		read := func(c *caller, with granted) answer {
			return c.present("documents", rpc("GetTask", map[string]any{"id": task}), proven{chain: []string{with.Token}, operation: "a2a.task.read", arguments: map[string]any{"task": task}})
		}
		for n := 0; n < 4 && task != ""; n++ {
			if a := read(alice, held); a.Error != nil {
				t.Errorf("ATK-18 its own task: %s", a.Raw)
			}
			if a := read(bob, other); a.Error == nil || a.Error.Code != -32001 {
				t.Errorf("ATK-18 another's task: %s", a.Raw)
			}
		}
		// The same proof at one and at the other.
		body = data("search_documents", map[string]any{})
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		through := 0
		for range 4 {
			if a := w.post(w.agentURL("documents"), body, h.Clone()); a.Error == nil {
				through++
			} else if a.reason() != "proof_replayed" {
				t.Errorf("ATK-20 %s", a.Raw)
			}
		}
		if through != 1 {
			t.Errorf("ATK-20 one proof let %d calls through at two gateways", through)
		}
		alice.onceAtBoth(held)
		w.operator(http.MethodPost, "/v1/revocations", map[string]string{"target": held.ID})
		eventually(t, atOnce, func() string { return "a revocation is not known" }, func() bool { return alice.looksUp(held).reason() == "revoked" })
		killed(t, w.process)
		eventually(t, atOnce, func() string { return "ATK-25 calls go on after the lease is over" }, func() bool { return bob.looksUp(other).reason() == "revocations_stale" })
	})
}

// onceAtBoth presents a capability by its id, with a session, and then sends the very
// same request again, which comes to the other gateway.
func (c *caller) onceAtBoth(held granted) {
	t, w, url := c.w.t, c.w, c.w.agentURL("documents")
	t.Helper()
	body := data("search_documents", map[string]any{})
	method, target := http.MethodPost, url
	if r, ok := w.encode(url, body); ok {
		method, target = r.method, r.url
	}
	proof, err := token.SignDPoP(c.key, token.DPoPRequest{Method: method, URL: target, AccessToken: c.session, Now: time.Now()}, nonce())
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Dpop": {proof}, "Authorization": {"DPoP " + c.session}, "Powerbox-Capability": {held.ID}}
	through := 0
	for n := range 4 {
		switch a := w.post(url, body, h.Clone()); {
		case a.Error == nil:
			through++
		case n == 0 || a.reason() != "proof_replayed" && a.reason() != "unauthenticated":
			t.Errorf("ATK-20 a session: %s", a.Raw)
		}
	}
	if through != 1 {
		t.Errorf("ATK-20 one proof of a session let %d calls through at two gateways", through)
	}
}
