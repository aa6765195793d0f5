package e2e

import (
	"net/http"
	"slices"
	"testing"
)

// TestATK146_ARevocationOvertakesAnApproval revokes everything of a user, a holder or an agent when
// a person has approved a request and its capability is not collected yet. The agent gets nothing
// for that approval: the person is asked anew, and the new approval counts.
func TestATK146_ARevocationOvertakesAnApproval(t *testing.T) {
	onStores(t, tryATK146ARevocationOvertakesAnApproval)
}

func tryATK146ARevocationOvertakesAnApproval(t *testing.T) {
	w := start(t, options{policies: asking})
	for what, flags := range map[string]func(c *caller) []string{
		"user":   func(*caller) []string { return []string{"--for", "user:alice"} },
		"holder": func(c *caller) []string { return []string{"--held-by", "key:" + c.key.Public().Thumbprint()} },
		"agent":  func(*caller) []string { return []string{"--issued-by", "documents"} },
		"other":  func(*caller) []string { return []string{"--for", "user:bob"} },
	} {
		alice := w.caller(aliceToken)
		alice.key = newKey(t)
		id := pendingIn(t, alice.asksForReports())
		w.answers("alice", id, map[string]any{})
		w.must(append([]string{"revoke"}, flags(alice)...)...)
		a := alice.asksForReports()
		if what == "other" {
			if got := capabilities(t, a); len(got) != 1 {
				t.Errorf("ATK-146 %s: %s; want the capability", what, a.Raw)
			}
			continue
		}
		again := pendingIn(t, a)
		if again == id {
			t.Errorf("ATK-146 %s: the agent waits for the same question", what)
		}
		_, all := w.asPerson("alice", http.MethodGet, "/v1/approvals", nil)
		if !slices.ContainsFunc(all["you_approved"].([]any), func(one any) bool {
			return one.(map[string]any)["id"] == id && one.(map[string]any)["revocable"] == false
		}) {
			t.Errorf("ATK-146 %s: the interface lists %v; want %s, not revocable", what, all["you_approved"], id)
		}
		w.answers("alice", again, map[string]any{})
		if got := capabilities(t, alice.asksForReports()); len(got) != 1 {
			t.Errorf("ATK-146 %s: the second approval gave %d capabilities; want 1", what, len(got))
		}
	}
}
