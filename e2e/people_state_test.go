package e2e

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestATK63_NobodyWhoWasFrozenOrRemovedApproves freezes a person in a shell, lets them
// back in, and removes them for good. Anyone who is stopped is refused at every entrance: with a page
// that is open, at a new login, with a session in a shell, and with the header of
// experiments. After a thaw the logins from before do not count.
func TestATK63_NobodyWhoWasFrozenOrRemovedApproves(t *testing.T) {
	l := newLogin(t)
	w := start(t, options{
		callers: "  providers:\n    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}\n",
		files:   map[string]string{"keys.json": l.jwks(t)}, policies: asking,
	})
	id := pendingIn(t, w.caller(aliceToken).asksForReports())
	open := w.atPage("alice")
	_, seen := open.page(id)
	shell := http.Header{"Authorization": {"Bearer " + l.session(t, "alice", fact{"aud": w.url + "/approve", "iat": time.Now().Add(-time.Second).Unix()})}}
	yes := url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"0"}}
	entrances := map[string]func() int{
		"the list on a page that is open":     func() int { status, _ := open.get("/approve"); return status },
		"an answer on a page that is open":    func() int { status, _ := open.post("/approve/"+id, yes); return status },
		"the agents on a page that is open":   func() int { status, _ := open.get("/hosts"); return status },
		"the passkeys on a page that is open": func() int { status, _ := open.get("/passkeys"); return status },
		"a session in a shell":                func() int { return w.sends(http.MethodGet, "/v1/approvals", shell) },
		"an answer in a shell":                func() int { return w.sends(http.MethodPost, "/v1/approvals/"+id, shell) },
	}
	unknown := map[string]func() int{
		"a new login": func() int {
			v := &atPage{w, &http.Client{}}
			status, _ := v.post("/login", url.Values{"user": {"alice"}, "next": {"/approve"}})
			return status
		},
		"the header of experiments": func() int {
			status, _ := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+id, map[string]any{})
			return status
		},
	}
	refused := func(when string, all map[string]func() int) {
		t.Helper()
		for name, try := range all {
			if status := try(); status != http.StatusForbidden {
				t.Errorf("ATK-63 %s, %s: HTTP %d; want 403", when, name, status)
			}
		}
	}
	for _, c := range []struct{ verb, state string }{{"freeze", "frozen"}, {"remove", "removed"}} {
		if out := w.run("person", c.verb, "user:alice", "--reason", "left the company"); !strings.Contains(out, "user:alice is "+c.state) {
			t.Errorf("powerbox person %s says %q", c.verb, out)
		}
		refused(c.state, entrances)
		refused(c.state, unknown)
		if out := w.run("person", "list"); !strings.Contains(out, c.state) || !strings.Contains(out, "left the company") {
			t.Errorf("powerbox person list says %q", out)
		}
		if c.verb == "remove" {
			break
		}
		w.run("person", "thaw", "user:alice", "--reason", "came back")
		refused("let back after being "+c.state, entrances)
		if status, q := w.asPerson("alice", http.MethodGet, "/v1/approvals/"+id, nil); status != http.StatusOK || q["status"] != "pending" {
			t.Errorf("after it all: HTTP %d %v; want the question, unanswered", status, q)
		}
		w.run("freeze", "user:alice", "--reason", "by the other verb")
		refused("frozen by powerbox freeze", unknown)
		w.run("thaw", "user:alice", "--reason", "r")
	}
	records := w.run("evidence", "export", "--out", "-")
	for _, action := range []string{"person.freeze", "person.thaw", "person.remove"} {
		if !strings.Contains(records, action) {
			t.Errorf("no record of %s", action)
		}
	}
}

// TestATK63_AdministratorsAreAskedToo freezes an administrator, who then administers
// nothing, and has another one do it on the page.
func TestATK63_AdministratorsAreAskedToo(t *testing.T) {
	asGiven(t)
	b := serveBank(t, "localhost:"+freePort(t), "      administrators: [\"user:root\", \"user:second\"]",
		"identity:\n  dev:\n    - {name: root, token: root-session-token}\n    - {name: second, token: second-session-token}\n    - {name: alice, token: alice-session-token}\n", "--dev")
	root, second, alice := b.visitor("root"), b.visitor("second"), b.visitor("alice")
	if status, _ := alice.get("/people"); status != http.StatusForbidden {
		t.Errorf("the page of people for somebody who is no administrator: HTTP %d; want 403", status)
	}
	if status, _ := alice.post("/people/freeze", url.Values{"person": {"user:root"}, "reason": {"r"}}); status != http.StatusForbidden {
		t.Errorf("ATK-63 somebody who is no administrator freezes one: HTTP %d; want 403", status)
	}
	if status, _ := root.post("/people/freeze", url.Values{"person": {"user:second"}, "reason": {"on leave"}}); status != http.StatusForbidden {
		t.Errorf("an administrator freezes another without a passkey: HTTP %d; want 403", status)
	}
	page := openBrowser(t)
	page.authenticator()
	page.login(b.url, "root", "/passkeys")
	page.passkey(b.url)
	freeze := func(who string) string {
		form := `{person: "` + who + `", reason: "on leave"}`
		return page.js(signedFor(`"/people/freeze"`, form, `"/people/freeze"`, form))
	}
	if got := freeze("user:root"); got != "400" {
		t.Errorf("an administrator freezes themselves on the page: HTTP %s; want 400", got)
	}
	if got := freeze("user:second"); got != "200" {
		t.Fatalf("an administrator freezes another: HTTP %s; want 200", got)
	}
	for _, page := range []string{"/people", "/hosts", "/approve"} {
		if status, _ := second.get(page); status != http.StatusForbidden {
			t.Errorf("ATK-63 a frozen administrator at %s: HTTP %d; want 403", page, status)
		}
	}
	if status, _ := second.post("/people/remove", url.Values{"person": {"user:root"}, "reason": {"r"}}); status != http.StatusForbidden {
		t.Errorf("ATK-63 a frozen administrator removes another: HTTP %d; want 403", status)
	}
	if _, page := root.get("/people"); !strings.Contains(page, "user:second") || !strings.Contains(page, "frozen") || !strings.Contains(page, "on leave") {
		t.Errorf("the page of people says\n%s", page)
	}
	out, err := exec.Command(binary, "person", "thaw", "user:second", "--reason", "back", "-c", filepath.Join(b.dir, "powerbox.yaml")).CombinedOutput()
	if err != nil {
		t.Fatalf("powerbox person thaw: %v\n%s", err, out)
	}
	if status, _ := b.visitor("second").get("/people"); status != http.StatusOK {
		t.Errorf("an administrator who was let back: HTTP %d; want 200", status)
	}
}

// TestATK63_TheRegistryIsClosedToFrozenPeople freezes and removes a person whose session
// searches the registry, and freezes an agent that searches it for a person.
func TestATK63_TheRegistryIsClosedToFrozenPeople(t *testing.T) {
	l := newLogin(t)
	w := start(t, options{
		callers: "  providers:\n    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}\n  callers:\n    - {agent: scout, client: scout}\n",
		files:   map[string]string{"keys.json": l.jwks(t)}, policies: asking,
	})
	made := func() string {
		return l.session(t, "alice", fact{"aud": w.url, "iat": time.Now().Unix(), "auth_time": time.Now().Unix()})
	}
	scout := l.session(t, "carol", fact{"aud": w.url, "client_id": "scout"})
	see := func(when, session string, want int) {
		t.Helper()
		if status, found := w.listings(t, session, ""); status != want || want != http.StatusOK && len(found) > 0 {
			t.Errorf("ATK-63 the registry for %s: HTTP %d %v; want %d", when, status, found, want)
		}
	}
	old := made()
	see("an active person", old, http.StatusOK)
	see("a built-in user", aliceToken, http.StatusOK)
	see("an agent", scout, http.StatusOK)
	w.run("freeze", "agent:scout", "--reason", "hijacked")
	see("an agent that was frozen", scout, http.StatusForbidden)
	for _, c := range []struct{ verb, state string }{{"freeze", "a frozen person"}, {"remove", "a removed person"}} {
		w.run("person", c.verb, "user:alice", "--reason", "left the company")
		see(c.state, old, http.StatusForbidden)
		see(c.state+" with a new session", made(), http.StatusForbidden)
		see(c.state+" as a built-in user", aliceToken, http.StatusForbidden)
		see("somebody else", bobToken, http.StatusOK)
		if c.verb == "remove" {
			break
		}
		w.run("person", "thaw", "user:alice", "--reason", "came back")
		see("a login from before the person was let back", old, http.StatusForbidden)
	}
	w.run("freeze", "user:bob", "--reason", "by the other verb")
	see("a person whom powerbox freeze stopped", bobToken, http.StatusForbidden)
}

// TestLoggedOutEverywhere ends the logins of a person, in a shell by an administrator and on
// the person's own page. Sessions of browsers and tokens of shells from before do not count,
// a new login does, and the list of sessions follows.
func TestLoggedOutEverywhere(t *testing.T) {
	l := newLogin(t)
	w := start(t, options{
		callers: "  providers:\n    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}\n",
		files:   map[string]string{"keys.json": l.jwks(t)}, policies: asking,
	})
	pendingIn(t, w.caller(aliceToken).asksForReports())
	shell := http.Header{"Authorization": {"Bearer " + l.session(t, "alice", fact{"aud": w.url + "/approve", "iat": time.Now().Add(-time.Second).Unix()})}}
	lists := func() int { return w.sends(http.MethodGet, "/v1/approvals", shell) }
	open := func() int {
		return strings.Count(string(w.operator(http.MethodGet, "/v1/sessions?principal=user:alice", nil)), `"began"`)
	}
	laptop, phone := w.atPage("alice"), w.atPage("alice")
	if got := open(); got != 2 {
		t.Errorf("%d sessions of alice are open; want 2", got)
	}
	at := func(v *atPage) bool {
		status, page := v.get("/hosts")
		return status == http.StatusOK && strings.Contains(page, `action="/logout"`)
	}
	if !at(laptop) || !at(phone) || lists() != http.StatusOK {
		t.Fatal("alice is not logged in to begin with")
	}
	if out := w.run("person", "logout", "user:alice", "--reason", "left the laptop open"); !strings.Contains(out, "user:alice is logged out everywhere") {
		t.Errorf("powerbox person logout says %q", out)
	}
	if at(laptop) || at(phone) || lists() == http.StatusOK || open() != 0 {
		t.Errorf("after person logout: logged in %t at the laptop, %t at the phone, HTTP %d in the shell, %d sessions; want refusals and none", at(laptop), at(phone), lists(), open())
	}
	laptop = w.atPage("alice")
	if !at(laptop) || open() != 1 {
		t.Errorf("after a new login: logged in %t, %d sessions; want true and one", at(laptop), open())
	}
	if status, _ := laptop.post("/sessions/end-all", nil); status != http.StatusOK {
		t.Errorf("alice logs out everywhere on her page: HTTP %d", status)
	}
	if at(laptop) || open() != 0 {
		t.Errorf("after that: logged in %t at the laptop, %d sessions; want a refusal and none", at(laptop), open())
	}
	if got := strings.Count(w.run("evidence", "export", "--out", "-"), "person.logout"); got != 2 {
		t.Errorf("%d logouts are on record; want 2", got)
	}
}
