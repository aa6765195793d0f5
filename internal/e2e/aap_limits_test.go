package e2e

import (
	"net/http"
	"testing"
)

// AAP-F3: an agent, all agents of a user, and a capability have limits of their
// own, over the addresses that requests come from.
func TestAAPF3_ExecutionsOfAgents(t *testing.T) {
	b := newBank(t, bankOptions{
		conf:         "      executions: 4\n      user_executions: 5",
		capabilities: "        - {name: rare, description: Seldom, sensitivity: read, executions: 2}",
	})
	one, two, other := b.active("alice", "rare", "check_balance"), b.active("alice", "check_balance"), b.active("bob", "check_balance")
	account := map[string]any{"account_id": "a"}
	for range 2 {
		b.want("AAP-F3", one.execute("rare", nil), http.StatusOK, "")
	}
	r := b.want("AAP-F3 a capability", one.execute("rare", nil), http.StatusTooManyRequests, "rate_limited")
	if r.Header.Get("Retry-After") == "" {
		t.Error("AAP-F3: no Retry-After")
	}
	for range 2 {
		b.want("AAP-F3", one.execute("check_balance", account), http.StatusOK, "")
	}
	b.want("AAP-F3 an agent", one.execute("check_balance", account), http.StatusTooManyRequests, "rate_limited")
	b.want("AAP-F3", two.execute("check_balance", account), http.StatusOK, "")
	b.want("AAP-F3 a user", two.execute("check_balance", account), http.StatusTooManyRequests, "rate_limited")
	b.want("AAP-F3 another user", other.execute("check_balance", account), http.StatusOK, "")
	if n := b.did("rare") + b.did("check_balance"); n != 6 {
		t.Errorf("AAP-F3: the service was asked %d times; want 6", n)
	}
}

// AAP-S3: whoever asks about what waits for a person, without end, is told when to
// ask again; what does not wait can be looked at.
func TestAAPS3_Polls(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, _ := b.register(newOKP(t), map[string]any{"capabilities": []string{"check_balance"}})
	limited := false
	for range 20 {
		if r := m.state(); r.Status == http.StatusTooManyRequests {
			limited = r.text("error") == "rate_limited" && r.Header.Get("Retry-After") != ""
			break
		}
	}
	if !limited {
		t.Error("AAP-S3: 20 polls at once are answered")
	}
	b.want("approve", b.approve("alice", m.code, map[string]any{}), http.StatusOK, "")
	for range 10 {
		b.want("AAP-S3: what does not wait", m.state(), http.StatusOK, "")
	}
}
