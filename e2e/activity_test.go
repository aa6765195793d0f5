package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestAAPZ3_ActivityOfEveryProtocol has callers act for two people over A2A. Each person sees the
// calls and capabilities in their own name, and their answer to a held call, and nothing of
// the other.
func TestAAPZ3_ActivityOfEveryProtocol(t *testing.T) {
	w, alice, held := mailing(t, options{})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	w.answers("alice", task.asked(), map[string]any{})
	w.polled(alice, held, "mail", task.ID)
	reports := alice.reports()
	w.caller(bobToken).ambient("documents", data("delete_document", map[string]any{"name": "of-bob"}))

	mine := func(who, path string) (calls, all string) {
		t.Helper()
		status, said := w.asPerson(who, http.MethodGet, path, nil)
		if status != http.StatusOK {
			t.Fatalf("%s of %s: HTTP %d", path, who, status)
		}
		for _, a := range said["activity"].([]any) {
			one := a.(map[string]any)
			all += one["record"].(string) + " "
			calls += one["agent"].(string) + ":" + one["what"].(string) + " "
		}
		return calls, all
	}
	calls, records := mine("alice", "/v1/activity")
	for _, want := range []string{"mail:mail/mail:send/send ", "mail:approval.answer", "documents:capability.request"} {
		if !strings.Contains(calls, want) {
			t.Errorf("AAP-Z3 alice does not see %s: %s", want, calls)
		}
	}
	others, recordsOfBob := mine("bob", "/v1/activity")
	if !strings.Contains(others, "documents:write/delete") || strings.Contains(calls, "documents:write/delete") {
		t.Errorf("AAP-Z3 alice sees %s, and bob %s", calls, others)
	}
	for id := range strings.FieldsSeq(records) {
		if strings.Contains(recordsOfBob, id) {
			t.Errorf("AAP-Z3 bob sees record %s, which is in the name of alice", id)
		}
	}

	page, ofBob := w.atPage("alice"), w.atPage("bob")
	if _, text := page.get("/activity"); !strings.Contains(text, "called mail:send/send at agent mail") || !strings.Contains(text, "answered a request") || strings.Contains(text, "documents:write/delete") {
		t.Errorf("AAP-Z3 the activity of alice:\n%s", text)
	}
	if _, text := page.get("/hosts"); !strings.Contains(text, "Capabilities in your name") || !strings.Contains(text, reports.Operations[0]) {
		t.Errorf("AAP-Z3 the agents of alice:\n%s", text)
	}
	if _, text := ofBob.get("/hosts"); strings.Contains(text, "Capabilities in your name") {
		t.Errorf("AAP-Z3 the agents of bob:\n%s", text)
	}
}
