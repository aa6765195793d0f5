package e2e

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAAPA9_SubsetWithoutPasskey approves, in a browser, one of two things that an
// agent wants to read, and sees that it has that one alone.
func TestAAPA9_SubsetWithoutPasskey(t *testing.T) {
	b := startBank(t)
	agent := b.host().register(map[string]any{
		"name": "Budget helper", "host_name": "Alice's laptop", "reason": "To show you what you <b>spend</b> each month", "capabilities": []any{"check_balance", "list_accounts"},
	})
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve?code="+agent.code)
	w.shot("code")
	w.press(`form[action="/approve"] button`, "#answer")
	w.says("AAP-A9", "An agent wants to act for you", "“Budget helper”", "new: nobody has approved it yet", "user:alice", "See the balance of one account", "only reads", "new for this agent",
		"To show you what you spend each month")
	if got := w.js(`document.activeElement.value`); got != `"deny"` {
		t.Errorf("ATK-48 the focus is on %s; want deny", got)
	}
	if got := w.js(`document.querySelectorAll("input[name=grant]:checked").length`); got != "0" {
		t.Errorf("ATK-48 %s capabilities are ticked before anybody did; want none", got)
	}
	w.shot("question-read")
	w.do(chromedp.Click(chromedp.CSS(".ask:nth-of-type(1) input[name=grant]")))
	w.press("button.approve", "#did-title")
	w.says("AAP-A9", "Approved", "allowed", "denied", "user:alice")
	w.shot("answered")
	state, grants, _ := agent.status()
	if state != "active" || grants["check_balance"] != "active" || grants["list_accounts"] != "denied" {
		t.Errorf("AAP-A9 the agent is %s with %v; want check_balance alone", state, grants)
	}
	if status, answer := agent.execute("check_balance", map[string]any{"account_id": "acc_123"}); status != http.StatusOK {
		t.Errorf("AAP-A9 what was approved: HTTP %d %v", status, answer)
	}
	if status, _ := agent.execute("list_accounts", map[string]any{}); status != http.StatusForbidden {
		t.Errorf("AAP-A9 what was not: HTTP %d; want 403", status)
	}
}
