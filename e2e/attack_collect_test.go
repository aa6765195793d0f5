package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
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
		w.listsApproval(what, id, false)
		w.answers("alice", again, map[string]any{})
		second := time.Now().Unix()
		eventually(t, 5*time.Second, func() string { return "the second of the revocation is not over" }, func() bool { return time.Now().Unix() > second+1 }) // a revocation is for all of it
		got := capabilities(t, alice.asksForReports())
		if len(got) != 1 {
			t.Errorf("ATK-146 %s: the second approval gave %d capabilities; want 1", what, len(got))
			continue
		}
		w.listsApproval(what, again, true)
		w.write("held.jwt", got[0].Token)
		if out := w.must("explain", "held.jwt"); !strings.Contains(out, "holds") {
			t.Errorf("ATK-146 %s: before, explain says %s", what, out)
		}
		w.must(append([]string{"revoke"}, flags(alice)...)...)
		w.listsApproval(what, again, false)
		if out, code := w.cli("explain", "held.jwt"); code == 0 || !strings.Contains(out, "was revoked") {
			t.Errorf("ATK-146 %s: explain of what was collected ends with %d: %s; want it to say that it was revoked", what, code, out)
		}
	}
}

// listsApproval expects an approval of alice, and whether it can be taken back.
func (w *town) listsApproval(what, id string, revocable bool) {
	w.t.Helper()
	_, all := w.asPerson("alice", http.MethodGet, "/v1/approvals", nil)
	if !slices.ContainsFunc(all["you_approved"].([]any), func(one any) bool {
		return one.(map[string]any)["id"] == id && one.(map[string]any)["revocable"] == revocable
	}) {
		w.t.Errorf("ATK-146 %s: the interface lists %v; want %s, revocable %t", what, all["you_approved"], id, revocable)
	}
}
