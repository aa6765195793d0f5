package issuer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/token"
)

// TestEXT15_Epochs: a capability issued up to an event is dead with its children on
// record, also those of another holder and those that are younger; a capability issued
// afterwards is good. A restart forgets nothing.
func TestEXT15_Epochs(t *testing.T) {
	for name, c := range map[string]struct {
		bulk        func(alice, mailer string) issuer.Bulk
		root, child bool // whether they end
	}{
		"the issuer's":          {func(_, _ string) issuer.Bulk { return issuer.Bulk{Issuer: "documents"} }, true, true},
		"the holder's":          {func(a, _ string) issuer.Bulk { return issuer.Bulk{Holder: a} }, true, true},
		"the later holder's":    {func(_, m string) issuer.Bulk { return issuer.Bulk{Holder: m} }, false, true},
		"from the delegator":    {func(a, _ string) issuer.Bulk { return issuer.Bulk{Delegator: a} }, false, true},
		"from the later holder": {func(_, m string) issuer.Bulk { return issuer.Bulk{Delegator: m} }, false, false},
		"the user's":            {func(_, _ string) issuer.Bulk { return issuer.Bulk{Principal: "user:alice"} }, true, true},
		"another user's":        {func(_, _ string) issuer.Bulk { return issuer.Bulk{Principal: "user:bob"} }, false, false},
	} {
		w := newTown(t)
		alice, mailer := caller(t, "user:alice"), caller(t, "user:alice")
		root := w.read(alice)
		w.now = noon.Add(10 * time.Second)
		target := issuer.Target{All: c.bulk(alice.Holder.ID, mailer.Holder.ID)}
		narrow := func() (issuer.Capability, error) {
			return w.issuer.Narrow(t.Context(), "documents", alice, root.ID, issuer.Narrowing{Operations: []string{"search"}, Recipient: mailer.Holder, Agent: "mail"})
		}
		child, err := narrow()
		if err != nil {
			t.Fatal(err)
		}
		// The event falls between root and child, as if they raced.
		w.now = noon.Add(5 * time.Second)
		dying, err := w.issuer.Victims(t.Context(), target, 1)
		if want := num(c.root) + num(c.child); err != nil || dying.Count != want || len(dying.Capabilities) != min(want, 1) || w.issuer.RevocationSequence() != 0 {
			t.Errorf("EXT-15 %s: %d would die, %v; want %d", name, dying.Count, err, want)
		}
		if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", target); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if w.issuer.Dead(root) != c.root || w.issuer.Dead(child) != c.child {
				t.Errorf("EXT-15 %s: root %t, child %t", name, w.issuer.Dead(root), w.issuer.Dead(child))
			}
			if held, err := w.issuer.List(t.Context(), "documents", alice); err != nil || slices.ContainsFunc(held, func(h issuer.Capability) bool { return h.ID == root.ID }) == c.root {
				t.Errorf("EXT-15 %s: listed %v, %v", name, held, err)
			}
			w.restart()
		}
		if _, err := narrow(); c.root && refusal(t, err) != issuer.CodeCapabilityRevoked {
			t.Errorf("EXT-15 %s: narrowed all the same: %v", name, err)
		}
		w.now = noon.Add(6 * time.Second)
		if again := w.read(alice); w.issuer.Dead(again) {
			t.Errorf("EXT-15 %s: what is issued afterwards is dead", name)
		}
	}
}

func num(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestEXT15_ChainsThatAreShown: nothing is revoked by a chain that does not hold,
// or by more than one name.
func TestEXT15_ChainsThatAreShown(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	root := w.read(alice)
	other := newTown(t)
	theirs := other.read(caller(t, "user:alice"))
	for name, target := range map[string]issuer.Target{
		"nothing":                  {},
		"an empty chain":           {Chain: []string{}},
		"no chain":                 {Chain: []string{"a.b.c"}},
		"another issuer's":         {Chain: []string{theirs.Token}},
		"an id and a chain":        {ID: root.ID, Chain: []string{root.Token}},
		"an id and a bulk":         {ID: root.ID, All: issuer.Bulk{Issuer: "documents"}},
		"two bulks":                {All: issuer.Bulk{Issuer: "documents", Principal: "user:alice"}},
		"an agent that is not one": {All: issuer.Bulk{Issuer: "nobody"}},
	} {
		_, err := w.issuer.RevokeAsOperator(t.Context(), "operator", target)
		var refused *issuer.TargetError
		if !errors.As(err, &refused) {
			t.Errorf("EXT-15 %s: %v", name, err)
		}
	}
	if n := w.issuer.RevocationSequence(); n != 0 {
		t.Errorf("EXT-15 %d events", n)
	}
	r, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{Chain: []string{root.Token}})
	if err != nil || r.Target != root.ID || !w.issuer.Dead(root) || r.Until.After(noon.Add(token.MaxLifetime/2)) {
		t.Errorf("EXT-15 by its token: %+v, %v", r, err)
	}
}

// TestATK142_ABulkRevocationEndsWhatHasALaterTime issues a capability by a clock that is ahead. An
// event of the server's own clock ends it, and nothing that is issued after its time.
func TestATK142_ABulkRevocationEndsWhatHasALaterTime(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	w.now = noon.Add(20 * time.Second)
	ahead := w.read(alice)
	w.now = noon
	for _, all := range []issuer.Bulk{{Principal: "user:bob"}, {Principal: "user:alice"}} {
		dying, err := w.issuer.Victims(t.Context(), issuer.Target{All: all}, 1)
		if want := num(all.Principal == "user:alice"); err != nil || dying.Count != want {
			t.Errorf("ATK-142 %v: %d would die, %v; want %d", all, dying.Count, err, want)
		}
		if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{All: all}); err != nil {
			t.Fatal(err)
		}
		if dead := w.issuer.Dead(ahead); dead != (all.Principal == "user:alice") {
			t.Errorf("ATK-142 %v: dead %t", all, dead)
		}
	}
	w.restart()
	w.now = noon.Add(21 * time.Second)
	if again := w.read(alice); !w.issuer.Dead(ahead) || w.issuer.Dead(again) {
		t.Errorf("ATK-142 after a restart: the old one dead %t, the new one %t", w.issuer.Dead(ahead), w.issuer.Dead(again))
	}
}
