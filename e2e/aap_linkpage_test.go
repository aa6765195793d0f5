package e2e

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// linkTown is a server outside of experiments, with a default that changes something,
// and its first administrator in a browser with a passkey and as a program that reads
// the pages.
func linkTown(t *testing.T, conf string) (*pagesBank, *browser, *visitor) {
	t.Helper()
	b, reader := administered(t, conf)
	w := openBrowser(t)
	w.authenticator()
	w.loggedIn(reader)
	w.passkey(b.url)
	return b, w, reader
}

// administered is linkTown without a browser: its administrator has no passkey.
func administered(t *testing.T, conf string) (*pagesBank, *visitor) {
	t.Helper()
	b := serveBank(t, "localhost:"+freePort(t), "      administrators: [\"user:admin\"]\n      modes: [delegated, autonomous]\n      autonomous_hosts: any",
		"        - {name: pay, description: Pay any bill, sensitivity: write, default: true, constraints: {amount: {max: 50}}}\n"+
			"        - {name: look, description: Look around, sensitivity: read, default: true, autonomous: true}\n"+conf)
	link := ""
	eventually(t, patience, func() string { return "the server printed no URL:\n" + b.log.String() }, func() bool {
		link = invitation.FindString(b.log.String())
		return link != ""
	})
	reader := b.visitor("")
	if status, text := reader.post("/first", url.Values{"secret": {strings.TrimPrefix(link[strings.Index(link, "?"):], "?secret=")}}); status != http.StatusSeeOther {
		t.Fatalf("the first administrator: HTTP %d %s", status, text)
	}
	return b, reader
}

// loggedIn gives the browser the login of a visitor.
func (b *browser) loggedIn(v *visitor) {
	b.t.Helper()
	at, err := url.Parse(v.base)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range v.http.Jar.Cookies(at) {
		if _, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: v.base + "/"}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// hostID is what the provider calls the host of an agent.
func (a *protocolAgent) hostID() string {
	a.host.bank.t.Helper()
	_, said := a.host.bank.call(http.MethodGet, "/agent/status?agent_id="+a.id, a.host.token(nil), nil)
	id, _ := said["host_id"].(string)
	if id == "" {
		a.host.bank.t.Fatalf("status without a host: %v", said)
	}
	return id
}

// wantAtOnce registers an agent that asks for something, and wants it to have that or to wait.
func (h *protocolHost) wantAtOnce(id, capability, state string) map[string]any {
	h.bank.t.Helper()
	agent := h.register(map[string]any{"name": "Next", "capabilities": []any{capability}})
	got, grants, constraints := agent.status()
	if got != state {
		h.bank.t.Errorf("%s the agent that asks for %s is %s with %v; want %s", id, capability, got, grants, state)
	}
	held, _ := constraints[capability].(map[string]any)
	return held
}

// TestAAPU4_AnAdministratorLinksAHost links hosts outside of experiments, in a browser:
// what comes into force is shown with its limits before, defaults that change something
// take the tick and the passkey, and it is on record (AAP-P3, AAP-A7, AAP-U3).
func TestAAPU4_AnAdministratorLinksAHost(t *testing.T) {
	asGiven(t)
	b, w, reader := linkTown(t, "")
	host := b.host()
	alone := host.register(map[string]any{"name": "Alone <b>x</b>", "host_name": "Desk \u202eksed", "mode": "autonomous", "capabilities": []any{"look"}})
	at := "/hosts/" + alone.hostID() + "/link"

	w.do(chromedp.Navigate(b.url + "/hosts"))
	w.press(`a[href="`+at+`"]`, "#user")
	w.shot("link-whom")
	w.do(chromedp.SendKeys(chromedp.CSS("#user"), "user:alice"))
	w.press(`form[method=get] button`, "#answer")
	w.says("AAP-U4", "it would be of user:alice", "Look around", "only reads", "Pay any bill", "amount at most 50", "One agent that acts on its own", "Alone x", "Nobody of that name has a host or a passkey here", "signed with your passkey")
	w.do(chromedp.WaitReady(chromedp.CSS("button.deny:focus"))) // ATK-48: what the Enter key does
	if got := w.js(`[document.querySelectorAll("input[name=at_once]:checked").length, document.querySelectorAll("main b").length, /[\u202a-\u202e]/.test(document.body.innerText) ? 1 : 0]`); got != "[0,0,0]" {
		t.Errorf("ATK-48, AAP-A8 ticks, elements and directions of others: %s; want none", got)
	}
	w.shot("link")

	// What someone without the key posts, with the administrator's session.
	status, text := reader.get(at + "?user=user:alice")
	seen := seenField.FindStringSubmatch(text)
	if status != http.StatusOK || seen == nil {
		t.Fatalf("HTTP %d %s", status, text)
	}
	form := func(change func(url.Values)) url.Values {
		f := url.Values{"answer": {"link"}, "user": {"user:alice"}, "seen": {seen[1]}, "at_once": {"1"}}
		change(f)
		return f
	}
	for name, c := range map[string]struct {
		change func(url.Values)
		status int
	}{
		"without a passkey":       {func(url.Values) {}, http.StatusForbidden},
		"with a forged one":       {func(f url.Values) { f.Set("assertion", "{}") }, http.StatusForbidden},
		"without what was shown":  {func(f url.Values) { f.Del("seen"); f.Del("at_once") }, http.StatusBadRequest},
		"without an answer":       {func(f url.Values) { f.Del("answer"); f.Del("at_once") }, http.StatusBadRequest},
		"for whom it was not for": {func(f url.Values) { f.Set("user", "user:mallory"); f.Del("at_once") }, http.StatusConflict},
	} {
		if status, text := reader.post(at, form(c.change)); status != c.status {
			t.Errorf("AAP-A7, ATK-46 %s: HTTP %d %s; want %d", name, status, text, c.status)
		}
	}
	reader.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	if status, _ := reader.post(at, form(func(f url.Values) { f.Del("at_once") })); status != http.StatusForbidden {
		t.Errorf("ATK-47 of another site: HTTP %d; want 403", status)
	}
	reader.header = http.Header{"Sec-Fetch-Site": {"same-origin"}}
	// It has changed since it was shown: another agent would end with it.
	second := host.register(map[string]any{"name": "Also alone", "mode": "autonomous", "capabilities": []any{"look"}})
	if status, _ := reader.post(at, form(func(f url.Values) { f.Del("at_once") })); status != http.StatusConflict {
		t.Errorf("ATK-49 what was shown has changed: HTTP %d; want 409", status)
	}
	w.do(chromedp.Click(chromedp.CSS("#at-once")), chromedp.Click(chromedp.CSS("button.approve")), chromedp.WaitVisible(chromedp.CSS(".says:not(:empty)")))
	w.says("ATK-49", "has changed")
	if state, _, _ := alone.status(); state != "active" {
		t.Fatalf("AAP-U4 nothing was linked, and the agent is %s", state)
	}

	w.do(chromedp.Navigate(b.url+at+"?user=user:alice"), chromedp.Click(chromedp.CSS("#at-once")))
	w.says("AAP-U3", "2 agents that act on their own")
	w.press("button.approve", "section.card")
	w.says("AAP-U4", "of user:alice")
	if held := host.wantAtOnce("AAP-U4, AAP-P3", "pay", "active"); held["amount"].(map[string]any)["max"] != 50.0 {
		t.Errorf("AAP-P6 the grant is held to %v", held)
	}
	if status, answer := second.execute("look", nil); status != http.StatusForbidden || answer["error"] != "agent_claimed" {
		t.Errorf("AAP-U3 HTTP %d %v; want agent_claimed", status, answer)
	}
	out, err := exec.Command(binary, "evidence", "export", "-c", filepath.Join(b.dir, "powerbox.yaml"), "--out", "-").CombinedOutput()
	for _, want := range []string{`"host.link"`, `"present":true`, `"at_once":[{"capability":"look"},{"capability":"pay","constraints":{"amount":{"max":50}}}]`, `"claimed":2`, `"passkey":"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("AAP-Z4 the evidence has no %s: %v\n%s", want, err, out)
		}
	}
	w.do(chromedp.Navigate(b.url + "/activity"))
	w.says("AAP-U4", "linked a host")
}

// TestAAPU4_LinkedForWhatReads links a host without the tick, and lets its agents have
// the rest at once afterwards, as its user or an administrator can (AAP-P3, AAP-A7).
func TestAAPU4_LinkedForWhatReads(t *testing.T) {
	asGiven(t)
	b, w, reader := linkTown(t, "")
	host := b.host()
	at := "/hosts/" + host.register(map[string]any{"name": "Alone", "mode": "autonomous", "capabilities": []any{"look"}}).hostID() + "/link"
	w.do(chromedp.Navigate(b.url + at + "?user=user:alice"))
	w.press("button.approve", "section.card")
	w.says("AAP-P3", "Its agents ask each time for what changes something: Pay any bill")
	w.shot("hosts-withheld")
	host.wantAtOnce("AAP-P3", "look", "active")
	host.wantAtOnce("AAP-A7", "pay", "pending")
	_, text := reader.get(at)
	seen := seenField.FindStringSubmatch(text)
	if seen == nil {
		t.Fatal(text)
	}
	if status, _ := reader.post(at, url.Values{"answer": {"link"}, "seen": {seen[1]}, "at_once": {"1"}}); status != http.StatusForbidden {
		t.Errorf("AAP-A7 without a passkey: HTTP %d; want 403", status)
	}
	w.press(`section a[href="`+at+`"]`, "#answer")
	w.says("AAP-A9", "Pay any bill", "amount at most 50", "user:alice")
	w.shot("link-at-once")
	w.press("button.deny", "section.card")
	host.wantAtOnce("AAP-A5 left as it is:", "pay", "pending")
	w.do(chromedp.Navigate(b.url + at))
	w.press("button.approve", "section.card")
	host.wantAtOnce("AAP-U4", "pay", "active")
	if strings.Contains(w.text(), "Its agents ask each time") {
		t.Error("AAP-P3 the page still offers it")
	}
	w.do(chromedp.Navigate(b.url + "/activity"))
	w.says("AAP-U4", "at once what changes something")
}

// TestAAPU4_AnotherLinkIsNotSigned has a passkey sign one link and sends another: for
// someone else, with what changes something, for another host, twice.
func TestAAPU4_AnotherLinkIsNotSigned(t *testing.T) {
	asGiven(t)
	b, w, _ := linkTown(t, "")
	link := func(host *protocolHost) string {
		return "/hosts/" + host.register(map[string]any{"name": "Alone", "mode": "autonomous", "capabilities": []any{"look"}}).hostID() + "/link"
	}
	const sign = `(async () => {
		const form = document.querySelector("#answer");
		const said = new FormData(form); said.set("answer", "link");
		%BEFORE%
		const options = await (await fetch(form.dataset.passkey, {method: "POST", body: said})).json();
		const made = await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey)});
		said.set("assertion", JSON.stringify(made.toJSON()));
		let to = form.action;
		%CHANGE%
		return (await fetch(to, {method: "POST", body: said})).status;
	})()`
	other := link(b.host())
	for name, c := range map[string][2]string{
		"with what changes something": {"", `said.set("at_once", "1");`},
		"for somebody else":           {`said.set("at_once", "1");`, `const p = await (await fetch(to + "?user=user:bob")).text(); said.set("seen", p.match(/name="seen" value="([^"]+)"/)[1]); said.set("user", "user:bob");`},
		"of another host":             {`said.set("at_once", "1");`, `to = "` + other + `"; const p = await (await fetch(to + "?user=user:alice")).text(); said.set("seen", p.match(/name="seen" value="([^"]+)"/)[1]);`},
		"where there was no question": {`said.set("at_once", "1");`, `await fetch(form.dataset.passkey, {method: "POST", body: said});`},
	} {
		host := b.host()
		w.do(chromedp.Navigate(b.url + link(host) + "?user=user:alice"))
		if got := w.js(strings.NewReplacer("%BEFORE%", c[0], "%CHANGE%", c[1]).Replace(sign)); got != "403" {
			t.Errorf("ATK-46 a link %s: HTTP %s; want 403", name, got)
		}
		host.wantAtOnce("ATK-46 "+name, "pay", "pending")
	}
	w.do(chromedp.Navigate(b.url + other + "?user=user:alice"))
	if got := w.js(strings.NewReplacer("%BEFORE%", `said.set("at_once", "1");`, "%CHANGE%", "").Replace(sign)); got != "200" {
		t.Errorf("the link that was signed: HTTP %s; want 200", got)
	}
}

// TestAAPU4_WhoMayLink has others than administrators link hosts, and administrators to
// users whose names cannot be read.
func TestAAPU4_WhoMayLink(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	host := b.host()
	agent := host.register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	id := agent.hostID()
	at := "/hosts/" + id + "/link"
	alice, root := b.visitor("alice"), b.visitor("root")
	for path, want := range map[string]int{at: http.StatusNotFound, at + "?user=user:alice": http.StatusForbidden, "/hosts/hst_none/link?user=user:alice": http.StatusForbidden, "/hosts/hst_none/link": http.StatusNotFound} {
		if status, _ := alice.get(path); status != want {
			t.Errorf("AAP-U4 a user at %s: HTTP %d; want %d", path, status, want)
		}
	}
	form := url.Values{"answer": {"link"}, "user": {"user:alice"}, "seen": {"x"}}
	if status, _ := alice.post(at, form); status != http.StatusForbidden {
		t.Errorf("AAP-U4 a user links: HTTP %d; want 403", status)
	}
	if status, where := b.visitor("").post(at, form); status != http.StatusSeeOther || !strings.HasPrefix(where, "/login") {
		t.Errorf("AAP-U4 nobody links: HTTP %d", status)
	}
	for name, user := range map[string]string{"turned around": "user:al\u202eice", "with what cannot be seen": "user:alice\u200b", "with a space behind": "user:alice ", "no text": "user:\xff", "too long": "user:" + strings.Repeat("a", 300)} {
		if status, _ := root.get(at + "?user=" + url.QueryEscape(user)); status != http.StatusBadRequest {
			t.Errorf("ATK-49 a user %s: HTTP %d; want 400", name, status)
		}
		if status, _ := root.post(at, url.Values{"answer": {"link"}, "user": {user}, "seen": {"x"}}); status != http.StatusBadRequest {
			t.Errorf("ATK-49 linked to a user %s: HTTP %d; want 400", name, status)
		}
	}
	if status, text := root.get(at + "?user=" + url.QueryEscape("user:\u0430lice")); status != http.StatusOK || !strings.Contains(text, "mixes letters") {
		t.Errorf("ATK-49 a name of several scripts: HTTP %d %s", status, text)
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Errorf("the agent is %s", state)
	}
	// In a shell, with what it says.
	out, err := exec.Command(binary, "agent", "link", id, "--user", "user:alice", "--server", b.url, "--as", "alice").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "by an administrator") {
		t.Errorf("AAP-U4 powerbox agent link as a user: %v\n%s", err, out)
	}
	for _, c := range []struct{ verb, want string }{{"link", "is of user:alice; its agents have at once: check_balance"}, {"hosts", "user:alice"}, {"unlink", "is nobody's; 1 agent"}} {
		args := []string{"agent", c.verb, id, "--user", "user:alice", "--server", b.url, "--as", "root"}
		if c.verb != "link" {
			args = append(args[:3:3], args[5:]...)
		}
		if c.verb == "hosts" {
			args = append(args[:2:2], args[3:]...)
		}
		if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("AAP-U4 powerbox %v: %v\n%s", args, err, out)
		}
	}
}

// TestAAPU4_ALinkTakesAFreshLogin waits until the administrator's login is old: looking
// continues, and linking does not (AAP-A6).
func TestAAPU4_ALinkTakesAFreshLogin(t *testing.T) {
	asGiven(t)
	b, reader := administered(t, "approvals: {fresh: 1s}\n")
	host := b.host()
	at := "/hosts/" + host.register(map[string]any{"name": "Alone", "mode": "autonomous", "capabilities": []any{"look"}}).hostID() + "/link"
	seen := ""
	eventually(t, patience, func() string { return "the login stays fresh" }, func() bool {
		_, text := reader.get(at + "?user=user:alice")
		if m := seenField.FindStringSubmatch(text); m != nil {
			seen = m[1]
		}
		return strings.Contains(text, "Log in again to link it")
	})
	for _, path := range []string{at, at + "/challenge"} {
		if status, text := reader.post(path, url.Values{"answer": {"link"}, "user": {"user:alice"}, "seen": {seen}}); status != http.StatusForbidden || !strings.Contains(text, "log in again") {
			t.Errorf("AAP-A6 %s with an old login: HTTP %d %s; want 403", path, status, text)
		}
	}
}
