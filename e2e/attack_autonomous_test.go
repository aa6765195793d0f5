package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestATK150_AgentsOfAHostStopWithItsUser registers agents that act on their own at the host of a
// person. They have the defaults of that host at once, so they stop with the person.
func TestATK150_AgentsOfAHostStopWithItsUser(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	auto := func() *member {
		t.Helper()
		one, r := b.register(m.host, fact{"mode": "autonomous", "capabilities": []any{"check_balance"}})
		if b.want("an autonomous agent", r, http.StatusOK, ""); r.text("status") != "active" {
			t.Fatalf("ATK-150 an autonomous agent of a linked host: %s; want active", r.Raw)
		}
		return one
	}
	executes := func(when string, one *member, status int) {
		t.Helper()
		if r := one.execute("check_balance", fact{"account_id": "1"}); r.Status != status {
			t.Errorf("ATK-150 %s: HTTP %d %s; want %d", when, r.Status, r.Raw, status)
		}
	}
	other, r := b.register(newOKP(t), fact{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("an agent of a host without a user", r, http.StatusOK, "")
	if other.state().text("status") != "active" {
		b.want("approve", b.approve("root", other.code, fact{}), http.StatusOK, "")
	}
	first := auto()
	executes("the user is active", first, http.StatusOK)
	b.must("person", "freeze", "user:alice", "--reason", "the laptop was stolen")
	executes("the user is frozen", first, http.StatusForbidden)
	executes("an agent that was registered while the user is frozen", auto(), http.StatusForbidden)
	if r := other.execute("list_accounts", fact{}); r.Status != http.StatusOK {
		t.Errorf("ATK-150 an agent of a host without a user: HTTP %d %s; want 200", r.Status, r.Raw)
	}
	b.must("person", "thaw", "user:alice", "--reason", "it was found")
	executes("the user is thawed", first, http.StatusOK)
	b.must("revoke", "--for", "user:alice")
	executes("everything for the user is revoked", first, http.StatusForbidden)
}

// TestAAPQ3_GrantsThatWereRevokedOnRecord revokes the capabilities of grants past the
// provider. The agent and its user are told so, and the agent asks again.
func TestAAPQ3_GrantsThatWereRevokedOnRecord(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	account := fact{"account_id": "1"}
	second := time.Now().Unix()
	b.must("revoke", "--for", "user:alice")
	if g := grantsOf(m.state()); g["check_balance"] != "revoked" {
		t.Errorf("AAP-Q3 the agent is told %v; want revoked", g)
	}
	if hosts := b.as("alice", http.MethodGet, "/v1/hosts", nil); strings.Count(hosts.Raw, `"status":"revoked"`) != 1 {
		t.Errorf("AAP-Q3 the user is told %s; want one grant that is revoked", hosts.Raw)
	}
	b.want("AAP-Q3 revoked", m.execute("check_balance", account), http.StatusForbidden, "capability_not_granted")
	eventually(t, 5*time.Second, func() string { return "the second of the revocation is not over" }, func() bool { return time.Now().Unix() > second+1 }) // a revocation is for all of it
	r := m.request("check_balance")
	b.want("AAP-Q3 asked for again", r, http.StatusOK, "")
	b.want("AAP-Q3 approved", b.approve("alice", codeOf(r), fact{}), http.StatusOK, "")
	b.want("AAP-Q3 in force", m.execute("check_balance", account), http.StatusOK, "")
}
