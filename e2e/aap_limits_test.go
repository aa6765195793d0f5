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

// AAP-F3: all agents of one host have one limit, also where it has no user.
func TestAAPF3_ExecutionsOfHosts(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      host_executions: 2"})
	host := newOKP(t)
	var last *member
	for n := range 3 {
		m, r := b.register(host, map[string]any{"mode": "autonomous", "capabilities": []string{"list_accounts"}})
		if r.text("status") != "active" {
			t.Fatalf("agent %d: %s", n, r.Raw)
		}
		if last = m; n < 2 {
			b.want("AAP-F3", m.execute("list_accounts", nil), http.StatusOK, "")
		}
	}
	if r := b.want("AAP-F3 a host", last.execute("list_accounts", nil), http.StatusTooManyRequests, "rate_limited"); r.Header.Get("Retry-After") == "" {
		t.Error("AAP-F3: no Retry-After")
	}
	b.want("AAP-F3 another host", b.active("alice", "list_accounts").execute("list_accounts", nil), http.StatusOK, "")
}

// AAP-I3: while anybody may introspect, an address can do so a few times and is told
// to wait; a service that the operator knows has no such limit.
func TestAAPI3_OpenIntrospection(t *testing.T) {
	for name, c := range map[string]struct {
		conf    string
		limited bool
	}{
		"open":        {"      introspections: 1", true},
		"for a token": {"      introspections: 1\n      introspection_token: service-secret-token", false},
	} {
		b := newBank(t, bankOptions{conf: c.conf})
		m := b.active("alice", "check_balance")
		limited := false
		for range 40 {
			r := b.ask(http.MethodPost, "/agent/introspect", "service-secret-token", args("token", m.token(b.url)))
			if r.Status == http.StatusTooManyRequests {
				limited = r.text("error") == "rate_limited" && r.Header.Get("Retry-After") != ""
				break
			}
			if r.Body["active"] != true {
				t.Fatalf("AAP-I3 %s: %s", name, r.Raw)
			}
		}
		if limited != c.limited {
			t.Errorf("AAP-I3 %s: 40 at once; limited is %t", name, limited)
		}
		if c.limited {
			b.want("AAP-I3 other requests", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
		}
	}
}

// AAP-S3: callers that poll a waiting request without end are told when to poll
// again. A request that does not wait can be read.
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
