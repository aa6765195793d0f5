package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestAAPH8_HostsThatWait: a host that no person has approved can register, and ask how
// its agent stands, and nothing else; one that was rejected can nothing any more.
func TestAAPH8_HostsThatWait(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), fact{"capabilities": []any{"check_balance"}})
	b.want("register", r, http.StatusOK, "")
	if s := b.want("AAP-H8 its status", m.state(), http.StatusOK, ""); s.text("status") != "pending" {
		t.Errorf("AAP-H8: %s", s.Raw)
	}
	about := fact{"agent_id": m.id}
	for path, body := range map[string]fact{
		"/agent/revoke": about, "/agent/reactivate": about, "/host/revoke": nil, "/host/rotate-key": {"public_key": newOKP(t).jwk},
		"/agent/rotate-key": {"agent_id": m.id, "public_key": newOKP(t).jwk},
	} {
		b.want("AAP-H8 "+path, b.ask(http.MethodPost, path, b.host(m.host), body), http.StatusForbidden, "host_pending")
	}
	listed := b.want("AAP-H13", b.ask(http.MethodGet, "/capability/list", b.host(m.host), nil), http.StatusOK, "")
	if all, _ := listed.Body["capabilities"].([]any); len(all) != 2 {
		t.Errorf("AAP-H13 a host that waits is shown %s; want what is public", listed.Raw)
	}
	b.want("deny", b.approve("alice", m.code, fact{"deny": true}), http.StatusOK, "")
	m.becomes("rejected")
	b.want("AAP-H8 a rejected host", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), about), http.StatusForbidden, "host_rejected")
	again, r := b.register(m.host, fact{"capabilities": []any{"check_balance"}})
	b.want("AAP-H8 a rejected host asks again", r, http.StatusOK, "")
	m.becomes("rejected")
	b.want("AAP-H8 it is approved", b.approve("alice", again.code, fact{}), http.StatusOK, "")
	b.want("AAP-H8 it is approved", again.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
}

// TestATK77_ARejectedHostAsksWithinLimits: a host that a person refused can ask no more
// often than an unknown one.
func TestATK77_ARejectedHostAsksWithinLimits(t *testing.T) {
	b := newBank(t, bankOptions{})
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "unknown_hosts: 0", "unknown_hosts: 3", 1))
	})
	m, _ := b.register(newOKP(t), fact{"capabilities": []any{"check_balance"}})
	for range 2 {
		b.want("deny", b.approve("alice", m.code, fact{"deny": true}), http.StatusOK, "")
		var r reply
		m, r = b.register(m.host, fact{"capabilities": []any{"check_balance"}})
		b.want("ATK-77 within the limit", r, http.StatusOK, "")
	}
	b.want("deny", b.approve("alice", m.code, fact{"deny": true}), http.StatusOK, "")
	_, r := b.register(m.host, fact{"capabilities": []any{"check_balance"}})
	b.want("ATK-77 beyond it", r, http.StatusTooManyRequests, "rate_limited")
}

// TestAAPM5_ModesStay registers an agent again as one of another mode, while it waits
// and when it is active: it stays what it was.
func TestAAPM5_ModesStay(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), fact{"capabilities": []any{"check_balance"}})
	b.want("register", r, http.StatusOK, "")
	other := func(capabilities ...any) reply {
		return b.ask(http.MethodPost, "/agent/register", b.host(m.host, fact{"agent_public_key": m.key.jwk}), fact{"name": "Other", "mode": "autonomous", "capabilities": capabilities})
	}
	for _, more := range []any{"list_accounts", within("check_balance", args("account_id", "a"))} { // AAP-R11: it is not dropped in silence
		b.want(fmt.Sprint("AAP-R11 ", more, " besides"), other("check_balance", more), http.StatusConflict, "agent_exists")
	}
	b.want("AAP-R6 nothing of its own", other(), http.StatusOK, "")
	again := b.want("AAP-M5 while it waits", other("check_balance"), http.StatusOK, "")
	if again.text("agent_id") != m.id || again.text("mode") != "delegated" {
		t.Errorf("AAP-M5: %s", again.Raw)
	}
	b.want("approve", b.approve("alice", codeOf(again), fact{}), http.StatusOK, "")
	b.want("AAP-M5 once it is active", other("check_balance"), http.StatusConflict, "agent_exists")
	if s := m.state(); s.text("mode") != "delegated" || s.text("status") != "active" {
		t.Errorf("AAP-M5: %s", s.Raw)
	}
}
