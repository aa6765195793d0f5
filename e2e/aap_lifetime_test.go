package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// ends is how long an agent has, as its status says, rounded to minutes.
func (m *member) ends() time.Duration {
	m.b.t.Helper()
	r := m.state()
	at, err := time.Parse(time.RFC3339, r.text("expires_at"))
	if err != nil {
		m.b.t.Fatalf("%v in %s", err, r.Raw)
	}
	return time.Until(at).Round(time.Minute)
}

// TestAAPL6_Durations: clocks by mode, by host, by what an agent was given, and of a
// grant.
func TestAAPL6_Durations(t *testing.T) {
	rules := `      modes: [delegated, autonomous]
      autonomous_hosts: any
      lifetimes:
        - {modes: [autonomous], session_ttl: 10m}
        - {capabilities: [transfer_money], session_ttl: 20m, max_lifetime: 5m}
        - {capabilities: [close_account], session_ttl: 15m}
        - {hosts: [hst_nobody], session_ttl: 1m}`
	b := newBank(t, bankOptions{conf: rules, capabilities: "        - {name: brief, description: For a moment, sensitivity: read, grant_lifetime: 5s}\n"})
	m := b.active("alice", "check_balance")
	if got := m.ends(); got != 30*time.Minute {
		t.Errorf("the provider's: %s", got)
	}
	auto, r := b.register(newOKP(t), map[string]any{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	b.want("autonomous", r, http.StatusOK, "")
	if got := auto.ends(); got != 10*time.Minute {
		t.Errorf("of a mode: %s", got)
	}
	// What it is given shortens the life of an agent, and what it loses does not lengthen it.
	b.want("more", b.approve("alice", codeOf(m.request("close_account")), args()), http.StatusOK, "")
	if got := m.ends(); got != 15*time.Minute {
		t.Errorf("of a capability: %s", got)
	}
	b.want("more", b.approve("alice", codeOf(m.request("transfer_money")), args()), http.StatusOK, "")
	if got := m.ends(); got != 5*time.Minute {
		t.Errorf("of two: %s", got)
	}
	b.want("less", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", args("capability", "transfer_money")), http.StatusOK, "")
	if got := m.ends(); got != 5*time.Minute {
		t.Errorf("after it: %s", got)
	}
	// Partly approved: denied capabilities shorten nothing.
	part, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance", "close_account"}})
	b.want("two", r, http.StatusOK, "")
	b.want("one", b.approve("alice", part.code, args("only", []string{"check_balance"})), http.StatusOK, "")
	if got := part.ends(); got != 30*time.Minute {
		t.Errorf("what was denied: %s", got)
	}
	// A grant with its own end.
	b.want("more", b.approve("alice", codeOf(m.request("brief")), args()), http.StatusOK, "")
	if s := m.state(); !strings.Contains(s.Raw, `"capability":"brief","status":"active"`) || !strings.Contains(s.Raw, `"granted_by":"user:alice","expires_at"`) {
		t.Errorf("AAP-M3: %s", s.Raw)
	}
	eventually(t, patience, func() string { return "the grant does not end" }, func() bool {
		return m.execute("brief", nil).Status == http.StatusForbidden
	})
	b.want("its agent goes on", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
}
