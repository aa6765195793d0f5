package e2e

import (
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

// TestATK85_ApprovalsCanBeTakenBack approves requests for capabilities and a held call,
// and takes the approvals back: on the page, in a shell, and with the command line.
// Issued capabilities end, pending ones are never issued, and a call that was made stays
// made.
func TestATK85_ApprovalsCanBeTakenBack(t *testing.T) {
	onStores(t, tryATK85ApprovalsCanBeTakenBack)
}

func tryATK85ApprovalsCanBeTakenBack(t *testing.T) {
	w, alice, held := mailing(t, options{policies: asking + `permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");`})
	page := w.atPage("alice")
	shell := func(arguments ...string) string {
		t.Helper()
		out, err := exec.Command(binary, arguments...).CombinedOutput()
		if err != nil {
			t.Errorf("powerbox %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	listed := func(when, id string, revocable bool) {
		t.Helper()
		_, shown := page.get("/approved")
		if form := strings.Contains(shown, "/approve/"+id+"/revoke"); !strings.Contains(shown, id) || form != revocable {
			t.Errorf("ATK-85 %s, the page lists %s: %t, with a button: %t; want a button %t\n%s", when, id, strings.Contains(shown, id), form, revocable, shown)
		}
		_, all := w.asPerson("alice", http.MethodGet, "/v1/approvals", nil)
		for _, one := range all["you_approved"].([]any) {
			if q := one.(map[string]any); q["id"] == id && q["revocable"] == revocable {
				return
			}
		}
		t.Errorf("ATK-85 %s, the interface lists %v; want %s, revocable %t", when, all["you_approved"], id, revocable)
	}

	// Not collected yet: it is not issued any more.
	first := pendingIn(t, alice.asksForReports())
	w.answers("alice", first, map[string]any{})
	listed("approved", first, true)
	if status, _ := w.asPerson("bob", http.MethodPost, "/v1/approvals/"+first+"/revoke", map[string]any{}); status != http.StatusNotFound {
		t.Errorf("ATK-85 another person takes an approval back: HTTP %d; want 404", status)
	}
	if out := shell("approval", "list", "--server", w.url, "--as", "alice"); !strings.Contains(out, first) {
		t.Errorf("ATK-85 powerbox approval list says %q; want %s", out, first)
	}
	if out := shell("approval", "revoke", first, "--server", w.url, "--as", "alice"); !strings.Contains(out, first+" is taken back") {
		t.Errorf("ATK-85 powerbox approval revoke says %q", out)
	}
	if a := alice.asksForReports(); a.reason() != "approval_denied" || !strings.Contains(string(a.Raw), "took this approval back") {
		t.Errorf("ATK-85 the agent comes for what was taken back: %s; want approval_denied", a.Raw)
	}
	if status, q := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+first+"/revoke", map[string]any{}); status != http.StatusConflict && status != http.StatusNotFound {
		t.Errorf("ATK-85 taken back twice: HTTP %d %v", status, q)
	}

	// Issued: it ends, on the page.
	other := w.caller(aliceToken)
	second := pendingIn(t, other.asksForReports())
	w.answers("alice", second, map[string]any{})
	got := capabilities(t, other.asksForReports())
	listed("issued", second, true)
	if status, _ := page.post("/approve/"+second+"/revoke", url.Values{}); status != http.StatusOK {
		t.Errorf("ATK-85 the button: HTTP %d; want the page again", status)
	}
	if left := capabilities(t, other.call("documents", "a2a/capabilities/list", map[string]any{})); len(got) != 1 || len(left) != 0 {
		t.Errorf("ATK-85 issued %d, and %d are left after the approval was taken back; want 1 and 0", len(got), len(left))
	}
	if a := other.asksForReports(); a.reason() != "approval_denied" {
		t.Errorf("ATK-85 the agent asks again at once: %s; want approval_denied", a.Raw)
	}
	if _, shown := page.get("/approve/" + second); !strings.Contains(shown, "Approval taken back") || !strings.Contains(shown, "Taken back by user:alice") {
		t.Errorf("ATK-85 the request's page says\n%s", shown)
	}

	// A call that was made is listed, and cannot be taken back.
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	third := task.URL[strings.LastIndexByte(task.URL, '/')+1:]
	w.answers("alice", third, map[string]any{})
	w.polled(alice, held, "mail", task.ID)
	listed("made", third, false)
	if status, q := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+third+"/revoke", map[string]any{}); status != http.StatusConflict || !strings.Contains(q["message"].(string), "cannot be taken back") {
		t.Errorf("ATK-85 a call that was made is taken back: HTTP %d %v; want 409", status, q)
	}
	revoked := 0
	for _, r := range w.records("limit=100") {
		if r.Action == "approval.revoke" && r.Decision == "ALLOW" {
			revoked++
		}
	}
	if revoked != 2 {
		t.Errorf("ATK-85 %d records of approval.revoke; want 2", revoked)
	}
	w.again(func() {})
	if left := capabilities(t, other.call("documents", "a2a/capabilities/list", map[string]any{})); len(left) != 0 {
		t.Errorf("ATK-85 %d capabilities of an approval that was taken back live again after a restart", len(left))
	}
}
