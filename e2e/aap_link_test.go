package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAAPA7_AHostThatBecomesYours approves, where a default changes something, an agent
// that asks to read: what comes with the host takes the passkey, on the page and with
// the browser alone, and is had by other agents of the host afterwards (AAP-P3,
// AAP-A10, AAP-R4).
func TestAAPA7_AHostThatBecomesYours(t *testing.T) {
	asGiven(t)
	b := serveBank(t, "localhost:"+freePort(t), "", "        - {name: pay, description: Pay any bill, sensitivity: write, default: true}\n"+builtIn, "--dev")
	host, read := b.host(), map[string]any{"name": "Reader", "capabilities": []any{"check_balance"}}
	agent := host.register(read)
	alice := b.visitor("alice")
	at := alice.open(agent.code)
	if _, text := alice.get(at); !strings.Contains(text, "Pay any bill") || !strings.Contains(text, "without asking anybody") {
		t.Errorf("AAP-A9 the page does not say what comes with the host: %s", text)
	}
	// As an agent that drives the browser would.
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusForbidden || !strings.Contains(text, "passkey") {
		t.Errorf("AAP-A7 without a passkey: HTTP %d %s; want 403", status, text)
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Errorf("AAP-A7 the agent is %s; want pending", state)
	}
	beside := b.host().register(map[string]any{"name": "Other"})
	if status, text := alice.post(alice.open(beside.code), url.Values{"answer": {"deny"}}); status != http.StatusSeeOther {
		t.Errorf("AAP-A5 a denial takes any login: HTTP %d %s", status, text)
	}
	w := openBrowser(t)
	w.authenticator()
	w.login(b.url, "alice", "/approve")
	w.passkey(b.url)
	w.do(chromedp.Navigate(b.url + at))
	w.says("AAP-A9", "only reads", "Pay any bill", "signed with your passkey")
	w.shot("question-host")
	w.do(chromedp.Click(chromedp.CSS("input[name=grant]")))
	w.press("button.approve", "#did-title")
	if state, grants, _ := agent.status(); state != "active" || grants["check_balance"] != "active" {
		t.Fatalf("AAP-A7 with the passkey the agent is %s with %v", state, grants)
	}
	next := host.register(map[string]any{"name": "Payer", "capabilities": []any{"pay"}})
	if state, grants, _ := next.status(); state != "active" || grants["pay"] != "active" {
		t.Errorf("AAP-R4 of the linked host: %s with %v", state, grants)
	}
	// The same holds for a host that asks for admission alone.
	idle := b.host().register(map[string]any{"name": "Idle"})
	at = alice.open(idle.code)
	form := alice.approval(at)
	form.Set("grant", "")
	if status, text := alice.post(at, form); status != http.StatusForbidden {
		t.Errorf("AAP-A7 asking for nothing: HTTP %d %s; want 403", status, text)
	}
}
