package e2e

import (
	"net/http"
	"testing"
	"time"
)

// TestATK46_AnApprovalIsNoMoreThanWasShown has a person approve one page for a few
// minutes, without taking anything away. The agent then sends the same request in a
// session with one more group and with a later end: it gets the page and the minutes
// that the person saw.
func TestATK46_AnApprovalIsNoMoreThanWasShown(t *testing.T) {
	l := newLogin(t)
	w := start(t, options{
		callers: "  providers:\n    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json, groups_claim: groups}\n",
		files:   map[string]string{"keys.json": l.jwks(t)},
		policies: `
@approval("human") permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports") when { resource.attributes.owner == "alice" };
@approval("human") permit(principal in Group::"finance", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
`,
	})
	agent := w.caller(l.session(t, "alice", nil))
	asks := func(lasts time.Duration) answer {
		t.Helper()
		return agent.call("documents", "a2a/capabilities/request", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "Summarize", "expires": time.Now().Add(lasts).UTC().Format(time.RFC3339),
			"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
		})
	}
	shown := time.Now().Add(5 * time.Minute)
	id := pendingIn(t, asks(5*time.Minute))
	status, q := w.asPerson("alice", http.MethodGet, "/v1/approvals/"+id, nil)
	if on := q["matters"].([]any)[0].(map[string]any)["resources"].([]any); status != http.StatusOK || len(on) != 1 {
		t.Fatalf("the person is shown %v", q)
	}
	w.answers("alice", id, map[string]any{})
	agent.session = l.session(t, "alice", map[string]any{"groups": []string{"finance"}})
	got := capabilities(t, asks(50*time.Minute))
	if len(got) != 1 || len(got[0].ResourceHandles) != 1 || got[0].ResourceHandles[0].DisplayName != "Q1 Financial Summary" {
		t.Errorf("ATK-46 approved was one page, and the agent got %+v", got)
	}
	for _, c := range got {
		if c.Expires.After(shown.Add(time.Second)) {
			t.Errorf("ATK-46 approved was until %s, and the agent got it until %s", shown.UTC().Format(time.TimeOnly), c.Expires.Format(time.TimeOnly))
		}
	}
}
