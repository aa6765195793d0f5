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

// TestAAPZ3_AnAdministratorSeesTheProviderAlone has an administrator of the agents at one provider
// read the activity: everything at that agent, and at others the calls in the own name.
func TestAAPZ3_AnAdministratorSeesTheProviderAlone(t *testing.T) {
	w := start(t, options{agent: `    agent_auth:
      description: Documents
      administrators: ["user:alice"]
      capabilities: [{name: look, description: See the balance, sensitivity: read}]
`})
	bob := w.caller(bobToken)
	bob.ambient("documents", data("delete_document", map[string]any{"name": "of-bob"}))
	bob.ambient("mail", data("send_mail", map[string]any{"to": "of-bob"}))
	w.caller(aliceToken).ambient("mail", data("send_mail", map[string]any{"to": "of-alice"}))
	status, said := w.asPerson("alice", http.MethodGet, "/v1/activity", nil)
	seen := map[string]int{}
	for _, a := range said["activity"].([]any) {
		seen[a.(map[string]any)["agent"].(string)]++
	}
	if status != http.StatusOK || seen["documents"] == 0 || seen["mail"] != 1 {
		t.Errorf("AAP-Z3 HTTP %d; the administrator sees %v of each agent; want some of documents, and one of mail", status, seen)
	}
}

// TestGATE12_GraphWithoutScopes wants the graph to say that calls need a capability where no scope
// bounds them, and which agents let calls without one pass.
func TestGATE12_GraphWithoutScopes(t *testing.T) {
	w := start(t, options{})
	page := w.atPage("alice")
	w.caller(aliceToken).reports()
	const closed = "A call needs a capability or, in mode scoped, a scope."
	if _, text := page.get("/admin/graph"); !strings.Contains(text, closed) || !strings.Contains(text, "nothing without a capability") {
		t.Errorf("GATE-12 the graph:\n%s", text)
	}
	w.operator(http.MethodPut, "/v1/agents/mail/mode", map[string]string{"mode": "observe"})
	if _, text := page.get("/admin/graph"); strings.Contains(text, closed) || !strings.Contains(text, `calls pass without a capability: <a href="/admin/agents/mail">mail</a>`) {
		t.Errorf("GATE-12 the graph with an agent that is observed:\n%s", text)
	}
}

// TestAnUnknownURLLeadsBack opens a URL that nothing has: a browser gets a page of the console with
// a way back, and a program the plain error.
func TestAnUnknownURLLeadsBack(t *testing.T) {
	w := start(t, options{})
	open := func(path, accept string) (int, http.Header, string) {
		t.Helper()
		status, header, _, body := w.raw(http.DefaultClient, http.MethodGet, w.url+path, http.Header{"Accept": {accept}}, "")
		return status, header, body
	}
	status, header, page := open("/nowhere", "text/html,application/xhtml+xml,*/*;q=0.8")
	if status != http.StatusNotFound || !strings.Contains(page, "there is no such page") || !strings.Contains(page, `href="/approve"`) || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("a browser gets HTTP %d %v\n%s", status, header, page)
	}
	if status, _, text := open("/nowhere", "*/*"); status != http.StatusNotFound || strings.Contains(text, "<") {
		t.Errorf("a program gets HTTP %d %s", status, text)
	}
	if status, _, text := open("/agents/nowhere", "text/html"); status != http.StatusNotFound || strings.Contains(text, "<html") {
		t.Errorf("an unknown agent answers HTTP %d %s", status, text)
	}
}
