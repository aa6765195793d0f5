package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAAPN1_KeySetsWithinBounds publishes key sets of hosts that are good except for
// one thing: one that is too large, and one behind a redirect. Sets within the
// bounds are accepted, so the bounds cause the refusals.
func TestAAPN1_KeySetsWithinBounds(t *testing.T) {
	b := newBank(t, bankOptions{})
	for name, c := range map[string]struct {
		padding  int
		redirect bool
		status   int
		code     string
	}{
		"as it is":            {0, false, http.StatusOK, ""},
		"almost 1 MiB":        {1<<20 - 1024, false, http.StatusOK, ""},
		"more than 1 MiB":     {1 << 20, false, http.StatusUnauthorized, "invalid_jwt"},
		"by way of somewhere": {0, true, http.StatusUnauthorized, "invalid_jwt"},
	} {
		k := newOKP(t)
		one := map[string]any{"kid": "one"}
		for member, v := range k.jwk {
			one[member] = v
		}
		set, _ := json.Marshal(map[string]any{"keys": []any{one}})
		published := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.redirect && r.URL.Path != "/moved" {
				http.Redirect(w, r, "/moved", http.StatusFound)
				return
			}
			_, _ = w.Write(append(set, strings.Repeat(" ", c.padding)...))
		}))
		t.Cleanup(published.Close) // not before: the next one at this port would be taken for it
		r := b.ask(http.MethodPost, "/agent/register", b.signedBy(k, "one", published.URL, fact{"agent_public_key": newOKP(t).jwk}), map[string]any{"name": "x"})
		b.want("AAP-N1 a set "+name, r, c.status, c.code)
	}
}

// TestAAPZ1_PrivateKeysAreRefused sends the provider keys with their private part,
// wherever it takes one: none is kept.
func TestAAPZ1_PrivateKeysAreRefused(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	private := func() map[string]any {
		k := newOKP(t)
		return map[string]any{"kty": "OKP", "crv": "Ed25519", "x": k.jwk["x"], "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}
	}
	refused := func(what string, r reply) {
		t.Helper()
		if r.Status != http.StatusBadRequest && r.Status != http.StatusUnauthorized || strings.Contains(r.Raw, "nWGxne") {
			t.Errorf("AAP-Z1 %s: %d %s", what, r.Status, r.Raw)
		}
	}
	refused("the agent's key at its registration", b.ask(http.MethodPost, "/agent/register", b.host(m.host, fact{"agent_public_key": private()}), args("name", "x")))
	stranger := newOKP(t)
	own := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": stranger.jwk["x"], "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}
	refused("the host's key at its first registration", b.ask(http.MethodPost, "/agent/register", b.host(stranger, fact{"host_public_key": own, "agent_public_key": newOKP(t).jwk}), args("name", "x")))
	refused("the agent's next key", b.ask(http.MethodPost, "/agent/rotate-key", b.host(m.host), args("agent_id", m.id, "public_key", private())))
	refused("the host's next key", b.ask(http.MethodPost, "/host/rotate-key", b.host(m.host), args("public_key", private())))
	b.want("AAP-Z1 the agent goes on with the key that it had", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
}

// TestAAPN2_WhatIsNoSet publishes documents that are no key set by RFC 7517, or an
// unsafe one: hosts with such sets are not recognized. The good key is in each.
func TestAAPN2_WhatIsNoSet(t *testing.T) {
	b := newBank(t, bankOptions{})
	for name, c := range map[string]struct {
		set    func(good map[string]any) any
		status int
		code   string
	}{
		"one key": {func(good map[string]any) any { return fact{"keys": []any{good}} }, http.StatusOK, ""},
		"no list": {func(good map[string]any) any { return good }, http.StatusUnauthorized, "invalid_jwt"},
		"no keys": {func(map[string]any) any { return fact{"keys": []any{}} }, http.StatusUnauthorized, "invalid_jwt"},
		"a shared secret": {func(good map[string]any) any {
			return fact{"keys": []any{good, fact{"kty": "oct", "kid": "s", "k": "AAAA"}}}
		}, http.StatusUnauthorized, "invalid_jwt"},
		"a key without a kid": {func(good map[string]any) any { delete(good, "kid"); return fact{"keys": []any{good}} }, http.StatusUnauthorized, "invalid_jwt"},
		"more than 20": {func(good map[string]any) any {
			all := []any{good}
			for n := range 20 {
				other := fact{"kid": string(rune('a' + n))}
				for member, v := range newOKP(t).jwk {
					other[member] = v
				}
				all = append(all, other)
			}
			return fact{"keys": all}
		}, http.StatusUnauthorized, "invalid_jwt"},
	} {
		k := newOKP(t)
		good := map[string]any{"kid": "one"}
		for member, v := range k.jwk {
			good[member] = v
		}
		set, err := json.Marshal(c.set(good))
		if err != nil {
			t.Fatal(err)
		}
		published := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) }))
		t.Cleanup(published.Close) // not before, as above
		r := b.ask(http.MethodPost, "/agent/register", b.signedBy(k, "one", published.URL, fact{"agent_public_key": newOKP(t).jwk}), map[string]any{"name": "x"})
		b.want("AAP-N2 "+name, r, c.status, c.code)
	}
}

// TestAAPP6_BoundsThatWereTightened: an operator holds a capability to less than was
// granted of it before: that is in force, and what agents are told (AAP-G3).
func TestAAPP6_BoundsThatWereTightened(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "transfer_money")
	b.want("at first", m.execute("transfer_money", args("amount", 10000)), http.StatusOK, "")
	b.again(func() {
		b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "amount: {max: 10000}", "amount: {max: 100}", 1))
	})
	b.want("AAP-P6 within", m.execute("transfer_money", args("amount", 100)), http.StatusOK, "")
	r := b.want("AAP-P6 beyond", m.execute("transfer_money", args("amount", 10000)), http.StatusForbidden, "constraint_violated")
	if v, _ := r.Body["violations"].([]any); len(v) != 1 || !strings.Contains(r.Raw, `"constraint":{"max":100}`) {
		t.Errorf("AAP-E6: %s", r.Raw)
	}
	if d := b.record(r.text("decision_id")); d.Decision != "DENY" {
		t.Errorf("the denial is recorded as %+v", d)
	}
	why := b.must("evidence", "show", r.text("decision_id"))
	if !strings.Contains(why, "the operator's own constraints, as they are now, do not admit it") || strings.Contains(why, "skills do not map") || strings.Contains(why, `"message":"100`) {
		t.Errorf("the record words the denial as %s", why)
	}
	if out, _ := b.cli("explain", r.text("decision_id")); !strings.Contains(out, "keep argument amount within the constraints") {
		t.Errorf("explain: %s", out)
	}
	if n := b.did("transfer_money"); n != 2 {
		t.Errorf("the service was asked %d times; want 2", n)
	}
	if s := m.state(); !strings.Contains(s.Raw, `"constraints":{"amount":{"max":100}}`) {
		t.Errorf("AAP-G3 the effective set: %s", s.Raw)
	}
}

// AAP-P6, AAP-A9: while a request waits, the operator tightens its limits. The page
// shows the limits that would be in force. The approval gives exactly the limits
// shown, also after the operator loosens them again. A request whose limits have
// become empty cannot be approved.
func TestAAPP6_QuestionsThatWait(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), map[string]any{"capabilities": []any{within("transfer_money", args("amount", args("max", 5000), "currency", "EUR"))}})
	b.want("register", r, http.StatusOK, "")
	other, r := b.register(newOKP(t), map[string]any{"capabilities": []any{within("transfer_money", args("amount", args("min", 500)))}})
	b.want("register", r, http.StatusOK, "")
	to := func(from, most string) {
		b.again(func() {
			b.write("powerbox.yaml", strings.Replace(b.file("powerbox.yaml"), "amount: {max: "+from+"}", "amount: {max: "+most+"}", 1))
		})
	}
	to("10000", "100")
	alice := (&pagesBank{t: t, url: b.url}).visitor("alice")
	_, page := alice.get(alice.open(m.code))
	shown := b.as("alice", http.MethodGet, "/v1/approvals/"+m.code, nil).Raw
	said := b.must("approval", "show", m.code, "--server", b.url, "--as", "alice")
	for what, text := range map[string][2]string{"the page": {page, "at most 100"}, "programs": {shown, `"amount":{"max":100}`}, "approval show": {said, `"max":100}`}} {
		if !strings.Contains(text[0], text[1]) || strings.Contains(text[0], "5000") || !strings.Contains(text[0], "EUR") {
			t.Errorf("%s: want %s and no 5000:\n%s", what, text[1], text[0])
		}
	}
	if said := b.must("approval", "show", other.code, "--server", b.url, "--as", "alice"); !strings.Contains(said, "nothing of it remains") {
		t.Errorf("%s", said)
	}
	if _, page := alice.get(alice.open(other.code)); !strings.Contains(page, "not with these values") || !strings.Contains(page, " disabled") {
		t.Errorf("the page of what nothing remains of:\n%s", page)
	}
	b.want("nothing remains", b.approve("alice", other.code, args()), http.StatusBadRequest, "invalid_request")
	b.want("approve", b.approve("alice", m.code, args()), http.StatusOK, "")
	send := func(amount int) reply { return m.execute("transfer_money", args("amount", amount, "currency", "EUR")) }
	b.want("within", send(100), http.StatusOK, "")
	b.want("beyond", send(101), http.StatusForbidden, "constraint_violated")
	to("100", "10000")
	b.want("beyond what was shown", send(101), http.StatusForbidden, "constraint_violated")
	b.want("within what was shown", send(100), http.StatusOK, "")
}
