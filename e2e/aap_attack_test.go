package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// ATK-9, ATK-20: an agent's or a host's token that is refused is not used up, is used
// once when it holds, and is not good again after a restart.
func TestATK20_TokensOfAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "list_accounts")
	at := b.url + "/capability/execute"
	run := func(token string) reply {
		return b.ask(http.MethodPost, "/capability/execute", token, fact{"capability": "list_accounts"})
	}
	one := m.token(at)
	forged := one[:strings.LastIndexByte(one, '.')+1] + strings.Repeat("A", 86)
	b.want("ATK-9 forged", run(forged), http.StatusUnauthorized, "invalid_jwt")
	b.want("ATK-9 afterwards", run(one), http.StatusOK, "")
	b.want("ATK-20 again", run(one), http.StatusUnauthorized, "invalid_jwt")
	host := b.host(m.host)
	look := func() reply { return b.ask(http.MethodGet, "/agent/status?agent_id="+m.id, host, nil) }
	b.want("ATK-20 a host's", look(), http.StatusOK, "")
	b.want("ATK-20 again", look(), http.StatusUnauthorized, "invalid_jwt")
	ahead := m.token(at, fact{"iat": nowUnix() + 20, "exp": nowUnix() + 80})
	b.want("ATK-20 a clock that is ahead", run(ahead), http.StatusOK, "")
	b.again(func() {})
	for what, token := range map[string]string{"": one, " a clock that is ahead": ahead} {
		b.want("ATK-20, AAP-T4 after a restart"+what, run(token), http.StatusUnauthorized, "invalid_jwt")
	}
	b.want("ATK-20, AAP-T4 a host's after a restart", look(), http.StatusUnauthorized, "invalid_jwt")
}

// ATK-11 to ATK-14, ATK-21, ATK-36, ATK-37, ATK-39: tokens of another algorithm, type,
// key or time, codes that are no tokens, names of another alphabet and numbers that
// others round do nothing over Agent Auth.
func TestATK11_TokensOfAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", fact{"name": "transfer_money", "constraints": fact{"amount": fact{"max": 100}}}, "list_accounts")
	at := b.url + "/capability/execute"
	claims := func(more fact) fact {
		out := fact{"iss": m.host.thumb, "sub": m.id, "aud": at, "iat": nowUnix(), "exp": nowUnix() + 60, "jti": newOKP(t).thumb}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	attacker := newOKP(t)
	for name, token := range map[string]string{
		"ATK-10 another signature": attacker.signAs(fact{"alg": "EdDSA", "typ": "agent+jwt"}, claims(nil)),
		"ATK-11 another algorithm": m.key.signAs(fact{"alg": "HS256", "typ": "agent+jwt"}, claims(nil)),
		"ATK-12 none":              m.key.signAs(fact{"alg": "none", "typ": "agent+jwt"}, claims(nil)),
		"ATK-13 a host's type":     m.key.signAs(fact{"alg": "EdDSA", "typ": "host+jwt"}, claims(nil)),
		"ATK-13 a proof's type":    m.key.signAs(fact{"alg": "EdDSA", "typ": "dpop+jwt"}, claims(nil)),
		"ATK-14 a key in it":       attacker.signAs(fact{"alg": "EdDSA", "typ": "agent+jwt", "jwk": attacker.jwk}, claims(nil)),
		"ATK-14 a kid with a path": attacker.signAs(fact{"alg": "EdDSA", "typ": "agent+jwt", "kid": "../../etc/passwd"}, claims(nil)),
		"ATK-21 a year":            m.key.signAs(fact{"alg": "EdDSA", "typ": "agent+jwt"}, claims(fact{"exp": nowUnix() + 31536000})),
		"ATK-21 a text":            m.key.signAs(fact{"alg": "EdDSA", "typ": "agent+jwt"}, claims(fact{"exp": "9999999999"})),
		"ATK-21 in the future":     m.key.signAs(fact{"alg": "EdDSA", "typ": "agent+jwt"}, claims(fact{"iat": nowUnix() + 120, "exp": nowUnix() + 150})),
		"ATK-36 a user code":       m.code,
		"ATK-36 a host's token":    b.host(m.host, fact{"aud": at}),
	} {
		b.want(name, b.ask(http.MethodPost, "/capability/execute", token, fact{"capability": "list_accounts"}), http.StatusUnauthorized, "invalid_jwt")
	}
	b.want("ATK-36 an agent's token as a host's", b.ask(http.MethodPost, "/agent/revoke", m.token(b.url), fact{"agent_id": m.id}), http.StatusUnauthorized, "invalid_jwt")
	b.want("ATK-36 a token as a code", b.approve("alice", "AAAA-AAAA", fact{}), http.StatusNotFound, "not_found")
	for _, name := range []string{"list_аccounts", "list_accounts\u200b", "LIST_ACCOUNTS", "list_accounts "} {
		b.want("ATK-37", m.execute(name, nil), http.StatusNotFound, "capability_not_found")
	}
	for _, amount := range []string{"100.00000000000000001", "1e400", "9007199254740993", `"100"`, "101"} {
		r := b.ask(http.MethodPost, "/capability/execute", m.token(at), `{"capability":"transfer_money","arguments":{"amount":`+amount+`}}`)
		if r.Status == http.StatusOK {
			t.Errorf("ATK-39: %s is done", amount)
		}
	}
	for _, amount := range []string{"NaN", "-Infinity", "0x10", "-0", "1_000"} {
		r := b.ask(http.MethodPost, "/capability/execute", m.token(at), `{"capability":"transfer_money","arguments":{"amount":`+amount+`}}`)
		if amount != "-0" {
			b.want("ATK-39 "+amount, r, http.StatusBadRequest, "invalid_request")
		}
	}
	if n := b.did("list_accounts"); n != 0 {
		t.Errorf("the service was asked %d times", n)
	}
	if n := b.did("transfer_money"); n > 1 {
		t.Errorf("ATK-39: money was moved %d times", n)
	}
}

// ATK-46, ATK-48, ATK-51: an approval is the server's own and answered once by whom it
// is for; persons are asked so often and no more; anything that was revoked stays so.
func TestATK46_ApprovalsOfAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      approval_time: 5m"})
	m := b.active("alice", "list_accounts")
	r := b.want("request", m.request("check_balance"), http.StatusOK, "")
	code := codeOf(r)
	b.want("ATK-46 by another user", b.approve("bob", code, fact{"principal": "user:alice", "by": "user:alice", "approved": true}), http.StatusNotFound, "not_found")
	if r := b.ask(http.MethodPost, "/v1/approvals/"+code, m.token(b.url), fact{}); r.Status < 400 {
		t.Errorf("ATK-46, ATK-47: an agent approves: %d %s", r.Status, r.Raw)
	}
	if r := b.ask(http.MethodPost, "/v1/approvals/"+code, "", fact{}); r.Status < 400 {
		t.Errorf("ATK-46: nobody approves: %d %s", r.Status, r.Raw)
	}
	b.want("ATK-46", b.approve("alice", code, fact{}), http.StatusOK, "")
	if r := b.approve("alice", code, fact{}); r.Status < 400 {
		t.Errorf("ATK-46: answered twice: %d %s", r.Status, r.Raw)
	}
	b.want("revoke", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), fact{"agent_id": m.id}), http.StatusOK, "")
	b.want("ATK-51 revoked twice", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), fact{"agent_id": m.id}), http.StatusOK, "")
	b.want("ATK-51 reactivated", b.ask(http.MethodPost, "/agent/reactivate", b.host(m.host), fact{"agent_id": m.id}), http.StatusForbidden, "agent_revoked")
	b.want("ATK-51 registered anew", b.ask(http.MethodPost, "/agent/register", b.host(m.host, fact{"agent_public_key": m.key.jwk}), fact{"name": "x"}), http.StatusConflict, "agent_exists")
	b.want("ATK-51 executed", m.execute("list_accounts", nil), http.StatusForbidden, "agent_revoked")
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "questions: 0", "questions: 3", 1))
	})
	b.want("ATK-51 after a restart", m.execute("list_accounts", nil), http.StatusForbidden, "agent_revoked")
	host := newOKP(t)
	for n := range 4 {
		_, r := b.register(host, fact{"capabilities": []string{"list_accounts"}})
		if n < 3 {
			b.want("ATK-48", r, http.StatusOK, "")
			continue
		}
		b.want("ATK-48 asked without end", r, http.StatusTooManyRequests, "rate_limited")
	}
}
