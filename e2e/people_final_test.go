package e2e

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// refusedVerb runs a verb of the program that must be refused, and returns what it says.
func (w *town) refusedVerb(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "powerbox.yaml"))...).CombinedOutput()
	if err == nil {
		w.t.Errorf("ATK-94 powerbox %s is done: %s", strings.Join(args, " "), out)
	}
	return string(out)
}

// TestATK94_NothingBringsBackWhatARemovedPersonHad removes a person for whom an agent calls
// under a capability. No verb brings either back, also after a restart.
func TestATK94_NothingBringsBackWhatARemovedPersonHad(t *testing.T) {
	onStores(t, tryATK94NothingBringsBackWhatARemovedPersonHad)
}

func tryATK94NothingBringsBackWhatARemovedPersonHad(t *testing.T) {
	w := start(t, options{policies: `
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
@approval("human") permit(principal == User::"user:alice", action in Action::"documents/documents:write", resource in Collection::"documents/reports");
`})
	alice := w.caller(aliceToken)
	c := alice.reports()
	body := data("search_documents", map[string]any{})
	calls := func() answer {
		return alice.present("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
	}
	allowed(t, calls())
	w.run("person", "freeze", "user:alice", "--reason", "laptop stolen")
	if out := w.refusedVerb("thaw", "user:alice", "--reason", "r"); !strings.Contains(out, "person thaw") {
		t.Errorf("ATK-94 powerbox thaw of a frozen person says %q; want the right verb", out)
	}
	if a := calls(); a.reason() != "frozen" {
		t.Errorf("a call for a frozen person: %s", a.Raw)
	}
	w.run("person", "thaw", "user:alice", "--reason", "new laptop")
	if a := calls(); a.Error != nil {
		t.Errorf("a call after the thaw: %s", a.Raw)
	}
	w.run("person", "remove", "user:alice", "--reason", "left the company")
	for range 2 {
		for _, verb := range [][]string{{"person", "thaw"}, {"person", "freeze"}, {"thaw"}} {
			if out := w.refusedVerb(append(verb, "user:alice", "--reason", "r")...); !strings.Contains(out, "final") {
				t.Errorf("ATK-94 powerbox %v of a removed person says %q; want that it is final", verb, out)
			}
		}
		if a := calls(); a.reason() != "frozen" {
			t.Errorf("ATK-94 a call for a removed person: %s", a.Raw)
		}
		w.again(func() {})
	}
	w.run("person", "remove", "user:alice", "--reason", "again")
	if out := w.run("person", "list"); !strings.Contains(out, "removed") || !strings.Contains(out, "left the company") {
		t.Errorf("powerbox person list says %q", out)
	}
}

// TestATK94_RevokedAgentsStayRevokedAfterAThaw revokes an agent and a grant while their
// person, or the agent itself, is frozen.
func TestATK94_RevokedAgentsStayRevokedAfterAThaw(t *testing.T) {
	b := newBank(t, bankOptions{})
	gone, kept := b.active("alice", "check_balance"), b.active("alice", "check_balance", "list_accounts")
	balance := args("account_id", "a")
	b.run("person", "freeze", "user:alice", "--reason", "laptop stolen")
	for _, m := range []*member{gone, kept} {
		if r := m.execute("check_balance", balance); r.Status != http.StatusForbidden {
			t.Errorf("an agent of a frozen person: %d %s", r.Status, r.Raw)
		}
	}
	b.want("revoke", b.as("root", http.MethodPost, "/v1/host-agents/"+gone.id+"/revoke", nil), http.StatusOK, "")
	b.want("revoke", b.as("root", http.MethodPost, "/v1/host-agents/"+kept.id+"/grants/revoke", fact{"capability": "list_accounts"}), http.StatusOK, "")
	b.run("person", "thaw", "user:alice", "--reason", "new laptop")
	b.want("ATK-94 a revoked agent after the thaw", gone.execute("check_balance", balance), http.StatusForbidden, "agent_revoked")
	b.want("ATK-94 a revoked grant after the thaw", kept.execute("list_accounts", args()), http.StatusForbidden, "capability_not_granted")
	b.want("what was not revoked", kept.execute("check_balance", balance), http.StatusOK, "")

	b.run("freeze", "agent-auth:"+kept.id, "--reason", "odd calls")
	b.want("revoke", b.as("root", http.MethodPost, "/v1/host-agents/"+kept.id+"/revoke", nil), http.StatusOK, "")
	b.run("thaw", "agent-auth:"+kept.id, "--reason", "looked into")
	b.want("ATK-94 an agent that was revoked while it was frozen", kept.execute("check_balance", balance), http.StatusForbidden, "agent_revoked")
	if r := b.ask(http.MethodPost, "/agent/reactivate", b.host(kept.host), fact{"agent_id": kept.id}); r.Status != http.StatusForbidden {
		t.Errorf("ATK-94 reactivation: %d %s", r.Status, r.Raw)
	}
}

// TestATK94_ARemovedPersonGetsNoHost removes a person for whom a host was invited, and has
// an administrator try every way that gives the person a host, or lets the person back in.
func TestATK94_ARemovedPersonGetsNoHost(t *testing.T) {
	b := newBank(t, bankOptions{})
	hers := b.active("alice", "check_balance")
	autonomous, r := b.register(newOKP(t), fact{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("an autonomous agent", r, http.StatusOK, "")
	invited := b.want("invite", b.as("root", http.MethodPost, "/v1/hosts", fact{"name": "desk", "user": "user:alice"}), http.StatusOK, "")
	b.run("person", "remove", "user:alice", "--reason", "left the company")
	b.want("an agent of a removed person", hers.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "host_revoked")

	root := (&pagesBank{t: t, url: b.url}).visitor("root")
	again := url.Values{"person": {"user:alice"}, "reason": {"r"}}
	if status, page := root.post("/people/freeze", again); status != http.StatusBadRequest || !strings.Contains(page, "final") {
		t.Errorf("ATK-94 freeze on the page: HTTP %d\n%s", status, page)
	}
	if status, page := root.post("/people/thaw", again); status != http.StatusForbidden || !strings.Contains(page, "takes a passkey") {
		t.Errorf("ATK-94 thaw on the page at a numeric address: HTTP %d\n%s", status, page)
	}
	if _, page := root.get("/people"); !strings.Contains(page, "removed") || strings.Contains(page, `person thaw user:alice`) {
		t.Errorf("ATK-94 the page of people offers to let a removed person back in\n%s", page)
	}
	key := newOKP(t)
	b.want("ATK-94 enroll", b.ask(http.MethodPost, "/host/enroll", "", fact{"token": invited.text("enrollment_token"), "public_key": key.jwk}), http.StatusUnauthorized, "enrollment_token_invalid")
	for name, body := range map[string]fact{"invite": {"name": "desk", "user": "user:alice"}, "register ahead": {"name": "desk", "user": "user:alice", "public_key": key.jwk}} {
		b.want("ATK-94 "+name, b.as("root", http.MethodPost, "/v1/hosts", body), http.StatusBadRequest, "invalid_request")
	}
	s := autonomous.state()
	b.want("ATK-94 link", b.as("root", http.MethodPost, "/v1/hosts/"+s.text("host_id")+"/link", fact{"user": "user:alice"}), http.StatusBadRequest, "invalid_request")
	if out := b.run("person", "show", "user:alice"); !strings.Contains(out, `"hosts":0`) {
		t.Errorf("ATK-94 a removed person has hosts: %s", out)
	}
	if r := b.as("alice", http.MethodGet, "/v1/approvals", nil); r.Status != http.StatusForbidden {
		t.Errorf("ATK-94 questions of a removed person: %d %s", r.Status, r.Raw)
	}
}
