package e2e

import (
	"testing"
	"time"
)

// A demand on every resource cannot be passed by: an operation that takes no
// handle is granted by no rule on a resource that the request does not select.
func TestSEP7_NoSelectionIsNoWayAroundTheRules(t *testing.T) {
	const demanding = `@maximum_lifetime("1m") @approval("human")
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal == User::"user:bob", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
@maximum_lifetime("2m")
permit(principal == User::"user:bob", action == Action::"documents/documents:read/search", resource == Agent::"documents");
`
	w := start(t, options{policies: demanding})
	search := map[string]any{"grants": []string{"documents:read"}, "operations": []string{"search"}, "purpose": "p"}
	w.refused(t, w.caller(aliceToken).call("documents", "a2a/capabilities/request", search), "nothing_granted")
	c := w.caller(bobToken).request("documents", search)[0]
	if d := time.Until(c.Expires); d > 2*time.Minute {
		t.Errorf("SEP-8 by the rule on the agent it lives %s; want 2m at the most", d)
	}
	search["resourceQuery"] = quarter("2025-Q1")
	pendingIn(t, w.caller(aliceToken).call("documents", "a2a/capabilities/request", search))
}

// Anyone who tries ids of capabilities is on record for each.
func TestSEP13_TryingIDsIsRecorded(t *testing.T) {
	w := start(t, options{agent: "    enforces: context"})
	alice := w.caller(aliceToken)
	theirs := w.caller(bobToken).reports()
	for id, agent := range map[string]string{theirs.ID: "documents", "cap_0": "powerbox"} {
		a := alice.call("documents", "a2a/task/send", map[string]any{
			"message":      map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "Summarize this"}}},
			"capabilities": []string{id},
		})
		w.refused(t, a, "capability_unknown")
		if r := w.decided(a); r.AgentID != agent || r.Action != "capability.use" || r.Decision != "DENY" || !r.has("capability_unknown") {
			t.Errorf("SEP-13 %s is recorded as %+v", id, r)
		}
	}
}
