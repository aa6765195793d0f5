package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAAPA7_AHeldCallIsSignedFor approves, in a browser with a security key, one
// call that changes something: without the key it is refused, and so is a
// signature for another answer. The page has no accessibility violation, and
// shows no text that an agent could inject.
func TestAAPA7_AHeldCallIsSignedFor(t *testing.T) {
	w, alice, held := mailing(t, options{host: "localhost"})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	b := openBrowser(t)
	b.authenticator()
	b.login(w.url, "alice", "/approve")
	b.says("SEP-27", "My confirmations", "changes something")
	b.shot("desk-list")
	b.passkey(w.url)
	page := w.url + "/approve/" + task.asked()
	b.do(chromedp.Navigate(page), chromedp.WaitReady(chromedp.CSS("button.deny:focus")))
	b.says("AAP-A9", "wants at mail, now and once: ", "bob@example.org", "The figures", "changes something", "Tell Bob about the figures", "user:alice (you)", "an agent that the operator has no name for")
	if got := b.js(`document.querySelectorAll("input[type=checkbox]:checked").length`); got != "0" {
		t.Errorf("ATK-48 %s boxes are ticked before anybody did; want none", got)
	}
	b.shot("desk-call")
	b.do(chromedp.Click(chromedp.CSS(".ask input[type=checkbox]")))
	if refused := b.js(`(() => { const f = new FormData(document.querySelector("#answer")); f.set("answer", "approve"); return fetch(location.href, {method: "POST", body: f}).then(r => r.status) })()`); refused != "403" {
		t.Errorf("AAP-A7 approved without a passkey: HTTP %s; want 403", refused)
	}
	if n := len(w.mail.got()); n != 0 {
		t.Fatalf("AAP-A7 %d calls reached the agent", n)
	}
	b.press("button.approve", "#did-title")
	b.says("AAP-A7", "Approved")
	b.shot("desk-answered")
	if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" {
		t.Errorf("AAP-A7 after the signature the task is %+v", done)
	}
	signed := false
	for _, r := range w.records("agent=mail&limit=50") {
		if r.Action == "approval.answer" {
			signed = strings.Contains(string(w.operator(http.MethodGet, "/v1/records/"+r.ID, nil)), `"present":true`)
		}
	}
	if !signed {
		t.Error("AAP-A7 the record of the answer does not say that the person was present")
	}
}

// TestATK46_ARequestThatChangedMeanwhile opens a request, has someone else narrow
// it, and then answers the old version: that answer is refused.
func TestATK46_ARequestThatChangedMeanwhile(t *testing.T) {
	w := start(t, options{policies: asking, dev: reviewers, extra: "approvals: {rules: [{agent: documents, approvers: [\"user:carol\", \"user:dora\"], people: 2}]}\n"})
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	dora := w.atPage("dora")
	_, seen := dora.page(id)
	w.answers("carol", id, map[string]any{"operations": []string{"retrieve"}})
	form := map[string][]string{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve", "search"}, "on.0": {"0", "1"}}
	if status, _ := dora.post("/approve/"+id, form); status != http.StatusConflict {
		t.Errorf("ATK-46 an answer to what is not asked any more: HTTP %d; want 409", status)
	}
	page, seen := dora.page(id)
	if strings.Contains(page, `value="search"`) || !strings.Contains(page, "user:carol has approved") {
		t.Errorf("ATK-46 the page shows what somebody else took away:\n%s", page)
	}
	form["seen"], form["op.0"] = []string{seen}, []string{"retrieve"}
	if status, _ := dora.post("/approve/"+id, form); status != http.StatusOK {
		t.Errorf("ATK-46 the answer to what is asked: HTTP %d", status)
	}
	if got := capabilities(t, alice.asksForReports()); len(got) != 1 || strings.Join(got[0].Operations, " ") != "retrieve" {
		t.Errorf("ATK-46 the waiting call got %+v", got)
	}
}
