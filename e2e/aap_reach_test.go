package e2e

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// ATK-1 to ATK-5: what an agent may do is what it was granted, by exact names, under
// every constraint, and nothing where nothing is said.
func TestATK1_GrantsOfAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "list_accounts", fact{"name": "transfer_money", "constraints": fact{"amount": fact{"max": 100}}})
	other := b.active("alice", "slow_job")
	reached := len(b.reached)
	for name, r := range map[string]reply{
		"ATK-1 what another agent of the user has":        other.execute("list_accounts", nil),
		"ATK-1 what the user could do":                    m.execute("close_account", nil),
		"ATK-1 what nobody may":                           m.execute("internal_audit", nil),
		"ATK-2 a name that begins so":                     m.execute("list_accounts_of_all", nil),
		"ATK-2 a name below":                              m.execute("list_accounts.all", nil),
		"ATK-2 a beginning of a name":                     m.execute("list", nil),
		"ATK-2 a pattern":                                 m.execute("*", nil),
		"ATK-3 within what is offered, beyond the grant":  m.execute("transfer_money", fact{"amount": 101}),
		"ATK-4 a long name":                               m.execute("list_accounts"+strings.Repeat(" ", 300), nil),
		"ATK-4 a very long name":                          m.execute("list_accounts"+strings.Repeat("x", 100000), nil),
		"ATK-5 an argument that is constrained, left out": m.execute("transfer_money", fact{}),
		"ATK-5 an argument that is null":                  m.execute("transfer_money", fact{"amount": nil}),
		"ATK-5 no capability":                             b.ask(http.MethodPost, "/capability/execute", m.token(b.url+"/capability/execute"), fact{"arguments": fact{}}),
	} {
		if r.Status < 400 || r.text("error") == "" {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
	for name, asked := range map[string][]any{"ATK-5 nothing": nil, "ATK-5 an empty list": {}} {
		none, r := b.register(newOKP(t), fact{"capabilities": asked})
		if r.Status == http.StatusOK && none.code != "" {
			b.want(name, b.approve("alice", none.code, fact{}), http.StatusOK, "")
		}
		if r := none.execute("list_accounts", nil); r.Status < 400 {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
	if len(b.reached) != reached {
		t.Errorf("the service was asked for %v", b.reached[reached:])
	}
	b.want("what it has", m.execute("transfer_money", fact{"amount": 100}), http.StatusOK, "")
}

// ATK-22, ATK-32, ATK-35: the service gets the decided call, with our context and
// without credentials or names that the caller made up.
func TestATK35_WhatAServiceOfAgentAuthGets(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "transfer_money")
	at := b.url + "/capability/execute"
	b.want("execute", b.ask(http.MethodPost, "/capability/execute", m.token(at), `{"capability":"transfer_money","arguments":{"amount":7.10,"to":"\u0061"}}`,
		"Powerbox-Context", "forged", "X-Agent-Id", "root", "X-Forwarded-User", "root", "Powerbox-Capability", "cap_forged", "Cookie", "session=root"), http.StatusOK, "")
	got := b.last
	if !bytes.Contains(got.body, []byte(`"amount":7.1,`)) {
		t.Errorf("ATK-22: the service got %s; want the number as it was decided", got.body)
	}
	context := got.header.Get("Powerbox-Context")
	if strings.Count(context, ".") != 2 || context == "forged" {
		t.Errorf("ATK-32: the context is %q", context)
	}
	for _, name := range []string{"Authorization", "X-Agent-Id", "X-Forwarded-User", "Powerbox-Capability", "Cookie"} {
		if v := got.header.Get(name); v != "" {
			t.Errorf("ATK-32, ATK-35: the service got %s: %s", name, v)
		}
	}
}

// ATK-29, ATK-30, ATK-40, ATK-54, ATK-55: bodies of another type or coding, tokens that
// are the same in other words, calls without a token, and bodies that are too large.
func TestATK29_RequestsOfAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "list_accounts")
	at := b.url + "/capability/execute"
	good := `{"capability":"list_accounts"}`
	rewritten := func() string {
		parts := strings.Split(m.token(at), ".")
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		parts[1] = base64.RawURLEncoding.EncodeToString(bytes.Replace(payload, []byte(":"), []byte(": "), 1))
		return strings.Join(parts, ".")
	}
	reached := len(b.reached)
	for name, r := range map[string]reply{
		"ATK-29 a form":                         b.ask(http.MethodPost, "/capability/execute", m.token(at), "capability=list_accounts", "Content-Type", "application/x-www-form-urlencoded"),
		"ATK-29 text":                           b.ask(http.MethodPost, "/capability/execute", m.token(at), good, "Content-Type", "text/plain"),
		"ATK-29 another method":                 b.ask(http.MethodPut, "/capability/execute", m.token(at), good, "Content-Type", "application/json"),
		"ATK-30 compressed":                     b.ask(http.MethodPost, "/capability/execute", m.token(at), good, "Content-Type", "application/json", "Content-Encoding", "gzip"),
		"ATK-30 compressed, said behind":        b.ask(http.MethodPost, "/capability/execute", m.token(at), good, "Content-Type", "application/json", "Content-Encoding", "identity\ngzip"),
		"ATK-40 the same claims in other bytes": b.ask(http.MethodPost, "/capability/execute", rewritten(), good),
		"ATK-54 no token":                       b.ask(http.MethodPost, "/capability/execute", "", good),
		"ATK-54 ambient authority":              b.ask(http.MethodPost, "/capability/execute", "", good, "Powerbox-Ambient", "true", "Powerbox-Dev-User", "alice"),
		"ATK-54 another scheme":                 b.ask(http.MethodPost, "/capability/execute", "", good, "Authorization", "Basic YWxpY2U6YWxpY2U="),
		"ATK-55 a deep body":                    b.ask(http.MethodPost, "/capability/execute", m.token(at), `{"capability":"list_accounts","arguments":`+strings.Repeat(`{"a":`, 10000)+"1"+strings.Repeat("}", 10000)+"}"),
		"ATK-55 a long token":                   b.ask(http.MethodPost, "/capability/execute", m.token(at)+strings.Repeat("A", 60000), good),
	} {
		if r.Status < 400 || r.Status >= 500 && r.Status != http.StatusNotImplemented {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
	names := make([]any, 10000)
	for i := range names {
		names[i] = "list_accounts"
	}
	values := make([]any, 1001)
	for i := range values {
		values[i] = i
	}
	for name, asked := range map[string]any{
		"ATK-55 10,000 capabilities": names,
		"ATK-55 1,001 values":        []any{fact{"name": "transfer_money", "constraints": fact{"amount": fact{"in": values}}}},
	} {
		if _, r := b.register(newOKP(t), fact{"capabilities": asked}); r.Status < 400 || r.Status >= 500 {
			t.Errorf("%s: %d %.200s", name, r.Status, r.Raw)
		}
	}
	if len(b.reached) != reached {
		t.Errorf("the service was asked for %v", b.reached[reached:])
	}
	b.want("a call as it should be", m.execute("list_accounts", nil), http.StatusOK, "")
}

// ATK-23: anything that was revoked is refused from the answer on, by the same agent, key and
// connection, and by an agent that was refused before.
func TestATK23_RevokedIsRevokedInAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{})
	for range 10 {
		m := b.active("alice", "list_accounts")
		b.want("before", m.execute("list_accounts", nil), http.StatusOK, "")
		n := b.did("list_accounts")
		b.want("revoke", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), fact{"agent_id": m.id}), http.StatusOK, "")
		b.want("ATK-23", m.execute("list_accounts", nil), http.StatusForbidden, "agent_revoked")
		if b.did("list_accounts") != n {
			t.Fatal("ATK-23: the service was asked after the revocation")
		}
	}
}
