package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// AAP-L1 to L5, M1, V1 to V5, P5, S2: clocks, and what comes back after them.
func TestAAPL1_Clocks(t *testing.T) {
	b := newBank(t, bankOptions{clocks: "      session_ttl: 5s\n      max_lifetime: 1h\n      absolute_lifetime: 1h"})
	m := b.active("alice", "check_balance")
	b.want("escalate", b.approve("alice", codeOf(m.request("list_accounts")), map[string]any{}), http.StatusOK, "")
	b.want("the escalated", m.execute("list_accounts", nil), http.StatusOK, "")
	active := b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", m.id))
	if active.text("status") != "active" { // AAP-V1
		t.Errorf("AAP-V1 an active agent: %s", active.Raw)
	}
	m.becomes("expired") // AAP-L1, AAP-L5: asking about it keeps nothing alive
	b.want("AAP-L4", m.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "agent_expired")
	b.want("AAP-J5 other calls, too", b.ask(http.MethodGet, "/capability/list", m.token(b.url), nil), http.StatusForbidden, "agent_expired")
	r := b.want("AAP-V3", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", m.id)), http.StatusOK, "")
	if g := grantsOf(r); r.text("status") != "active" || g["check_balance"] != "active" || g["list_accounts"] != "" || r.text("activated_at") == "" || r.text("expires_at") == "" { // AAP-V5
		t.Errorf("AAP-V3, AAP-P5: %s", r.Raw)
	}
	b.want("AAP-P5 the default", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	b.want("AAP-P5 the escalated", m.execute("list_accounts", nil), http.StatusForbidden, "capability_not_granted")
	s := m.state() // AAP-S2
	for _, name := range []string{"agent_id", "host_id", "name", "status", "mode", "created_at", "activated_at", "last_used_at", "expires_at", "user_id"} {
		if s.text(name) == "" {
			t.Errorf("AAP-S2 %s is missing: %s", name, s.Raw)
		}
	}
	// An expired agent under a host without a user waits for a person again.
	b.want("unlink", b.as("alice", http.MethodPost, "/v1/hosts/"+s.text("host_id")+"/unlink", nil), http.StatusOK, "")
	b.want("AAP-K6 its delegated agents end", m.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "agent_revoked")
	lone, r := b.register(newOKP(t), map[string]any{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	if r.text("status") != "active" {
		t.Fatalf("AAP-U2: %s", r.Raw)
	}
	lone.becomes("expired")
	r = b.want("AAP-V3", b.ask(http.MethodPost, "/agent/reactivate", b.host(lone.host), args("agent_id", lone.id)), http.StatusOK, "")
	if r.text("status") != "pending" || codeOf(r) == "" || r.text("expires_at") != "" || r.text("activated_at") != "" || grantsOf(r)["check_balance"] != "pending" { // AAP-V5
		t.Errorf("AAP-V3, AAP-V5 without a user: %s", r.Raw)
	}
	b.want("AAP-J5", lone.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "agent_pending")
	b.want("AAP-V1 while it waits", b.ask(http.MethodPost, "/agent/reactivate", b.host(lone.host), args("agent_id", lone.id)), http.StatusForbidden, "agent_pending")
	b.want("AAP-P4 a user", b.approve("alice", codeOf(r), args()), http.StatusNotFound, "not_found")
	if s := lone.state(); s.text("status") != "pending" || s.text("activated_at") != "" || s.text("created_at") == "" {
		t.Errorf("AAP-S2 while it waits: %s", s.Raw)
	}
	b.want("AAP-P4", b.approve("root", codeOf(r), args()), http.StatusOK, "")
	if s := lone.state(); s.text("status") != "active" || s.text("activated_at") < r.text("created_at") {
		t.Errorf("AAP-S2 approved: %s", s.Raw)
	}
	b.want("AAP-V3 approved", lone.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	b.want("AAP-P5 what it had", lone.execute("list_accounts", nil), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-V1 revoked", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", m.id)), http.StatusForbidden, "agent_revoked")
	b.want("AAP-V1 none", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", "agt_none")), http.StatusNotFound, "agent_not_found")
}

// AAP-L2, L3, V2: the clock of the activation, and the one that nothing resets.
func TestAAPL2_LongestLives(t *testing.T) {
	b := newBank(t, bankOptions{clocks: "      session_ttl: 1h\n      max_lifetime: 4s\n      absolute_lifetime: 12s"})
	m := b.active("alice", "check_balance")
	b.want("at first", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	m.becomes("expired") // AAP-L2
	b.want("AAP-L2", m.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "agent_expired")
	if r := b.want("AAP-V4", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", m.id)), http.StatusOK, ""); r.text("status") != "active" {
		t.Errorf("AAP-V4: %s", r.Raw)
	}
	b.want("AAP-V4 the clocks begin anew", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	m.becomes("revoked") // AAP-L3, AAP-L5, AAP-V4
	b.want("AAP-L3", m.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "agent_revoked")
	b.want("AAP-V2", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", m.id)), http.StatusForbidden, "absolute_lifetime_exceeded")
	b.want("AAP-V2 for good", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), args("agent_id", m.id)), http.StatusForbidden, "agent_revoked")
}

// AAP-K1 to K4, K7, S1, M2, J11, ATK-23: ends and new keys.
func TestAAPK1_EndsAndKeys(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, other := b.active("alice", "check_balance"), b.active("bob", "check_balance")
	balance := func(m *member) reply { return m.execute("check_balance", args("account_id", "a")) }
	// AAP-S1, AAP-K1: another host's agent.
	b.want("AAP-S1", b.ask(http.MethodGet, "/agent/status?agent_id="+m.id, b.host(other.host), nil), http.StatusForbidden, "unauthorized")
	b.want("AAP-S1 none", b.ask(http.MethodGet, "/agent/status?agent_id=agt_none", b.host(other.host), nil), http.StatusNotFound, "agent_not_found")
	for _, path := range []string{"/agent/revoke", "/agent/reactivate", "/agent/rotate-key"} {
		body := args("agent_id", m.id, "public_key", newOKP(t).jwk)
		b.want("AAP-K1 "+path, b.ask(http.MethodPost, path, b.host(other.host), body), http.StatusForbidden, "unauthorized")
		body["agent_id"] = "agt_none"
		b.want("AAP-K1 none "+path, b.ask(http.MethodPost, path, b.host(other.host), body), http.StatusNotFound, "agent_not_found")
	}
	// AAP-K2
	old := m.key
	m.key = newOKP(t)
	r := b.want("AAP-K2", b.ask(http.MethodPost, "/agent/rotate-key", b.host(m.host), args("agent_id", m.id, "public_key", m.key.jwk)), http.StatusOK, "")
	if r.text("status") != "active" || len(r.Body) != 2 {
		t.Errorf("AAP-K2: %s", r.Raw)
	}
	b.want("AAP-K2 the new key", balance(m), http.StatusOK, "")
	stale := *m
	stale.key = old
	b.want("AAP-K2 the old key", balance(&stale), http.StatusUnauthorized, "invalid_jwt")
	for name, key := range map[string]any{"its own": m.key.jwk, "the host's": m.host.jwk} {
		b.want("AAP-K2 "+name, b.ask(http.MethodPost, "/agent/rotate-key", b.host(m.host), args("agent_id", m.id, "public_key", key)), http.StatusBadRequest, "invalid_request")
	}
	b.want("AAP-K2 no key", b.ask(http.MethodPost, "/agent/rotate-key", b.host(m.host), args("agent_id", m.id)), http.StatusBadRequest, "unsupported_algorithm")
	// AAP-K3
	fresh := newOKP(t)
	b.want("AAP-K3 signed by another", b.ask(http.MethodPost, "/host/rotate-key", b.host(fresh), args("public_key", fresh.jwk)), http.StatusNotFound, "host_not_found")
	b.want("AAP-K3 another's key", b.ask(http.MethodPost, "/host/rotate-key", b.host(m.host), args("public_key", other.host.jwk)), http.StatusBadRequest, "invalid_request")
	b.want("AAP-K3", b.ask(http.MethodPost, "/host/rotate-key", b.host(m.host), args("public_key", fresh.jwk)), http.StatusOK, "")
	b.want("AAP-K3 the old key", b.ask(http.MethodPost, "/host/revoke", b.host(m.host), nil), http.StatusNotFound, "host_not_found")
	b.want("AAP-J2 the old identifier", balance(m), http.StatusUnauthorized, "invalid_jwt")
	m.host = fresh
	b.want("AAP-K3 agents stay", balance(m), http.StatusOK, "")
	b.want("AAP-K3 the new key", m.state(), http.StatusOK, "")
	// AAP-K1, AAP-J11: at once, and for good.
	b.want("AAP-K1", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), args("agent_id", m.id)), http.StatusOK, "")
	b.want("AAP-J11", balance(m), http.StatusForbidden, "agent_revoked")
	b.want("AAP-K1 again", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), args("agent_id", m.id)), http.StatusOK, "")
	if g := grantsOf(m.state()); g["check_balance"] != "revoked" { // AAP-M3
		t.Errorf("AAP-M3: %v", g)
	}
	b.want("AAP-K1 its request", m.request("list_accounts"), http.StatusForbidden, "agent_revoked")
	// AAP-K4, AAP-M2
	_, second := b.register(other.host, map[string]any{"capabilities": []any{"check_balance"}})
	b.want("a second", second, http.StatusOK, "")
	r = b.want("AAP-K4", b.ask(http.MethodPost, "/host/revoke", b.host(other.host), nil), http.StatusOK, "")
	if r.Body["agents_revoked"] != float64(2) || r.text("status") != "revoked" {
		t.Errorf("AAP-K4: %s", r.Raw)
	}
	b.want("AAP-K4 agents", balance(other), http.StatusForbidden, "host_revoked")
	b.want("AAP-K4 later", b.ask(http.MethodPost, "/host/revoke", b.host(other.host), nil), http.StatusForbidden, "host_revoked")
	_, r = b.register(other.host, map[string]any{})
	b.want("AAP-M2", r, http.StatusForbidden, "host_revoked")
	// AAP-K7: a person, regardless of who has the host's key.
	stolen := b.active("alice", "check_balance")
	host := stolen.state().text("host_id")
	b.want("AAP-K7 somebody else", b.as("bob", http.MethodPost, "/v1/hosts/"+host+"/revoke", nil), http.StatusNotFound, "host_not_found")
	b.want("AAP-K7", b.as("alice", http.MethodPost, "/v1/hosts/"+host+"/revoke", nil), http.StatusOK, "")
	b.want("AAP-K7 its agents", balance(stolen), http.StatusForbidden, "host_revoked")
	// Anything that was revoked stays so after a restart, and is in the evidence.
	b.again(func() {})
	b.want("after a restart", balance(m), http.StatusForbidden, "agent_revoked")
	if got := b.records("agent=bank&limit=500"); len(got) < 12 {
		t.Errorf("%d records of all of this", len(got))
	}
	b.must("evidence", "export", "-c", "powerbox.yaml", "--out", "bundle.jsonl")
	b.must("evidence", "trust", "-c", "powerbox.yaml", "--out", "trust.json")
	if out := b.must("evidence", "verify", "bundle.jsonl", "--trust", "trust.json"); !strings.HasPrefix(out, "ok") {
		t.Errorf("the evidence: %s", out)
	}
}

// AAP-U1 to U5, R12, P4, M5, M6: agents without a user, until there is one.
func TestAAPU1_Autonomous(t *testing.T) {
	b := newBank(t, bankOptions{})
	host := newOKP(t)
	m, r := b.register(host, map[string]any{"mode": "autonomous", "capabilities": []any{"list_accounts"}})
	if r.text("status") != "active" || r.text("mode") != "autonomous" || grantsOf(r)["list_accounts"] != "active" { // AAP-U2: by the operator's policy
		t.Fatalf("AAP-U2: %s", r.Raw)
	}
	b.want("AAP-U2", m.execute("list_accounts", nil), http.StatusOK, "")
	if s := m.state(); s.Body["user_id"] != nil {
		t.Errorf("AAP-U5 it acts for %v", s.Body["user_id"])
	}
	// AAP-P4, AAP-R12: more is an administrator's to give.
	more := b.want("AAP-P4", m.request("close_account"), http.StatusOK, "")
	b.want("AAP-P4 a user", b.approve("alice", codeOf(more), map[string]any{}), http.StatusNotFound, "not_found")
	b.want("AAP-P4", b.approve("root", codeOf(more), map[string]any{}), http.StatusOK, "")
	b.want("AAP-U2 given", m.execute("close_account", nil), http.StatusOK, "")
	high, r := b.register(host, map[string]any{"mode": "autonomous", "capabilities": []any{"close_account"}})
	if r.text("status") != "pending" {
		t.Errorf("AAP-R12 high-risk at once: %s", r.Raw)
	}
	b.want("AAP-U2 a user", b.approve("alice", high.code, map[string]any{}), http.StatusNotFound, "not_found")
	// AAP-U3, AAP-U4: someone approves a delegated agent of the host, whose user they become.
	d, r := b.register(host, map[string]any{"capabilities": []any{"check_balance"}})
	b.want("a delegated one", r, http.StatusOK, "")
	b.want("AAP-U4", b.approve("alice", d.code, map[string]any{}), http.StatusOK, "")
	s := m.state()
	if s.text("status") != "claimed" || s.text("user_id") != "user:alice" || grantsOf(s)["list_accounts"] != "revoked" {
		t.Errorf("AAP-U3: %s", s.Raw)
	}
	b.want("AAP-U3", m.execute("list_accounts", nil), http.StatusForbidden, "agent_claimed")
	b.want("AAP-M1 terminal", b.ask(http.MethodPost, "/agent/reactivate", b.host(host), args("agent_id", m.id)), http.StatusForbidden, "agent_claimed")
	if s := d.state(); s.text("user_id") != "user:alice" { // AAP-U5
		t.Errorf("AAP-U5: %s", s.Raw)
	}
	// AAP-M6: one user. AAP-U4: by an administrator, once it has none.
	id := d.state().text("host_id")
	b.want("AAP-M6", b.as("root", http.MethodPost, "/v1/hosts/"+id+"/link", args("user", "user:bob")), http.StatusBadRequest, "invalid_request")
	b.want("AAP-U4 not a user's", b.as("bob", http.MethodPost, "/v1/hosts/"+id+"/link", args("user", "user:bob")), http.StatusForbidden, "unauthorized")
	b.want("AAP-K6", b.as("alice", http.MethodPost, "/v1/hosts/"+id+"/unlink", nil), http.StatusOK, "")
	b.want("AAP-U4", b.as("root", http.MethodPost, "/v1/hosts/"+id+"/link", args("user", "user:bob")), http.StatusOK, "")
	_, r = b.register(host, map[string]any{"capabilities": []any{"check_balance"}})
	if r.text("status") != "active" {
		t.Errorf("AAP-K6 the host has kept its key: %s", r.Raw)
	}
}

// AAP-M4, AAP-H13, AAP-R4: an unknown host gets nothing before it is approved,
// also for an agent that needs no user; one that an administrator knows does.
func TestAAPM4_AutonomousAtUnknownHosts(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      modes: [delegated, autonomous]"})
	asks := map[string]any{"mode": "autonomous", "capabilities": []any{"list_accounts"}}
	m, r := b.register(newOKP(t), asks)
	if r.text("status") != "pending" || grantsOf(r)["list_accounts"] != "pending" || m.code == "" {
		t.Fatalf("AAP-M4: %s", r.Raw)
	}
	b.want("AAP-M4", m.execute("list_accounts", nil), http.StatusForbidden, "host_pending")
	b.want("AAP-R4 another of the host", b.ask(http.MethodPost, "/agent/register", b.host(m.host, fact{"agent_public_key": newOKP(t).jwk}), fact{"name": "Other", "mode": "autonomous", "capabilities": []any{"list_accounts"}}), http.StatusOK, "")
	b.want("AAP-M4 a user", b.approve("alice", m.code, map[string]any{}), http.StatusNotFound, "not_found")
	b.want("AAP-M4 an administrator", b.approve("root", m.code, map[string]any{}), http.StatusOK, "")
	b.want("AAP-M4 approved", m.execute("list_accounts", nil), http.StatusOK, "")
	known := newOKP(t)
	b.want("AAP-U6", b.as("root", http.MethodPost, "/v1/hosts", args("name", "ci", "public_key", known.jwk)), http.StatusOK, "")
	if n, r := b.register(known, asks); r.text("status") != "active" {
		t.Errorf("AAP-U2 at a host that is known: %s", r.Raw)
	} else {
		b.want("AAP-U2", n.execute("list_accounts", nil), http.StatusOK, "")
	}
}

// AAP-R8: a person approves none of the requested capabilities: the agent is active and
// holds nothing. That differs from an agent that a person rejected.
func TestAAPR8_NothingIsTicked(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, _ := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance", "list_accounts"}})
	b.want("AAP-R8", b.approve("alice", m.code, args("only", []string{})), http.StatusOK, "")
	s := m.state()
	if g := grantsOf(s); s.text("status") != "active" || g["check_balance"] != "denied" || g["list_accounts"] != "denied" {
		t.Errorf("AAP-R8: %s", s.Raw)
	}
	b.want("AAP-R8", m.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "capability_not_granted")
	n, _ := b.register(m.host, map[string]any{"capabilities": []any{"list_accounts"}})
	b.want("AAP-R8 a denial", b.approve("alice", n.code, args("deny", true)), http.StatusOK, "")
	if s := n.state(); s.text("status") != "rejected" {
		t.Errorf("AAP-R8 denied: %s", s.Raw)
	}
}

// AAP-D8: a provider for delegated agents alone.
func TestAAPD8_ModesThatAreNotOffered(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      modes: [delegated]"})
	_, r := b.register(newOKP(t), map[string]any{"mode": "autonomous"})
	b.want("AAP-D8", r, http.StatusBadRequest, "unsupported_mode")
}

// AAP-F3: limits that need no proxy's header, and say when to come back.
func TestAAPF3_Limits(t *testing.T) {
	b := newBank(t, bankOptions{})
	b.again(func() {
		text := b.file("powerbox.yaml")
		b.write("powerbox.yaml", strings.Replace(text, "unknown_hosts: 0", "unknown_hosts: 2", 1))
	})
	for n := range 3 {
		_, r := b.register(newOKP(t), map[string]any{"name": fmt.Sprint("host ", n)})
		if n < 2 {
			b.want("AAP-F3", r, http.StatusOK, "")
			continue
		}
		b.want("AAP-F3", r, http.StatusTooManyRequests, "rate_limited")
		if r.Header.Get("Retry-After") == "" {
			t.Error("AAP-F3 no Retry-After")
		}
	}
	// A header of the caller's own is no way around it.
	k := newOKP(t)
	r := b.ask(http.MethodPost, "/agent/register", b.host(k, fact{"agent_public_key": newOKP(t).jwk}), map[string]any{"name": "x"}, "X-Forwarded-For", "203.0.113.9")
	b.want("AAP-F3", r, http.StatusTooManyRequests, "rate_limited")
}

// AAP-A2, ATK-50: codes are forty bits, in any case, for one answer, and cannot be
// tried out.
func TestAAPA2_UserCodes(t *testing.T) {
	aboutTheFile(t)
	b := newBank(t, bankOptions{})
	m, _ := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}})
	if len(m.code) != 9 || m.code[4] != '-' || strings.ContainsAny(m.code, "OIL") || strings.ToUpper(m.code) != m.code {
		t.Errorf("AAP-A2 a code is %q", m.code)
	}
	b.want("AAP-A2 in small letters, without its dash", b.as("alice", http.MethodGet, "/v1/approvals/"+strings.ToLower(strings.ReplaceAll(m.code, "-", "")), nil), http.StatusOK, "")
	if strings.Contains(b.file("powerbox-data/powerbox.db"), m.code) || strings.Contains(b.file("powerbox-data/powerbox.db-wal"), strings.ReplaceAll(m.code, "-", "")) {
		t.Error("AAP-A2 the code is stored as it is")
	}
	for range 10 {
		b.want("ATK-50", b.as("bob", http.MethodGet, "/v1/approvals/0000-0000", nil), http.StatusNotFound, "not_found")
	}
	b.want("ATK-50 no further", b.as("bob", http.MethodGet, "/v1/approvals/"+m.code, nil), http.StatusTooManyRequests, "rate_limited")
	b.want("others can", b.approve("alice", m.code, map[string]any{}), http.StatusOK, "")
	// An agent's own token answers nothing (ATK-47).
	again := m.request("list_accounts")
	for _, token := range []string{m.token(b.url), b.host(m.host)} {
		b.want("ATK-47", b.ask(http.MethodPost, "/v1/approvals/"+codeOf(again), token, map[string]any{}), http.StatusUnauthorized, "authentication_required")
	}
	for _, header := range [][2]string{{"Origin", "https://evil.example"}, {"Origin", b.url}, {"Sec-Fetch-Site", "cross-site"}} {
		r := b.ask(http.MethodPost, "/v1/approvals/"+codeOf(again), "", map[string]any{}, "Powerbox-Dev-User", "alice", header[0], header[1])
		if r.Status < 400 {
			t.Errorf("ATK-47 from a page: %d %s", r.Status, r.Raw)
		}
	}
	b.want("ATK-47 it is open still", b.as("alice", http.MethodGet, "/v1/approvals/"+codeOf(again), nil), http.StatusOK, "")
}

// AAP-A8, ATK-49: what an agent says of itself is shown as plain, short text, apart
// from what the provider knows.
func TestAAPA8_WordsOfAgents(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, _ := b.register(newOKP(t), map[string]any{
		"name": "Help\u202eer <script>alert(1)</script>\n\nBank", "host_name": strings.Repeat("a", 500), "reason": "<b>sure</b>\x00 [x](https://evil)", "capabilities": []any{"check_balance"},
	})
	q := b.as("alice", http.MethodGet, "/v1/approvals/"+m.code, nil)
	words, _ := q.Body["in_its_own_words"].(map[string]any)
	if words["name"] != "Helper alert(1) Bank" || len(words["host_name"].(string)) != 80 || strings.ContainsAny(words["reason"].(string), "<>\x00") {
		t.Errorf("AAP-A8: %v", words)
	}
	c := q.Body["capabilities"].([]any)[0].(map[string]any)
	if c["description"] != "See the balance" || c["sensitivity"] != "read" { // AAP-A9
		t.Errorf("AAP-A9: %v", c)
	}
}
