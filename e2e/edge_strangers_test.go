package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
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

// TestATK68_StrangersShareTheQuestionsOfTheirAddress has hosts that no person has approved ask
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

// TestATK68_TokensOfStrangersAreNoRowsWithoutLimit has unknown hosts send tokens
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

// TestATK95_TokensOfAnApprovedHostAreNoRowsWithoutLimit has an approved host and its agent
// send tokens of a clock that is ahead, each of which the store has to remember. Another
// host, and the same one once its clock is right, are not held up.
func TestATK95_TokensOfAnApprovedHostAreNoRowsWithoutLimit(t *testing.T) {
	b := newBank(t, bankOptions{})
	busy, other := b.active("alice", "check_balance", "list_accounts"), b.active("alice", "check_balance")
	ahead := func() fact { return fact{"iat": nowUnix() + 25, "exp": nowUnix() + 80} }
	began := time.Now()
	taken, limited := 0, 0
	for n := range 200 {
		var r reply
		switch n % 3 {
		case 0:
			r = b.ask(http.MethodGet, "/agent/status?agent_id="+busy.id, b.host(busy.host, ahead()), nil)
		case 1:
			r = busy.execute("check_balance", args("account_id", "a"), ahead())
		default:
			r = b.ask(http.MethodGet, "/capability/list", busy.token(b.url, ahead()), nil)
		}
		switch r.Status {
		case http.StatusOK:
			taken++
		case http.StatusTooManyRequests:
			if limited++; r.Header.Get("Retry-After") == "" || !strings.Contains(r.text("message"), "set the clock") {
				t.Errorf("ATK-95 %s %s; want Retry-After, and what to do", r.Header, r.Raw)
			}
		default:
			t.Fatalf("ATK-95 %d %s", r.Status, r.Raw)
		}
	}
	if most := 120 + int(2*time.Since(began).Seconds()) + 1; taken > most || limited == 0 {
		t.Errorf("ATK-95 %d of 200 tokens are written to the store, and %d refused; want at most %d written", taken, limited, most)
	}
	b.want("ATK-95 the host once its clock is right", busy.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	b.want("ATK-95 another host whose clock is ahead", other.execute("check_balance", args("account_id", "a"), ahead()), http.StatusOK, "")
}
