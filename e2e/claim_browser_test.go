package e2e

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAAPU3_TheClaimPage has a person look, in a browser, at an agent that asks to
// be claimed. The page shows the agent's earlier actions, and Enter refuses. After a
// yes the agent has ended and its history is the person's.
func TestAAPU3_TheClaimPage(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), map[string]any{"name": "Deployer", "mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("autonomous", r, http.StatusOK, "")
	b.want("its work", m.execute("list_accounts", nil), http.StatusOK, "")
	claim := func() string {
		t.Helper()
		r := b.ask(http.MethodPost, "/agent/claim", b.host(m.host), args("agent_id", m.id, "binding_message", "the deployer of <b>the site</b>"))
		b.want("claim", r, http.StatusOK, "")
		return codeOf(r)
	}
	w := openBrowser(t)
	w.login(b.url, "bob", "/approve?code="+claim())
	w.press(`form[action="/approve"] button`, "#answer")
	w.says("AAP-U3", "Deployer", "would become yours", "List all accounts", "user:bob", "Take over")
	w.do(chromedp.WaitReady(chromedp.CSS("button.deny:focus"))) // ATK-48: what the Enter key does
	if got := w.js(`document.querySelectorAll("main b").length`); got != "0" {
		t.Errorf("AAP-A8 what the agent wrote became %s elements of the page", got)
	}
	w.shot("claim")
	w.press("button.deny", "#did-title")
	w.shot("claim-denied")
	b.want("a no changes nothing", m.execute("list_accounts", nil), http.StatusOK, "")

	w.do(chromedp.Navigate(b.url + "/approve?code=" + claim()))
	w.press(`form[action="/approve"] button`, "#answer")
	w.press("button.approve", "#did-title")
	w.says("AAP-U3", "user:bob")
	w.shot("claimed")
	b.want("AAP-U3 it has ended", m.execute("list_accounts", nil), http.StatusForbidden, "agent_claimed")
	w.do(chromedp.Navigate(b.url + "/hosts"))
	w.shot("hosts-of-a-claimer")
	w.do(chromedp.Navigate(b.url + "/activity"))
	w.says("AAP-U3 its history", "an agent's history became yours")
	w.shot("activity-of-a-claimer")
}
