package e2e

import (
	"net/http"
	"testing"
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
