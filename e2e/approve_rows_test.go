package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// builtIn is a section with a built-in user.
const builtIn = "identity: {dev: [{name: alice, token: session-of-alice}]}\n"

// TestAAPA12_AskedAgain registers twice: the agent is the same and pending, and its
// second code another, which is stored nowhere (AAP-A1, AAP-A2, AAP-A12).
func TestAAPA12_AskedAgain(t *testing.T) {
	asGiven(t)
	b := serveBank(t, "localhost:"+freePort(t), "", builtIn, "--dev")
	host := b.host()
	key := newEd25519(t)
	register := func() (string, map[string]any) {
		t.Helper()
		status, answer := b.call(http.MethodPost, "/agent/register", host.token(key), map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
		approval, _ := answer["approval"].(map[string]any)
		if status >= 300 || answer["status"] != "pending" || approval == nil {
			t.Fatalf("AAP-A12 register: HTTP %d %v", status, answer)
		}
		id, _ := answer["agent_id"].(string)
		return id, approval
	}
	id, approval := register()
	code, _ := approval["user_code"].(string)
	if !regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$`).MatchString(code) {
		t.Errorf("AAP-A2 the code is %q; want letters that are not taken for others", code)
	}
	for name, want := range map[string]any{
		"method": "device_authorization", "verification_uri": b.url + "/approve", "verification_uri_complete": b.url + "/approve?code=" + code, "interval": 5.0,
	} {
		if approval[name] != want {
			t.Errorf("AAP-A1 %s is %v; want %v", name, approval[name], want)
		}
	}
	agent := &protocolAgent{host: host, key: key, id: id}
	again, fresh := register()
	if again != id || fresh["user_code"] == code {
		t.Errorf("AAP-A12 asked again: agent %s with code %v; want %s with another than %s", again, fresh["user_code"], id, code)
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Errorf("AAP-A12 the agent is %s; want pending", state)
	}
	files, err := filepath.Glob(filepath.Join(b.dir, "data", "powerbox.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no store in %s: %v", b.dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []string{code, strings.ReplaceAll(code, "-", "")} {
			if bytes.Contains(data, []byte(one)) {
				t.Errorf("AAP-A2 the code stands in %s", filepath.Base(file))
			}
		}
	}
}

// TestAAPA12_AnsweredTooLate opens a request until its time is over: it cannot be
// answered then, and the next one can.
func TestAAPA12_AnsweredTooLate(t *testing.T) {
	asGiven(t)
	b := serveBank(t, "localhost:"+freePort(t), "      approval_time: 1s", builtIn, "--dev")
	host := b.host()
	key := newEd25519(t)
	agent := &protocolAgent{host: host, key: key}
	register := func() {
		t.Helper()
		_, answer := b.call(http.MethodPost, "/agent/register", host.token(key), map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
		agent.id, _ = answer["agent_id"].(string)
		agent.asked(answer)
	}
	alice := b.visitor("alice")
	// open returns a request that was found before its time was over.
	open := func() (string, url.Values) {
		t.Helper()
		for {
			register()
			status, where := alice.post("/approve", url.Values{"code": {agent.code}})
			if status != http.StatusSeeOther {
				continue
			}
			if _, text := alice.get(where); strings.Contains(text, `name="seen"`) {
				form := url.Values{"answer": {"approve"}, "seen": {seenField.FindStringSubmatch(text)[1]}, "grant": {grantField.FindStringSubmatch(text)[1]}}
				return where, form
			}
		}
	}
	where, form := open()
	for {
		if _, text := alice.get(where); strings.Contains(text, "its time ran out") {
			break
		}
	}
	if status, _ := alice.post(where, form); status != http.StatusConflict {
		t.Errorf("AAP-A12 an answer that is too late: HTTP %d; want 409", status)
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Errorf("AAP-A12 the agent is %s; want pending", state)
	}
	for {
		where, form = open()
		if status, _ := alice.post(where, form); status == http.StatusSeeOther {
			break
		}
	}
	if state, _, _ := agent.status(); state != "active" {
		t.Errorf("AAP-A12 the agent is %s; want active", state)
	}
}

// TestAAPP4_EscalationAsks asks for more on a linked host, for a default at that,
// and as an autonomous agent of a host without a user: always a person answers,
// and in the last case an administrator.
func TestAAPP4_EscalationAsks(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"list_accounts"}})
	alice, root := b.visitor("alice"), b.visitor("root")
	at := alice.open(agent.code)
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, text)
	}
	status, answer := agent.ask("for the overview", "check_balance")
	if _, grants, _ := agent.status(); status >= 300 || answer["status"] != "pending" || grants["check_balance"] != "pending" {
		t.Errorf("AAP-P4 a default that is asked for: HTTP %d %v; want it pending", status, answer)
	}
	own := b.host().register(map[string]any{"name": "Night job", "mode": "autonomous", "capabilities": []any{"list_accounts"}})
	if own.code == "" {
		t.Fatal("AAP-P4 an autonomous agent began without anybody")
	}
	if status, _ := alice.post("/approve", url.Values{"code": {own.code}}); status != http.StatusNotFound {
		t.Errorf("AAP-P4 a user answers for an autonomous agent: HTTP %d; want 404", status)
	}
	at = root.open(own.code)
	if _, text := root.get(at); !strings.Contains(text, "nobody: it acts on its own") {
		t.Errorf("AAP-P4 the page does not say whom it acts for:\n%s", text)
	}
	if status, text := root.post(at, root.approval(at)); status != http.StatusSeeOther {
		t.Errorf("AAP-P4 an administrator: HTTP %d %s", status, text)
	}
	if state, _, _ := own.status(); state != "active" {
		t.Errorf("AAP-P4 the agent is %s; want active", state)
	}
}

// TestAAPK6_UnlinkInTheConsole takes the user from a host: its delegated agents
// end, and the host can be approved anew.
func TestAAPK6_UnlinkInTheConsole(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	host := b.host()
	agent := host.register(map[string]any{"name": "Helper", "capabilities": []any{"list_accounts"}})
	alice, bob := b.visitor("alice"), b.visitor("bob")
	at := alice.open(agent.code)
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, text)
	}
	_, text := alice.get("/hosts")
	_, text = alice.get(regexp.MustCompile(`/hosts/hst_[0-9a-z]+/revoke`).FindString(text))
	path := regexp.MustCompile(`/hosts/hst_[0-9a-z]+/unlink`).FindString(text)
	if path == "" {
		t.Fatalf("AAP-K6 no way to unlink:\n%s", text)
	}
	if status, _ := bob.post(path, nil); status != http.StatusNotFound {
		t.Errorf("AAP-K6 somebody else unlinks the host: HTTP %d; want 404", status)
	}
	if status, text := alice.post(path, nil); status != http.StatusSeeOther {
		t.Fatalf("AAP-K6 unlink: HTTP %d %s", status, text)
	}
	if state, _, _ := agent.status(); state != "revoked" {
		t.Errorf("AAP-K6 the agent is %s; want revoked", state)
	}
	next := host.register(map[string]any{"name": "Next", "capabilities": []any{"list_accounts"}})
	at = bob.open(next.code)
	if status, text := bob.post(at, bob.approval(at)); status != http.StatusSeeOther {
		t.Errorf("AAP-K6 the host's next user: HTTP %d %s", status, text)
	}
	var hosts struct {
		Hosts []struct {
			User string `json:"user_id"`
		} `json:"hosts"`
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/v1/hosts", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Powerbox-Dev-User", "bob")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&hosts); err != nil || len(hosts.Hosts) != 1 || hosts.Hosts[0].User != "user:bob" {
		t.Errorf("AAP-M6 the host is of %+v; want user:bob alone (%v)", hosts, err)
	}
}

// TestAAPA2_NewsInterruptNobody has a request come while someone types the code of
// another: the page shows it, and keeps its place and the typed text.
func TestAAPA2_NewsInterruptNobody(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent, alice := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"list_accounts"}}), b.visitor("alice")
	at := alice.open(agent.code)
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, text)
	}
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve")
	w.js(`document.documentElement.dataset.old = "1"; 0`)
	w.do(chromedp.SendKeys(chromedp.CSS("#code"), "ABC"))
	w.js(`document.activeElement.blur() || 1; 0`)
	if status, answer := agent.ask("for the overview", "check_balance"); status >= 300 {
		t.Fatalf("HTTP %d %v", status, answer)
	}
	w.do(chromedp.WaitReady(chromedp.CSS("#waiting article a")))
	w.says("AAP-A2", "\u201cHelper\u201d", "See the balance of one account")
	if got := w.js(`[document.querySelector("#code").value, document.documentElement.dataset.old]`); got != `["ABC","1"]` {
		t.Errorf("AAP-A2 when news came the page was loaded again: %s", got)
	}
}
