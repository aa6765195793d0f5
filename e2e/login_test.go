package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// serveBank runs the server as people run it, without dev mode unless a flag says
// so, with a provider of two capabilities and more sections of the configuration. What reaches the
// backend is answered with a balance.
func serveBank(t *testing.T, at, provider, sections string, flags ...string) *pagesBank {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data": {"balance": 4280.13}}`)
	}))
	t.Cleanup(backend.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "powerbox.yaml")
	text := fmt.Sprintf(`listen: %s
issuer: {url: "http://%s", directory: data}
agents:
  - id: bank
    upstream: %q
    agent_auth:
      questions: 0
%s
      capabilities:
        - {name: check_balance, description: See the balance of one account, sensitivity: read}
        - {name: transfer_money, description: Move money to another account, sensitivity: write}
%s`, at, at, backend.URL, provider, sections)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, append([]string{"serve", "--config", file}, flags...)...), b.url)
	return b
}

// openIDProvider is one of another hand, with one user, at another site than the
// server's.
func openIDProvider(t *testing.T, client, redirect string) string {
	t.Helper()
	return openIDProviderBehind(t, client, redirect, func(provider http.Handler) http.Handler { return provider })
}

// openIDProviderBehind is [openIDProvider] with something in front of it.
func openIDProviderBehind(t *testing.T, client, redirect string, front func(http.Handler) http.Handler) string {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front(handler).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	clients := map[string]*storage.Client{client: storage.WebClient(client, "secret-of-the-bank", redirect)}
	handler = exampleop.SetupServer(server.URL, storage.NewStorageWithClients(storage.NewUserStore(server.URL), clients), nil, false)
	return server.URL
}

// behindProvider serves with an OpenID provider to log in at.
func behindProvider(t *testing.T, approvals string) *pagesBank {
	t.Helper()
	at := "localhost:" + freePort(t)
	idp := openIDProvider(t, "powerbox", "http://"+at+"/login/callback")
	return serveBank(t, at, "", fmt.Sprintf(`identity:
  providers: [{issuer: %q}]
approvals:
%s  login: {issuer: %q, client_id: powerbox, client_secret: secret-of-the-bank, scopes: [profile]}
`, idp, approvals, idp))
}

// loginAtProvider goes to a page, which asks for a login first.
func (b *browser) loginAtProvider(page string) {
	b.t.Helper()
	b.do(
		chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS(`a[href^="/login/provider"]`)),
		chromedp.Click(chromedp.CSS(`a[href^="/login/provider"]`)), chromedp.WaitVisible(chromedp.CSS("input[name=username]")),
		chromedp.SendKeys(chromedp.CSS("input[name=username]"), "test-user@127.0.0.1"), chromedp.SendKeys(chromedp.CSS("input[name=password]"), "verysecure"),
		chromedp.Click(chromedp.CSS("[type=submit]")), chromedp.WaitVisible(chromedp.CSS("header .who")),
	)
	b.settled()
}

// TestAAPA6_LoginAtAnOpenIDProvider logs in through an OpenID provider of another
// hand, and approves.
func TestAAPA6_LoginAtAnOpenIDProvider(t *testing.T) {
	asGiven(t)
	b := behindProvider(t, "")
	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	w := openBrowser(t)
	w.do(chromedp.Navigate(b.url + "/login"))
	w.shot("login-provider")
	w.loginAtProvider(b.url + "/approve?code=" + agent.code)
	w.says("AAP-A6", "user:id1")
	w.press(`form[action="/approve"] button`, "#answer")
	w.do(chromedp.Click(chromedp.CSS("input[name=grant]")))
	w.press("button.approve", "#did-title")
	if state, _, _ := agent.status(); state != "active" {
		t.Errorf("AAP-A6 the agent is %s; want active", state)
	}
}

// TestAAPA6_LoginThatIsNotFresh approves with a login that is no longer fresh:
// approving requires a new login, and denying does not.
func TestAAPA6_LoginThatIsNotFresh(t *testing.T) {
	asGiven(t)
	b := behindProvider(t, "  fresh: 1s\n")
	host := b.host()
	agent := host.register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	w := openBrowser(t)
	w.loginAtProvider(b.url + "/approve?code=" + agent.code)
	w.press(`form[action="/approve"] button`, "#answer")
	for !strings.Contains(w.text(), "Log in again to approve") {
		w.do(chromedp.Reload())
		w.settled()
	}
	w.shot("question-stale")
	refused := w.js(`(() => { const f = new FormData(document.querySelector("#answer")); f.set("answer", "approve"); f.set("grant", document.querySelector("[name=grant]").value); return fetch(location.href, {method: "POST", body: f}).then(r => r.status) })()`)
	if refused != "403" {
		t.Errorf("AAP-A6 approved with a login that is not fresh: HTTP %s; want 403", refused)
	}
	w.do(chromedp.Click(chromedp.CSS("input[name=grant]")))
	w.press(`#answer a[href^="/login?next="]`, `a[href^="/login/provider"]`)
	w.do(
		chromedp.Click(chromedp.CSS(`a[href^="/login/provider"]`)), chromedp.WaitVisible(chromedp.CSS("input[name=username]")),
		chromedp.SendKeys(chromedp.CSS("input[name=username]"), "test-user@127.0.0.1"), chromedp.SendKeys(chromedp.CSS("input[name=password]"), "verysecure"),
		chromedp.Click(chromedp.CSS("[type=submit]")), chromedp.WaitVisible(chromedp.CSS("#answer")),
	)
	w.settled()
	if kept := w.js(`document.querySelector("input[name=grant]").checked`); kept != "true" {
		t.Errorf("after another login the choice is %s; want it kept", kept)
	}
	w.press("button.deny", "#did-title")
	if status, answer := b.call(http.MethodGet, "/agent/status?agent_id="+agent.id, host.token(nil), nil); status != http.StatusOK || answer["status"] != "rejected" {
		t.Errorf("AAP-A5 the agent asks how it stands: HTTP %d %v; want 200 and rejected", status, answer)
	}
}

// TestATK47_LoginOfOthers sends the callback of a login values of another
// login: no cookie, another state, another's code, a code twice.
func TestATK47_LoginOfOthers(t *testing.T) {
	asGiven(t)
	b := behindProvider(t, "")
	begin := func(v *visitor, next string) url.Values {
		t.Helper()
		status, where := v.get("/login/provider?next=" + url.QueryEscape(next))
		if status != http.StatusSeeOther {
			t.Fatalf("HTTP %d %s", status, where)
		}
		u, err := url.Parse(strings.SplitN(where, "<", 2)[0])
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		for name, want := range map[string]string{"response_type": "code", "code_challenge_method": "S256", "max_age": "300"} {
			if q.Get(name) != want {
				t.Errorf("AAP-A6 the login's %s is %q; want %q", name, q.Get(name), want)
			}
		}
		if len(q.Get("code_challenge")) != 43 || len(q.Get("nonce")) < 43 || len(q.Get("state")) < 43 {
			t.Errorf("AAP-A6 the login is not bound: %v", q)
		}
		return q
	}
	mine, theirs := b.visitor(""), b.visitor("")
	state := begin(mine, "/approve").Get("state")
	for name, query := range map[string]string{
		"without a login":     "code=x&state=" + state,
		"with an empty state": "code=x&state=",
	} {
		if status, _ := b.visitor("").get("/login/callback?" + query); status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("ATK-47 a callback %s: HTTP %d; want it refused", name, status)
		}
	}
	begin(theirs, "/approve")
	if status, _ := theirs.get("/login/callback?code=x&state=" + state); status != http.StatusForbidden {
		t.Errorf("ATK-47 a callback with the state of another: HTTP %d; want 403", status)
	}
	if status, _ := mine.get("/login/callback?code=invented&state=" + state); status != http.StatusForbidden {
		t.Errorf("ATK-47 a callback with an invented code: HTTP %d; want 403", status)
	}
	if status, _ := mine.get("/login/callback?code=invented&state=" + state); status != http.StatusForbidden {
		t.Errorf("ATK-47 a callback twice: HTTP %d; want 403", status)
	}
	if status, where := mine.get("/approve"); status != http.StatusSeeOther || !strings.HasPrefix(where, "/login") {
		t.Errorf("ATK-47 after all that somebody is logged in: HTTP %d", status)
	}
	if status, _ := mine.post("/login", url.Values{"user": {"alice"}}); status != http.StatusForbidden {
		t.Errorf("ATK-47 a built-in user outside of dev mode: HTTP %d; want 403", status)
	}
}

var invitation = regexp.MustCompile(`http://\S+/first\?secret=\S+`)

// TestATK50_TheFirstURLIsGoodOnce has someone else who has seen the printed URL follow the
// administrator: before there is a passkey, and after the first was taken out again.
func TestATK50_TheFirstURLIsGoodOnce(t *testing.T) {
	asGiven(t)
	b, w, _ := linkTown(t, "")
	secret := url.Values{"secret": {strings.TrimPrefix(invitation.FindString(b.log.String()), b.url+"/first?secret=")}}
	again := func(when string) {
		t.Helper()
		if status, text := b.visitor("").post("/first", secret); status != http.StatusForbidden {
			t.Errorf("ATK-50 the URL %s: HTTP %d %s; want 403", when, status, text)
		}
	}
	again("while there is a passkey")
	w.press("header .who button", `form[action="/login/passkey"]`)
	w.press(`form[action="/login/passkey"] button`, "#waiting")
	w.do(chromedp.Navigate(b.url + "/passkeys"))
	w.press(`form[action="/passkeys/remove"] button`, "form[data-register]")
	w.says("AAP-A7", "You have none yet")
	again("after the passkey was taken out")

	other := serveBank(t, "localhost:"+freePort(t), "", "")
	eventually(t, patience, func() string { return "the server printed no URL:\n" + other.log.String() }, func() bool { return invitation.FindString(other.log.String()) != "" })
	secret.Set("secret", strings.TrimPrefix(invitation.FindString(other.log.String()), other.url+"/first?secret="))
	if status, _ := other.visitor("").post("/first", secret); status != http.StatusSeeOther {
		t.Fatalf("AAP-A7 the first: HTTP %d", status)
	}
	if status, text := other.visitor("").post("/first", secret); status != http.StatusForbidden {
		t.Errorf("ATK-50 a second person, before there is a passkey: HTTP %d %s; want 403", status, text)
	}
}

// TestAAPA7_FirstAdministrator begins without any provider of logins: the printed
// URL is good for one passkey, with which the administrator logs in from then on.
func TestAAPA7_FirstAdministrator(t *testing.T) {
	asGiven(t)
	at := "localhost:" + freePort(t)
	b := serveBank(t, at, "", "")
	// It was printed before the server was ready, but what it prints comes through a
	// pipe that is read beside this.
	link := ""
	eventually(t, patience, func() string { return "the server printed no URL:\n" + b.log.String() }, func() bool {
		link = invitation.FindString(b.log.String())
		return link != ""
	})
	if status, _ := b.visitor("").post("/first", url.Values{"secret": {"guessed"}}); status != http.StatusForbidden {
		t.Errorf("ATK-50 a guessed secret: HTTP %d; want 403", status)
	}
	w := openBrowser(t)
	w.authenticator()
	w.do(chromedp.Navigate(link))
	w.shot("first")
	w.press("main button", "form[data-register]")
	w.passkey(b.url)
	secret := strings.TrimPrefix(link[strings.Index(link, "?"):], "?secret=")
	if status, text := b.visitor("").post("/first", url.Values{"secret": {secret}}); status != http.StatusForbidden {
		t.Errorf("AAP-A7 the printed URL after the passkey: HTTP %d %s; want 403", status, text)
	}
	w.press("header .who button", `form[action="/login/passkey"]`)
	w.shot("login-passkey")
	w.press(`form[action="/login/passkey"] button`, "#waiting")
	w.says("AAP-A7", "user:admin")

	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"transfer_money"}})
	w.do(chromedp.SendKeys(chromedp.CSS("#code"), agent.code))
	w.press(`form[action="/approve"] button`, "#answer")
	w.says("AAP-A9", "Nothing limits this")
	w.do(chromedp.Click(chromedp.CSS("input[name=grant]")))
	w.press("button.approve", "#did-title")
	if status, answer := agent.execute("transfer_money", map[string]any{}); status != http.StatusOK {
		t.Errorf("AAP-A7 what was approved: HTTP %d %v", status, answer)
	}
	// Another passkey is added by who has just used one, and is then there.
	w.do(chromedp.Navigate(b.url + "/passkeys"))
	w.says("AAP-A7", "Test key", "Add a passkey")
	w.shot("passkeys-proved")
}
