package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAAPK8_OneGrantInTheConsole gives an agent one capability more and takes one
// back, in a browser: the agent and its other grants stay (AAP-K8, AAP-K7).
func TestAAPK8_OneGrantInTheConsole(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	host := b.host()
	agent := host.register(map[string]any{"name": "Helper", "host_name": "Laptop", "capabilities": []any{"check_balance"}})
	w := openBrowser(t)
	w.authenticator()
	w.login(b.url, "alice", "/approve/"+b.approvalID("alice", agent.code))
	w.do(chromedp.Click(chromedp.CSS("input[name=grant]")))
	w.press("button.approve", "#did-title")
	w.passkey(b.url)
	second := host.register(map[string]any{"name": "Second", "capabilities": []any{"check_balance"}})
	w.do(chromedp.Navigate(b.url + "/hosts"))
	w.says("AAP-K8", "Host \u201cLaptop\u201d", "\u201cHelper\u201d", "\u201cSecond\u201d", "See the balance of one account", "in force", "ends for good")
	w.shot("hosts")

	choose := func(capability string) {
		t.Helper()
		w.do(chromedp.SetValue(chromedp.CSS("#add-"+agent.id), capability))
		w.press(`form[action="/host-agents/`+agent.id+`/grants"] button`, "button.approve")
		if capability == "transfer_money" {
			w.shot("grant")
			w.do(chromedp.SetValue(chromedp.CSS(`input[name="max.hand.amount"]`), "250"))
		}
		w.press("button.approve", ".agent li:nth-child(2)")
	}
	choose("list_accounts")
	if status, answer := agent.execute("list_accounts", map[string]any{}); status != http.StatusOK {
		t.Errorf("AAP-K8 what was given: HTTP %d %v", status, answer)
	}
	// What changes something takes the passkey, which signs that grant.
	alice := b.visitor("alice")
	for name, form := range map[string]url.Values{
		"without a passkey": {"capability": {"transfer_money"}, "max.hand.amount": {"250"}},
		"with a forged one": {"capability": {"transfer_money"}, "max.hand.amount": {"250"}, "assertion": {"{}"}},
	} {
		if status, _ := alice.post("/host-agents/"+agent.id+"/grants", form); status != http.StatusForbidden {
			t.Errorf("AAP-A7 what changes something, %s: HTTP %d; want 403", name, status)
		}
	}
	// A refused form comes back with its values, and the reason.
	wrong := url.Values{"capability": {"transfer_money"}, "max.hand.amount": {"999999999"}, "lasts": {"week"}, "answer": {"grant"}}
	if status, page := alice.post("/host-agents/"+agent.id+"/grants", wrong); status < 400 || !strings.Contains(page, `id="problem"`) || !strings.Contains(page, `value="999999999"`) || !strings.Contains(page, `value="week" selected`) {
		t.Errorf("AAP-K8 a refused grant by hand: HTTP %d; want the form with what was typed\n%s", status, page)
	}
	choose("transfer_money")
	if _, grants, _ := agent.status(); grants["transfer_money"] != "active" {
		t.Errorf("AAP-K8 with the passkey the grants are %v", grants)
	}
	w.press(`button[aria-label="Revoke list_accounts of Helper"]`, "main section")
	if status, answer := agent.execute("list_accounts", map[string]any{}); status != http.StatusForbidden || answer["error"] != "capability_not_granted" {
		t.Errorf("AAP-K8 what was taken back: HTTP %d %v; want 403 capability_not_granted", status, answer)
	}
	if status, answer := agent.execute("check_balance", map[string]any{"account_id": "acc_123"}); status != http.StatusOK {
		t.Errorf("AAP-K8 the other grant: HTTP %d %v; want it to stay", status, answer)
	}

	bob := b.visitor("bob")
	if status, text := bob.get("/hosts"); status != http.StatusOK || strings.Contains(text, agent.id) {
		t.Errorf("AAP-K8 another person sees the agent: HTTP %d", status)
	}
	for _, path := range []string{"/host-agents/" + agent.id + "/revoke", "/host-agents/" + agent.id + "/grants/check_balance", "/host-agents/" + agent.id + "/grants"} {
		if status, _ := bob.post(path, url.Values{"capability": {"list_accounts"}}); status != http.StatusNotFound {
			t.Errorf("AAP-K8 another person at %s: HTTP %d; want 404", path, status)
		}
	}

	// Before a host is revoked, its person sees what dies with it (AAP-K7).
	w.press(`a[href^="/hosts/hst_"]`, "button.deny")
	w.says("AAP-K7", "Revoke the host \u201cLaptop\u201d?", "2 agents and 3 grants", "\u201cHelper\u201d", "\u201cSecond\u201d", "Move money to another account")
	w.shot("revoke")
	w.press("main button.deny", "section")
	if status, answer := agent.execute("check_balance", map[string]any{"account_id": "acc_123"}); status != http.StatusForbidden {
		t.Errorf("AAP-K7 after its host was revoked: HTTP %d %v; want 403", status, answer)
	}
	if status, answer := b.call(http.MethodGet, "/agent/status?agent_id="+second.id, host.token(nil), nil); status != http.StatusForbidden || answer["error"] != "host_revoked" {
		t.Errorf("AAP-K7 the host itself: HTTP %d %v; want 403 host_revoked", status, answer)
	}
}
