package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestAAPA9_SubsetWithoutPasskey approves, in a browser, one of two things that an
// agent wants to read, and sees that it has that one alone.
func TestAAPA9_SubsetWithoutPasskey(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{
		"name": "Budget helper", "host_name": "Alice's laptop", "reason": "To show you what you <b>spend</b> each month", "capabilities": []any{"check_balance", "list_accounts"},
	})
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve?code="+agent.code)
	w.shot("code")
	w.press(`form[action="/approve"] button`, "#answer")
	w.says("AAP-A9", "New computer \u201cAlice's laptop\u201d: \u201cBudget helper\u201d wants: ", "new: nobody has approved it yet", "user:alice", "See the balance of one account", "only reads", "new for this agent",
		"To show you what you spend each month")
	w.do(chromedp.WaitReady(chromedp.CSS("button.deny:focus"))) // ATK-48: what the Enter key does
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

// TestAAPA7_PasskeySignsTheAnswer approves what changes something, in a browser
// with a security key, for less than was asked: without the key it is refused.
func TestAAPA7_PasskeySignsTheAnswer(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{
		"name": "Bill payer", "reason": "To pay the rent", "capabilities": []any{"check_balance", limited("transfer_money", map[string]any{"amount": map[string]any{"max": 1000}})},
	})
	w := openBrowser(t)
	w.authenticator()
	w.login(b.url, "alice", "/approve")
	id := b.approvalID("alice", agent.code)
	page := b.url + "/approve/" + id
	w.do(chromedp.Navigate(page))
	w.says("AAP-A10", "Move money to another account", "changes something", "at most 1000", "add one first")
	w.shot("question-without-passkey")
	const risky = ".ask.risky input[name=grant]"
	w.do(chromedp.Click(chromedp.CSS(risky)), chromedp.Click(chromedp.CSS("button.approve")), chromedp.WaitVisible(chromedp.CSS(".says:not(:empty)")))
	w.says("AAP-A7", "you have no passkey yet")

	w.shot("passkeys-none")
	w.passkey(b.url)
	w.shot("passkeys")
	w.do(chromedp.Navigate(page), chromedp.Click(chromedp.CSS(risky)))
	// Without the key, as a script in its place would: the answer is not taken.
	refused := w.js(`(() => { const f = new FormData(document.querySelector("#answer")); f.set("answer", "approve"); return fetch(location.href, {method: "POST", body: f}).then(r => r.status) })()`)
	if refused != "403" {
		t.Errorf("AAP-A7 approved without a passkey: HTTP %s; want 403", refused)
	}
	wider := w.js(`(() => { const f = new FormData(document.querySelector("#answer")); f.set("answer", "approve"); f.set(document.querySelector("[name^='max.']").name, "5000"); return fetch(location.href, {method: "POST", body: f}).then(async r => r.status + (/can only be narrowed/.test(await r.text()) ? " narrowed" : "")) })()`)
	if wider != `"400 narrowed"` {
		t.Errorf("AAP-G3 approved for more than was asked: HTTP %s; want 400", wider)
	}
	if got := w.js(`fetch("/passkeys/challenge", {method: "POST", body: new FormData()}).then(r => r.status)`); got != "403" {
		t.Errorf("ATK-47 another passkey without the first: HTTP %s; want 403", got)
	}
	w.do(chromedp.SetValue(chromedp.CSS(`.ask.risky input[name^="max."]`), "100"))
	w.shot("question-write")
	w.press("button.approve", "#did-title")
	w.says("AAP-G3", "Approved", "amount at most 100")
	state, grants, constraints := agent.status()
	if state != "active" || grants["transfer_money"] != "active" || grants["check_balance"] != "denied" {
		t.Fatalf("AAP-A7 the agent is %s with %v", state, grants)
	}
	amount, _ := constraints["transfer_money"].(map[string]any)["amount"].(map[string]any)
	if amount["max"] != 100.0 {
		t.Errorf("AAP-P6 the grant is held to %v; want amount at most 100", constraints["transfer_money"])
	}
	transfer := func(amount int) int {
		status, _ := agent.execute("transfer_money", map[string]any{"amount": amount, "currency": "USD", "destination_account": "acc_456"})
		return status
	}
	if got := transfer(50); got != http.StatusOK {
		t.Errorf("AAP-A7 within what was approved: HTTP %d; want 200", got)
	}
	if got := transfer(500); got != http.StatusForbidden {
		t.Errorf("AAP-A7 beyond what was approved: HTTP %d; want 403", got)
	}
	w.do(chromedp.Navigate(b.url + "/activity"))
	w.says("AAP-A9", "\u201cBill payer\u201d", "did: Move money to another account", "tried: Move money to another account", "answered a request", "added a passkey")
	w.shot("activity")
}

// TestAAPA7_AnotherAnswerIsNotSigned has a passkey sign one answer and sends
// another: wider constraints, another capability, a later end, the same twice.
func TestAAPA7_AnotherAnswerIsNotSigned(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	host := b.host()
	w := openBrowser(t)
	w.authenticator()
	w.login(b.url, "alice", "/approve")
	w.passkey(b.url)
	// sign has the form signed, and then changes it before it is sent.
	const sign = `(async () => {
		const form = document.querySelector("#answer"), sent = new FormData(form);
		form.querySelectorAll("input[name=grant]")[0].checked = true;
		const said = new FormData(form); said.set("answer", "approve");
		const options = await (await fetch(form.dataset.passkey, {method: "POST", body: said})).json();
		%BEFORE%
		const made = await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey)});
		said.set("assertion", JSON.stringify(made.toJSON()));
		window.before = made.toJSON();
		%CHANGE%
		const r = await fetch(location.href, {method: "POST", body: said});
		return [r.status, r.redirected];
	})()`
	ask := func(what ...any) *protocolAgent {
		agent := host.register(map[string]any{"name": "Bill payer", "capabilities": what})
		w.do(chromedp.Navigate(b.url + "/approve/" + b.approvalID("alice", agent.code)))
		return agent
	}
	signed := func(before, change string) string {
		t.Helper()
		return w.js(strings.NewReplacer("%BEFORE%", before, "%CHANGE%", change).Replace(sign))
	}
	money := limited("transfer_money", map[string]any{"amount": map[string]any{"max": 1000}})
	for name, change := range map[string]string{
		"wider than what was signed": `said.set([...said.keys()].find(k => k.startsWith("max.")), "999");`,
		"another capability":         `said.append("grant", form.querySelectorAll("input[name=grant]")[1].value);`,
		"an earlier end":             `said.set("until", form.querySelector("select[name=until] option:nth-child(2)").value);`,
		"another person's words":     `said.set("reason", "something else");`,
	} {
		agent := ask(money, "check_balance")
		w.do(chromedp.SetValue(chromedp.CSS(`input[name^="max."]`), "100"))
		if got := signed("", change); got != "[403,false]" {
			t.Errorf("ATK-46 %s: %s; want 403", name, got)
		}
		if state, _, _ := agent.status(); state != "pending" {
			t.Errorf("ATK-46 %s: the agent is %s; want pending", name, state)
		}
	}
	ask(money)
	if got := signed(`options.publicKey.userVerification = "discouraged";`, ""); got != "[403,false]" {
		t.Errorf("AAP-A7 a passkey that did not verify its user: %s; want 403", got)
	}
	first := ask(money)
	if got := signed("", ""); got != "[200,true]" {
		t.Fatalf("AAP-A7 what was signed: %s; want a page that says so", got)
	}
	if state, _, _ := first.status(); state != "active" {
		t.Errorf("AAP-A7 the agent is %s; want active", state)
	}
	old := w.js("window.before")
	ask(money)
	if got := signed("", `said.set("assertion", JSON.stringify(`+old+`));`); got != "[403,false]" {
		t.Errorf("ATK-46 the signature of another answer: %s; want 403", got)
	}
}

// TestAAPA5_DenyWithoutScript denies in a browser that runs no script.
func TestAAPA5_DenyWithoutScript(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{"name": "Pusher", "capabilities": []any{"transfer_money"}})
	w := openBrowser(t)
	if _, err := chromedp.Call(w.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	w.do(
		chromedp.Navigate(b.url+"/approve?code="+agent.code), chromedp.Click(chromedp.CSS(`button[value=alice]`)), chromedp.WaitVisible(chromedp.CSS("#code")),
		chromedp.Click(chromedp.CSS(`form[action="/approve"] button`)), chromedp.WaitVisible(chromedp.CSS("#answer")),
	)
	shown, err := chromedp.Run(w.ctx, chromedp.TextContent(chromedp.CSS("main")))
	if err != nil || !strings.Contains(shown, "Move money to another account") || !strings.Contains(shown, "Nothing limits this") && !strings.Contains(shown, "at most 10000") {
		t.Errorf("AAP-A9 without script the page says: %s %v", shown, err)
	}
	w.do(chromedp.Click(chromedp.CSS("button.deny")), chromedp.WaitVisible(chromedp.CSS("#did-title")))
	// The host was never approved, so it ends with its agent.
	status, answer := b.call(http.MethodGet, "/agent/status?agent_id="+agent.id, agent.host.token(nil), nil)
	if status != http.StatusOK || answer["status"] != "rejected" {
		t.Errorf("AAP-A5 the agent asks how it stands: HTTP %d %v; want 200 and rejected", status, answer)
	}
}
