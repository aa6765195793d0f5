package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestInboxDeniesSeveralAtOnce denies two requests and one that has ended, without
// script: each is answered singly, and the page tells the result.
func TestInboxDeniesSeveralAtOnce(t *testing.T) {
	asGiven(t)
	b := payBank(t)
	alice := b.visitor("alice")
	host := b.host()
	agent := host.register(map[string]any{"name": "Helper", "host_name": "Laptop", "capabilities": []any{"check_balance"}})
	at := alice.open(agent.code)
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, text)
	}
	var ids []string
	for i, wants := range []any{transfers(5, "acc_1"), "close_account", transfers(70, "acc_2")} {
		if status, answer := agent.ask(fmt.Sprintf("reason %d", i), wants); status >= 300 {
			t.Fatalf("HTTP %d %v", status, answer)
		}
		ids = append(ids, b.approvalID("alice", agent.code))
	}
	_, list := alice.get("/approve")
	for _, want := range []string{"<title>(3) Approvals", "amount at most \u20ac5", "Close an account for good", "reason 1", "3 requests", `<time data-left datetime="20`} {
		if !strings.Contains(list, want) {
			t.Errorf("the inbox does not say %q:\n%s", want, list)
		}
	}
	if strings.Contains(list, " checked") {
		t.Error("a request is chosen before a person chose it")
	}
	_, found := alice.get("/approve?q=CLOSE+an")
	if n := len(regexp.MustCompile(`name="deny"`).FindAllString(found, -1)); n != 1 || !strings.Contains(found, "1 of 3") {
		t.Errorf("the search finds %d requests; want 1", n)
	}
	if status, text := alice.post("/approve", url.Values{"answer": {"deny"}}); status != http.StatusBadRequest || !strings.Contains(text, "Nothing is chosen") {
		t.Errorf("without a choice: HTTP %d", status)
	}
	if status, text := b.visitor("bob").post("/approve", url.Values{"answer": {"deny"}, "deny": ids}); status != http.StatusOK || !strings.Contains(text, "Denied: 0.") || strings.Contains(text, "Close an account") {
		t.Errorf("another person denies them: HTTP %d\n%s", status, text)
	}
	if status, text := alice.post("/approve", url.Values{"answer": {"deny"}, "deny": ids[:1]}); status != http.StatusOK || !strings.Contains(text, "Denied: 1.") {
		t.Errorf("one is denied: HTTP %d\n%s", status, text)
	}
	status, text := alice.post("/approve", url.Values{"answer": {"deny"}, "deny": ids})
	if status != http.StatusOK || !strings.Contains(text, "Denied: 2.") || !strings.Contains(text, "Had ended already") || !strings.Contains(text, "Nothing waits for you") {
		t.Errorf("three are denied, one of which has ended: HTTP %d\n%s", status, text)
	}
	if _, grants, _ := agent.status(); grants["close_account"] != "denied" || grants["transfer_money"] != "denied" {
		t.Errorf("the grants are %v; want them denied", grants)
	}
}

// TestInboxIsUsedByKeys moves, chooses and opens by keys. No key approves.
func TestInboxIsUsedByKeys(t *testing.T) {
	asGiven(t)
	b := payBank(t)
	alice := b.visitor("alice")
	agent := b.host().register(map[string]any{"name": "Helper", "host_name": "Laptop", "capabilities": []any{"check_balance"}})
	at := alice.open(agent.code)
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, text)
	}
	agent.ask("first", transfers(5, "acc_1"))
	agent.ask("second", "close_account")
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve")
	w.opened(b.url, "/approve", "inbox")
	key := func(k string) {
		w.js(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "` + k + `", bubbles: true, cancelable: true})) || 1`)
	}
	focus := func() string {
		return w.js(`[...document.querySelectorAll(".waits a")].indexOf(document.activeElement)`)
	}
	key("j")
	key("j")
	if got := focus(); got != "1" {
		t.Errorf("after j twice the focus is at %s; want 1", got)
	}
	key("k")
	if got := focus(); got != "0" {
		t.Errorf("after k the focus is at %s; want 0", got)
	}
	key("x")
	if got := w.js(`[...document.querySelectorAll("input[name=deny]")].map(e => e.checked)`); got != "[true,false]" {
		t.Errorf("after x chosen are %s", got)
	}
	for _, k := range []string{"a", "y", "d", "?"} {
		key(k)
	}
	if got := w.js(`[document.querySelector("#keys").open, location.pathname]`); got != `[true,"/approve"]` {
		t.Errorf("after ? the page is %s", got)
	}
	if _, grants, _ := agent.status(); grants["close_account"] != "pending" || grants["transfer_money"] != "pending" {
		t.Errorf("keys answered a request: %v", grants)
	}
	if left := w.js(`document.querySelector("time[data-left]").textContent`); !strings.Contains(left, "within ") {
		t.Errorf("the time that is left is %s", left)
	}
}

// TestRefusedAnswerKeepsWhatWasTyped refuses an answer at its own page, with the reason
// and the choices. The page of a request that was approved lists the grants, and
// revokes it.
func TestRefusedAnswerKeepsWhatWasTyped(t *testing.T) {
	asGiven(t)
	b := payBank(t)
	agent := b.host().register(map[string]any{"name": "Rent payer", "host_name": "Laptop", "capabilities": []any{transfers(900, "acc_123")}})
	w := openBrowser(t)
	w.authenticator()
	w.login(b.url, "alice", "/approve")
	w.passkey(b.url)
	page := b.url + "/approve/" + b.approvalID("alice", agent.code)
	w.do(chromedp.Navigate(page), chromedp.WaitReady(chromedp.CSS("button.deny:focus")))
	// As without script: the form is posted with a limit that is wider.
	w.js(`(() => {
		document.querySelector("[name^='max.']").value = "5000";
		document.querySelector("[name^='why.']").value = "too much";
		document.querySelector("input[name=grant]").checked = true;
		document.documentElement.dataset.old = "1";
		const said = Object.assign(document.createElement("input"), {type: "hidden", name: "answer", value: "approve"});
		const form = document.querySelector("#answer");
		form.append(said);
		HTMLFormElement.prototype.submit.call(form);
		return 1;
	})()`)
	w.do(chromedp.WaitReady(chromedp.CSS("html:not([data-old]) #problem")))
	w.settled()
	w.says("in place", "can only be narrowed", "Rent payer")
	if kept := w.js(`[document.querySelector("[name^='max.']").value, document.querySelector("[name^='why.']").value, document.querySelector("input[name=grant]").checked]`); kept != `["5000","too much",true]` {
		t.Errorf("after a refused answer the form has %s", kept)
	}
	w.js(`(() => { const max = document.querySelector("[name^='max.']"); max.value = "850"; max.dispatchEvent(new Event("input", {bubbles: true})); return 1; })()`)
	if said := w.js(`document.querySelector("button.approve").textContent`); said != `"Approve: amount up to €850"` {
		t.Errorf("the button says %s", said)
	}
	w.js(`(() => { const until = document.querySelector("#until"); until.selectedIndex = 1; until.dispatchEvent(new Event("input", {bubbles: true})); return 1; })()`)
	if said := w.js(`document.querySelector("button.approve").textContent`); said != `"Approve: amount up to €850, 1 hour"` {
		t.Errorf("the button says %s", said)
	}
	w.press("button.approve", "#did-title")
	w.says("given", "Approved", "amount at most \u20ac850", "until ")
	w.opened(b.url, strings.TrimPrefix(page, b.url), "given")
	w.press(`form[action*="/grants/"] button`, "#did-title")
	if _, grants, _ := agent.status(); grants["transfer_money"] != "revoked" {
		t.Errorf("the grants are %v; want transfer_money revoked", grants)
	}
}
