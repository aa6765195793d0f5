package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// kid is the key that a token names.
func kid(t *testing.T, compact string) string {
	t.Helper()
	header, _, _ := parts(t, compact)
	var h struct{ Kid string }
	if err := json.Unmarshal([]byte(header), &h); err != nil {
		t.Fatal(err)
	}
	return h.Kid
}

// published are the names of the keys at an agent's key endpoint.
func (w *town) published(agent string) []string {
	w.t.Helper()
	r, err := http.Get(w.agentURL(agent) + "/.well-known/jwks.json")
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var set struct{ Keys []struct{ Kid, D string } }
	if err := json.Unmarshal(text, &set); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, k := range set.Keys {
		if k.D != "" {
			w.t.Errorf("EXT-33 a private key is published")
		}
		names = append(names, k.Kid)
	}
	return names
}

// rotates replaces an agent's key and returns what became of it.
func (w *town) rotates(agent string, flags ...string) (key, before string) {
	w.t.Helper()
	var done struct{ Key, Before string }
	if err := json.Unmarshal([]byte(w.run(append([]string{"keys", "rotate", agent, "--output", "json"}, flags...)...)), &done); err != nil {
		w.t.Fatal(err)
	}
	return done.Key, done.Before
}

// ages are what powerbox keys list says of an agent's keys, by state.
func (w *town) ages(agent string) map[string]int {
	w.t.Helper()
	var keys []struct{ Agent, State string }
	if err := json.Unmarshal([]byte(w.run("keys", "list", "--output", "json")), &keys); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, k := range keys {
		if k.Agent == agent {
			out[k.State]++
		}
	}
	return out
}

// TestEXT34_RotationBreaksNoChain replaces the issuing key of an agent while its
// chains are in use: those continue through the grace, also over a restart, under
// both keys at the key endpoint; new ones are under the new key. Without a grace
// the old key ends at once, and what it signed with it.
func TestEXT34_RotationBreaksNoChain(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	search := func(chain ...string) answer {
		args := map[string]any{"query": "x"}
		return alice.present("documents", data("search_documents", args), proven{chain: chain, operation: opSearch, arguments: args})
	}
	old := alice.reports()
	derived := alice.keep([]string{old.Token}, func(c powerbox.Clause) (powerbox.Clause, bool) { return c, true })
	scoped := alice.scoped("documents", "documents:read", map[string]any{"resourceQuery": quarter("2025-Q1")})
	token := func() answer {
		return alice.sends("documents", under(t, data("search_documents", map[string]any{"query": "x"}), scoped.Token))
	}
	allowed(t, search(old.Token))
	first := kid(t, old.Token)

	// While the new key is not yet known everywhere the old one signs on.
	next, before := w.rotates("documents", "--lead", "10m")
	if before != first || kid(t, alice.reports().Token) != first {
		t.Errorf("within the lead: %s was before, tokens are under %s; want both %s", before, kid(t, alice.reports().Token), first)
	}
	if got := w.published("documents"); len(got) != 2 || got[0] != next || got[1] != first {
		t.Errorf("EXT-33 published are %v; want %s and %s", got, next, first)
	}
	second, _ := w.rotates("documents", "--lead", "0s")
	held := alice.reports()
	if got := kid(t, held.Token); got != second {
		t.Errorf("new tokens are under %s; want %s", got, second)
	}
	for range 2 {
		allowed(t, search(old.Token))
		allowed(t, search(derived...))
		allowed(t, search(held.Token))
		allowed(t, token())
		if got := w.published("documents"); len(got) != 3 || got[0] != second {
			t.Errorf("published are %v", got)
		}
		w.again(func() {})
	}
	if got := w.ages("documents"); got["in use"] != 1 || got["accepted"] != 2 {
		t.Errorf("keys list: %v", got)
	}
	if got := w.records("agent=powerbox"); !rotated(got, 2) {
		t.Errorf("the rotations are not on record: %+v", got)
	}

	// A stolen key is gone at once, with what it signed.
	last, _ := w.rotates("documents", "--grace", "0s")
	before403 := len(w.documents.got())
	if a := search(held.Token); a.Error == nil || len(w.documents.got()) != before403 {
		t.Errorf("under the stolen key: %s", a.Raw)
	}
	if got := w.published("documents"); len(got) != 1 || got[0] != last {
		t.Errorf("published are %v; want %s alone", got, last)
	}
	for name, a := range map[string]answer{"older": search(old.Token), "derived": search(derived...), "scope token": token()} {
		if a.Error == nil {
			t.Errorf("%s, under a key before the stolen one: %s", name, a.Raw)
		}
	}
	if got := kid(t, alice.reports().Token); got != last {
		t.Errorf("new tokens are under %s; want %s", got, last)
	}
	allowed(t, search(alice.reports().Token))
	if out, code := w.cli("keys", "rotate", "documents", "--grace", "-1s"); code == 0 {
		t.Errorf("a grace in the past: %s", out)
	}
	if out, code := w.cli("keys", "rotate", "handles"); code != 2 || !strings.Contains(out, "every handle") {
		t.Errorf("another kind: exit %d\n%s", code, out)
	}
}

// rotated reports whether so many rotations are among records, and that none
// holds a key.
func rotated(all []recorded, want int) bool {
	n := 0
	for _, r := range all {
		if r.Action == "key.rotate" {
			n++
		}
	}
	return n == want
}

// TestEXT34_AtAGatewayApart: remote gateways continue with old chains and learn of the
// new key automatically.
func TestEXT34_AtAGatewayApart(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	old := alice.reports()
	if a := alice.looksUp(old); a.Error != nil {
		t.Fatal(string(a.Raw))
	}
	second, _ := w.rotates("documents", "--lead", "0s")
	held := alice.reports()
	if kid(t, held.Token) != second {
		t.Errorf("new tokens are under %s", kid(t, held.Token))
	}
	eventually(t, 15*time.Second, func() string { return "a new key is not known apart\n" + all[0].log.String() }, func() bool {
		return alice.looksUp(held).Error == nil
	})
	if a := alice.looksUp(old); a.Error != nil {
		t.Errorf("under the old key: %s", a.Raw)
	}
	w.rotates("documents", "--grace", "0s")
	eventually(t, 15*time.Second, func() string { return "a stolen key is believed apart\n" + all[0].log.String() }, func() bool {
		return alice.looksUp(held).Error != nil
	})
}
