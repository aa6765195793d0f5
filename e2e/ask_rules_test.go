package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// reviewed is who reviews mails: two of three people of finance.
const reviewed = `approvals:
  rules:
    - {agent: mail, operation: mail:send/send, approvers: [group:finance, "user:dora"], people: 2, delegates: ["user:eve"]}
`

const reviewers = `    - {name: carol, token: carol-session-token, groups: [finance]}
    - {name: dora, token: dora-session-token}
    - {name: eve, token: eve-session-token}
    - {name: mallory, token: mallory-session-token, groups: [sales]}
`

// TestSEP27_TwoPeople has a rule require two people other than the call's own
// user: the call is made after the second approval, one refusal is enough, and no
// other person is asked.
func TestSEP27_TwoPeople(t *testing.T) {
	w, alice, held := mailing(t, options{extra: reviewed, dev: reviewers})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	id := task.asked()
	for who, n := range map[string]int{"carol": 1, "dora": 1, "eve": 1, "mallory": 0, "alice": 0} {
		if got := len(w.waiting(who, "reviews")); got != n {
			t.Errorf("SEP-27 %d requests wait for the review of %s; want %d", got, who, n)
		}
		if got := len(w.waiting(who, "confirmations")); got != 0 {
			t.Errorf("SEP-27 %d requests wait for the confirmation of %s; want none", got, who)
		}
	}
	if status, _ := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+id, map[string]any{}); status != http.StatusNotFound {
		t.Errorf("SEP-27 the user behind reviews it: HTTP %d; want 404", status)
	}
	if q := w.answers("carol", id, map[string]any{}); q["status"] != "pending" {
		t.Errorf("SEP-27 after one of two: %v", q["status"])
	}
	if status, _ := w.asPerson("carol", http.MethodPost, "/v1/approvals/"+id, map[string]any{}); status == http.StatusOK {
		t.Error("SEP-27 one person answers twice")
	}
	if n := len(w.mail.got()); n != 0 {
		t.Fatalf("SEP-27 %d calls reached the agent after one of two", n)
	}
	if q := w.answers("dora", id, map[string]any{}); q["status"] != "approved" {
		t.Errorf("SEP-27 after two of two: %v", q["status"])
	}
	if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" {
		t.Errorf("SEP-27 after two of two the task is %+v", done)
	}
	for _, r := range w.records("agent=mail&limit=50") {
		if told := w.run("trace", r.ID); r.Action == "capability.once" && !strings.Contains(told, "granted  by user:carol, user:dora ("+id+")") {
			t.Errorf("the trace does not tell who granted it:\n%s", told)
		}
	}
	// One no is enough, and the other's yes comes too late.
	task = heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	w.answers("carol", task.asked(), map[string]any{"deny": true})
	if status, _ := w.asPerson("dora", http.MethodPost, "/v1/approvals/"+task.asked(), map[string]any{}); status == http.StatusOK {
		t.Error("ATK-46 a question that was answered is answered by another")
	}
	if done := w.polled(alice, held, "mail", task.ID); done.State != "FAILED" {
		t.Errorf("SEP-27 after a no the task is %+v", done)
	}
	if n := len(w.mail.got()); n != 1 {
		t.Errorf("SEP-27 %d calls reached the agent; want 1", n)
	}
}

// TestATK48_WhoeverAsksTooOften has a caller be refused again and again, and ask
// more than people can answer.
func TestATK48_WhoeverAsksTooOften(t *testing.T) {
	w, alice, held := mailing(t, options{})
	for range 3 {
		task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
		w.answers("alice", task.asked(), map[string]any{"deny": true})
	}
	alerts := 0
	for _, r := range w.records("agent=mail&limit=100") {
		if r.Action == "approval.alert" {
			alerts++
		}
	}
	if alerts != 1 {
		t.Errorf("ATK-48 %d alerts on record after three refusals; want 1", alerts)
	}
	w.soon("ATK-48 the alert in the log", func() bool { return strings.Contains(w.log.String(), "people refuse a caller again and again") })
	var last answer
	for range 21 {
		last = alice.mailsUnder(held, "bob@example.org")
	}
	if last.reason() != "approval_too_many" {
		t.Errorf("ATK-48 the 21st open question: %s", last.Raw)
	}
	if n := len(w.waiting("alice", "confirmations")); n != 20 {
		t.Errorf("ATK-48 %d questions are open; want 20", n)
	}
}

// TestSEP27_ByCommands has people see and answer what waits in a shell.
func TestSEP27_ByCommands(t *testing.T) {
	w, alice, held := mailing(t, options{extra: reviewed, dev: reviewers, policies: asking + `permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");`})
	as := func(who string, args ...string) []string {
		return append(append([]string{"approval"}, args...), "--server", w.url, "--as", who)
	}
	id := pendingIn(t, alice.asksForReports())
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	if out := w.must(as("alice", "list")...); !strings.Contains(out, "My confirmations") || !strings.Contains(out, id) || strings.Contains(out, task.asked()) {
		t.Errorf("SEP-27 what waits for alice:\n%s", out)
	}
	if out := w.must(as("carol", "list")...); !strings.Contains(out, "To review for others") || !strings.Contains(out, task.asked()) || strings.Contains(out, id) {
		t.Errorf("SEP-27 what waits for carol:\n%s", out)
	}
	if out := w.must(as("carol", "show", task.asked())...); !strings.Contains(out, `to: "bob@example.org"`) || !strings.Contains(out, "changes something") || !strings.Contains(out, "Tell Bob") {
		t.Errorf("SEP-9 what carol is shown:\n%s", out)
	}
	if out, code := w.cli(as("carol", "approve", task.asked(), "--constraints", "{}")...); code != 2 {
		t.Errorf("constraints of a call: exit %d\n%s", code, out)
	}
	if out := w.must(as("carol", "approve", task.asked())...); !strings.Contains(out, "waits for others") {
		t.Errorf("SEP-27 after one of two:\n%s", out)
	}
	if out := w.must(as("dora", "deny", task.asked(), "--reason", "not today")...); !strings.Contains(out, "denied") {
		t.Errorf("SEP-27 after a no:\n%s", out)
	}
	if out := w.must(as("alice", "approve", id, "--only", "retrieve", "--resource", "Q1 Sales Report")...); !strings.Contains(out, "approved") {
		t.Errorf("SEP-27 the answer:\n%s", out)
	}
	got := capabilities(t, alice.asksForReports())
	if len(got) != 1 || strings.Join(got[0].Operations, " ") != "retrieve" || len(got[0].ResourceHandles) != 1 {
		t.Errorf("SEP-27 the waiting call got %+v", got)
	}
	for _, r := range w.records("capability=" + got[0].ID) {
		if told := w.run("trace", r.ID); !strings.Contains(told, "granted  by user:alice ("+id+"), by policy sha256:") {
			t.Errorf("the trace does not tell who granted it:\n%s", told)
		}
	}
	if out := w.must(as("alice", "list")...); !strings.Contains(out, "Nothing waits for you") {
		t.Errorf("SEP-27 when everything is answered:\n%s", out)
	}
}

// TestSEP27_ACommandWaits has powerbox request wait for the person who is asked.
func TestSEP27_ACommandWaits(t *testing.T) {
	w := start(t, options{policies: asking})
	w.must("keys", "new", "holder.jwk")
	request := []string{
		"request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "Summarize", "--collection", "reports", "--filter", "quarter=2025-Q1",
		"--key", "holder.jwk", "--session-file", w.sessionFile(), "--output", "json",
	}
	if out, code := w.cli(request...); code == 0 || !strings.Contains(out, "/approve/ask_") {
		t.Errorf("SEP-27 without waiting: exit %d\n%s", code, out)
	}
	done := make(chan string, 1)
	go func() {
		out, code := w.cli(append(request, "--wait")...)
		done <- strings.Repeat("exit ", min(code, 1)) + out
	}()
	var ids []string
	w.soon("SEP-27 the request", func() bool { ids = w.waiting("alice", "confirmations"); return len(ids) == 1 })
	w.answers("alice", ids[0], map[string]any{"operations": []string{"search"}})
	if out := <-done; !strings.Contains(out, `"operations":["search"]`) || strings.HasPrefix(out, "exit") {
		t.Errorf("SEP-27 the command that waited: %s", out)
	}
}

// TestATK48_RefusedAgainAndAgain has people refuse a caller ten times: for a while
// they are not asked any more.
func TestATK48_RefusedAgainAndAgain(t *testing.T) {
	w, alice, held := mailing(t, options{})
	for range 10 {
		task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
		w.answers("alice", task.asked(), map[string]any{"deny": true})
	}
	if a := alice.mailsUnder(held, "bob@example.org"); a.reason() != "approval_too_many" {
		t.Errorf("ATK-48 after ten refusals: %s", a.Raw)
	}
	if n := len(w.waiting("alice", "confirmations")); n != 0 {
		t.Errorf("ATK-48 %d questions are open", n)
	}
}
