package e2e

import (
	"testing"
)

// everyBinding runs a test over every binding of A2A, and over MCP.
func everyBinding(t *testing.T, test func(t *testing.T, on wire)) {
	t.Helper()
	everywhere(t, test)
	on := wire{overMCP, "2025-11-25"}
	t.Run(on.String(), func(t *testing.T) { test(t, on) })
}

// searchBody is a call of the read skill that every binding has.
func searchBody(on wire) []byte {
	args := map[string]any{"query": "x"}
	if on.binding == overMCP {
		return invoke("search_documents", args, "")
	}
	return data("search_documents", args)
}

// exhausts makes calls until one is refused for the rate.
func exhausts(t *testing.T, what string, call func() answer) {
	t.Helper()
	for range 200 {
		if a := call(); a.reason() == "rate_limited" {
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("ATK-81 %s: no Retry-After", what)
			}
			return
		}
	}
	t.Errorf("ATK-81 %s: never limited", what)
}

// A stranger takes all calls of an address, without credentials and with proofs that do not
// hold. Callers at the same address keep theirs: those with a session, and those with
// nothing but a key and a capability.
func TestATK81_StrangersTakeNoCallsOfOthers(t *testing.T) {
	everyBinding(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, extra: "defaults: {request_rate: 8}\n"})
		alice := w.caller(aliceToken)
		held, body := alice.reports(), searchBody(on)
		key := alice.withKey()
		allowed(t, key.byID(held, body))
		url := w.agentURL("documents")
		stranger := func() answer { return w.post(url, body, nil) }
		// What shows the capability of another and proves nothing.
		thief := func() answer {
			h := w.caller("").headers(url)
			h.Set("Powerbox-Capability", held.ID)
			return w.post(url, body, h)
		}
		// A proof of another method does not hold.
		liar := func() answer {
			h := w.caller("").headers(url + "/elsewhere")
			h.Set("DPoP", h.Get("DPoP")+"x")
			return w.post(url, body, h)
		}
		for name, floods := range map[string]func() answer{"no credentials": stranger, "another's capability": thief, "false proofs": liar} {
			exhausts(t, name, floods)
			exhausts(t, name, stranger)
			if a := key.byID(held, body); a.Error != nil || a.reason() != "" {
				t.Errorf("ATK-81 %s: a caller with a key and a capability: %s", name, a.Raw)
			}
			if a := alice.byID(held, body); a.Error != nil || a.reason() != "" {
				t.Errorf("ATK-81 %s: a caller with a session: %s", name, a.Raw)
			}
		}
		exhausts(t, "one capability", func() answer { return key.byID(held, body) })
		allowed(t, alice.byID(held, body))
	})
}

// A flood of proofs that do not hold takes nothing of callers that show none, at the same
// address.
func TestATK81_FalseProofsAreCountedApart(t *testing.T) {
	w := start(t, options{extra: "defaults: {request_rate: 8}\n"})
	url, body := w.agentURL("documents"), searchBody(wire{})
	exhausts(t, "false proofs", func() answer {
		h := w.caller("").headers(url)
		h.Set("DPoP", h.Get("DPoP")+"x")
		return w.post(url, body, h)
	})
	if a := w.post(url, body, nil); a.reason() == "rate_limited" {
		t.Errorf("ATK-81 a caller that shows nothing: %s", a.Raw)
	}
}

// The same for chains with a proof. Who shows a chain and cannot prove to hold it takes
// nothing of its holder, and neither do those who show nothing. Chains that a holder derives
// have the rate of the one that they come from.
func TestATK81_ChainsHaveTheirOwnRate(t *testing.T) {
	w := start(t, options{extra: "defaults: {request_rate: 4}\n"})
	alice, body := w.caller(aliceToken), data("search_documents", nil)
	held, other := alice.reports(), alice.reports()
	calls := func(c *caller, chain ...string) answer {
		return c.present("documents", body, proven{chain: chain, operation: opSearch})
	}
	allowed(t, calls(alice, held.Token))
	last := alice.reports()
	allowed(t, calls(alice, last.Token))
	mallory, bob := w.caller(""), w.caller("")
	exhausts(t, "no credentials", func() answer { return w.post(w.agentURL("documents"), body, nil) })
	allowed(t, calls(alice, held.Token))
	exhausts(t, "the chain of another", func() answer { return calls(mallory, other.Token) })
	allowed(t, calls(alice, held.Token))
	derived := alice.hands(bob, held.Token)
	exhausts(t, "a derived chain", func() answer { return calls(bob, derived...) })
	limited := 0
	for range 5 {
		if calls(alice, held.Token).reason() == "rate_limited" {
			limited++
		}
	}
	if limited == 0 {
		t.Error("ATK-81 a derived chain has a rate of its own")
	}
	allowed(t, calls(alice, last.Token))
}
