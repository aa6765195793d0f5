package e2e

import "testing"

// TestDraftsOfTokens: a server issues and accepts draft -02 of the token format. It denies
// chains of -01 by name, unless its configuration lists that draft; whichever stands first
// is issued.
func TestDraftsOfTokens(t *testing.T) {
	issued := func(w *town, before, after string) (alice *caller, other string) {
		alice = w.caller(aliceToken)
		c := alice.reports()
		allowed(t, alice.search(c.Token))
		header, payload, _ := parts(t, c.Token)
		return alice, signedBy(t, w.agentKey("documents"), changed(t, header, before, after), payload)
	}
	w := start(t, options{})
	alice, old := issued(w, `"Ed25519"`, `"EdDSA"`)
	w.repel(t, attack{"a chain of -01", "draft_not_accepted", func() answer { return alice.search(old) }})

	w = start(t, options{issuer: `  token_drafts: ["01", "02"]`})
	alice, next := issued(w, `"EdDSA"`, `"Ed25519"`)
	allowed(t, alice.search(next))
}
