package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestATK68_ARotatedKeyHasNoNewQuestions uses up the questions of a host, which then
// rotates its key and asks again, in every way in which hosts ask.
func TestATK68_ARotatedKeyHasNoNewQuestions(t *testing.T) {
	b := newBank(t, bankOptions{})
	host := b.active("alice", "check_balance").host
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "questions: 0", "questions: 2", 1))
	})
	registers := func(k okp) reply {
		t.Helper()
		_, r := b.register(k, map[string]any{"capabilities": []any{"list_accounts"}})
		return r
	}
	for range 2 {
		b.want("ATK-68", registers(host), http.StatusOK, "")
	}
	b.want("ATK-68 a third", registers(host), http.StatusTooManyRequests, "rate_limited")
	next := newOKP(t)
	b.want("rotate", b.ask(http.MethodPost, "/host/rotate-key", b.host(host), args("public_key", next.jwk)), http.StatusOK, "")
	b.want("ATK-68 under another key", registers(next), http.StatusTooManyRequests, "rate_limited")
}

// TestATK68_StrangersShareTheQuestionsOfTheirAddress has hosts that nobody has approved ask
// with a new key each. An approved host at the same address has its own limit.
func TestATK68_StrangersShareTheQuestionsOfTheirAddress(t *testing.T) {
	b := newBank(t, bankOptions{})
	known := b.active("alice", "check_balance").host
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "questions: 0", "questions: 2", 1))
	})
	for n := range 4 {
		status, code := http.StatusOK, ""
		if n >= 2 {
			status, code = http.StatusTooManyRequests, "rate_limited"
		}
		_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}})
		b.want("ATK-68 a stranger", r, status, code)
	}
	_, r := b.register(known, map[string]any{"capabilities": []any{"list_accounts"}})
	b.want("ATK-68 an approved host", r, http.StatusOK, "")
}

// TestATK68_TokensOfStrangersAreNoRowsWithoutLimit has hosts that nobody knows send tokens
// of a clock that is ahead, each of which the store has to remember.
func TestATK68_TokensOfStrangersAreNoRowsWithoutLimit(t *testing.T) {
	b := newBank(t, bankOptions{})
	known := b.active("alice", "check_balance")
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "unknown_hosts: 0", "unknown_hosts: 1", 1))
	})
	ahead := func() fact { return fact{"iat": nowUnix() + 20, "exp": nowUnix() + 80} }
	for what, send := range map[string]func() reply{
		"of unknown hosts": func() reply { return b.ask(http.MethodGet, "/capability/list", b.host(newOKP(t), ahead()), nil) },
		"that ask how an agent stands": func() reply {
			return b.ask(http.MethodGet, "/agent/status?agent_id=agt_none", b.host(newOKP(t), ahead()), nil)
		},
	} {
		taken := 0
		for range 20 {
			r := send()
			if r.Status == http.StatusTooManyRequests {
				if r.Header.Get("Retry-After") == "" {
					t.Errorf("ATK-68 %s: no Retry-After", what)
				}
				continue
			}
			taken++
		}
		if taken > 4 {
			t.Errorf("ATK-68 %d of 20 tokens %s are written to the store; want at most 4", taken, what)
		}
	}
	b.want("ATK-68 an approved host whose clock is ahead", b.ask(http.MethodGet, "/agent/status?agent_id="+known.id, b.host(known.host, ahead()), nil), http.StatusOK, "")
	b.want("ATK-68 a stranger whose clock is right", b.ask(http.MethodGet, "/capability/list", b.host(newOKP(t)), nil), http.StatusOK, "")
}
