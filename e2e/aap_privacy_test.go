package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stored reports whether a text stands in the store, of which the program has written
// all that it will.
func (b *bank) stored(text string) bool {
	b.t.Helper()
	for _, name := range []string{"powerbox.db", "powerbox.db-wal", "powerbox.db-spool"} {
		data, err := os.ReadFile(filepath.Join(b.dir, "powerbox-data", name))
		if err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
		if strings.Contains(string(data), text) {
			return true
		}
	}
	return false
}

// TestAAPZ3_ViewAndForget: only a person sees the actions in their name. The person can
// have an ended agent forgotten, with its words.
func TestAAPZ3_ViewAndForget(t *testing.T) {
	aboutTheFile(t)
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), map[string]any{"name": "Divorce helper", "reason": "Wants to leave in May", "capabilities": []any{"check_balance"}})
	b.want("register", r, http.StatusOK, "")
	b.want("approve", b.approve("alice", m.code, args()), http.StatusOK, "")
	b.want("execute", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	asked := b.ask(http.MethodPost, "/agent/request-capability", m.token(b.url), args("capabilities", []any{"list_accounts"}, "reason", "Look for hidden money"))
	b.want("deny", b.approve("alice", codeOf(asked), args("deny", true)), http.StatusOK, "")

	h := newAgentHost(t)
	_, s := h.must(0, "agent", "activity", "--server", b.url, "--as", "alice")
	if !strings.Contains(s.out, `"Divorce helper"`) || !strings.Contains(s.out, "check_balance") {
		t.Errorf("AAP-Z3 view: %s", s.out)
	}
	if other := b.as("bob", http.MethodGet, "/v1/activity", nil); strings.Contains(other.Raw, m.id) || strings.Contains(other.Raw, "Divorce") {
		t.Errorf("AAP-Z3 another's: %s", other.Raw)
	}
	b.want("AAP-Z3 an agent's", b.ask(http.MethodGet, "/v1/activity", m.token(b.url), nil), http.StatusUnauthorized, "authentication_required")
	b.want("AAP-Z3 while it acts", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/forget", nil), http.StatusBadRequest, "invalid_request")
	b.want("revoke", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/revoke", nil), http.StatusOK, "")
	b.want("AAP-Z3 another's", b.as("bob", http.MethodPost, "/v1/host-agents/"+m.id+"/forget", nil), http.StatusNotFound, "agent_not_found")
	v := (&pagesBank{t: t, url: b.url}).visitor("alice")
	if _, page := v.get("/activity"); !strings.Contains(page, "90 days after its end") || !strings.Contains(page, "Divorce helper") {
		t.Error("AAP-Z3: the page does not say how long it is kept")
	}
	if _, page := v.get("/hosts"); !strings.Contains(page, "/host-agents/"+m.id+"/forget") {
		t.Error("AAP-Z3: the page does not let an agent be forgotten")
	}
	h.must(0, "agent", "forget", m.id, "--server", b.url, "--as", "alice")
	if again := b.as("alice", http.MethodGet, "/v1/activity", nil); strings.Contains(again.Raw, "Divorce") || strings.Contains(again.Raw, "check_balance") {
		t.Errorf("AAP-Z3 after it: %s", again.Raw)
	}
	b.want("AAP-Z3 it is gone", m.execute("check_balance", args("account_id", "a")), http.StatusUnauthorized, "invalid_jwt")
	if status, _ := v.get("/hosts"); status != http.StatusOK {
		t.Errorf("HTTP %d", status)
	}
	if d := b.ask(http.MethodGet, "/.well-known/agent-configuration", "", nil); d.Body["activity_retention_seconds"] != 7776000.0 {
		t.Errorf("AAP-Z3 it is not published: %v", d.Body["activity_retention_seconds"])
	}
	// Nor do records have them, which stay.
	b.again(func() { b.sql("VACUUM") })
	if !b.stored("capability.execute") {
		t.Error("AAP-Z3: the records are gone, or are looked for in the wrong place")
	}
	if b.stored("Divorce helper") || b.stored("hidden money") || b.stored("leave in May") {
		t.Error("AAP-Z3: words of a forgotten agent are in the store")
	}
}

// TestAAPK8_OneGrantByCommands: a person sees what an agent holds, gives one grant and
// takes one back in a shell; the agent and its other grants stay.
func TestAAPK8_OneGrantByCommands(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, h := b.active("alice", "check_balance"), newAgentHost(t)
	as := func(code int, user string, args ...string) spoken {
		_, s := h.must(code, append(append([]string{"grant"}, args...), "--server", b.url, "--as", user)...)
		return s
	}
	if s := as(0, "alice", "list"); !strings.Contains(s.out, m.id) || !strings.Contains(s.out, "check_balance") {
		t.Errorf("AAP-K8 what it holds: %s", s.out)
	}
	if s := as(0, "bob", "list"); strings.Contains(s.out, m.id) {
		t.Errorf("AAP-K8 another's: %s", s.out)
	}
	as(0, "alice", "add", m.id, "transfer_money", "--constraints", `{"amount": {"max": 5}}`)
	b.want("AAP-K8 given", m.execute("transfer_money", args("amount", 5)), http.StatusOK, "")
	b.want("AAP-K8 within what was given", m.execute("transfer_money", args("amount", 6)), http.StatusForbidden, "constraint_violated")
	as(2, "alice", "add", m.id, "list_accounts", "--constraints", "{")
	as(1, "bob", "revoke", m.id, "check_balance")
	as(1, "alice", "revoke", m.id, "no_such_thing")
	as(0, "alice", "revoke", m.id, "transfer_money")
	b.want("AAP-K8 taken back", m.execute("transfer_money", args("amount", 5)), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-K8 the others stay", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
}
