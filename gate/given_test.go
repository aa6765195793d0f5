package gate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// gift is what an operator gave the caller of town: search with one handle.
func (w *town) gift(t *testing.T) Held {
	t.Helper()
	return Held{
		Capability: "cap_given", OnRecord: "cap_given", Root: "cap_given", Links: []string{"cap_given"}, Principal: "pw_alice", Holder: "key:" + w.holder.Public().Thumbprint(),
		Authority: authority(t, "search=h1", "a2a.message"),
	}
}

// TestGivenIsForCallsThatPresentNothing: a grant of an operator allows exactly its call, of
// a caller with a user, that presents nothing. Any other call is denied as without it.
func TestGivenIsForCallsThatPresentNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*town, *Call, *Held)
		want   string // code of the first reason, "" for allowed
		asked  bool
	}{
		"the call":          {func(*town, *Call, *Held) {}, "", true},
		"another argument":  {func(w *town, c *Call, _ *Held) { c.Attempts[0] = try(w.t, "search", handle("h2")) }, CodeCapabilityRequired, true},
		"another operation": {func(w *town, c *Call, _ *Held) { c.Attempts[0] = try(w.t, "read", handle("h1")) }, CodeCapabilityRequired, true},
		"another holder's":  {func(_ *town, _ *Call, h *Held) { h.Holder = "key:other" }, CodeCapabilityRequired, true},
		"revoked":           {func(w *town, _ *Call, _ *Held) { w.revoked["cap_given"] = true }, CodeCapabilityRequired, true},
		"frozen caller":     {func(w *town, _ *Call, _ *Held) { w.revoked["frozen pw_alice"] = true }, CodeFrozen, false},
		"no user":           {func(_ *town, c *Call, _ *Held) { c.Caller.Principal = "" }, CodeCapabilityRequired, false},
		"no holder":         {func(_ *town, c *Call, h *Held) { c.Caller.Holder, h.Holder = "", "" }, CodeCapabilityRequired, false},
		"a capability that does not suffice": {func(w *town, c *Call, _ *Held) {
			w.present(c, w.minted(clauses(w.t, "read", "a2a.message")))
		}, "operation_not_granted", false},
		"observe": {func(_ *town, c *Call, _ *Held) { c.Mode = Observe }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			held, asked := w.gift(t), false
			call := w.call(Require, try(t, "search", handle("h1")), try(t, "a2a.message"))
			c.change(w, call, &held)
			call.Ask.Given = func(context.Context) ([]Held, error) { asked = true; return []Held{held}, nil }
			v := w.check(call)
			if v.Allowed != (c.want == "") || asked != c.asked {
				t.Errorf("allowed %t with %v, grants asked for: %t; want reason %q, %t", v.Allowed, codes(v), asked, c.want, c.asked)
			}
			if c.want != "" && (len(v.Reasons) == 0 || codes(v)[0] != c.want) {
				t.Errorf("denied for %v; want %s", codes(v), c.want)
			}
		})
	}
}

// TestGivenThatCannotBeReadGivesNothing: without an answer the denial stays.
func TestGivenThatCannotBeReadGivesNothing(t *testing.T) {
	w := newTown(t)
	call := w.call(Require, try(t, "search", handle("h1")), try(t, "a2a.message"))
	held := w.gift(t)
	call.Ask.Given = func(context.Context) ([]Held, error) { return []Held{held}, errors.New("the store is gone") }
	if v := w.check(call); v.Allowed || !slices.Equal(codes(v), []string{CodeCapabilityRequired}) {
		t.Errorf("allowed %t with %v; want capability_required", v.Allowed, codes(v))
	}
}

// used is a recorder whose budgets are used up.
type used struct{ *ledger }

func (used) Spend(context.Context, evidence.Record, []Reservation) (evidence.Sealed, error) {
	return evidence.Sealed{}, ErrSpent
}

func (used) Settle(context.Context, string, bool) error { return nil }

// TestGivenThatIsUsedUpLeavesTheDenial: a call after the last use is denied and recorded as
// one without a grant, and counts among the denials of its caller.
func TestGivenThatIsUsedUpLeavesTheDenial(t *testing.T) {
	w := newTown(t)
	w.gate.Recorder = used{w.ledger}
	held := w.gift(t)
	held.Accounts = []Account{{Of: "cap_given", Budgets: Budgets{Uses: 1}}}
	call := w.call(Require, try(t, "search", handle("h1")), try(t, "a2a.message"))
	counted := 0
	call.Ask.Given = func(context.Context) ([]Held, error) { return []Held{held}, nil }
	call.Ask.Denied = func(Verdict) (*evidence.Reason, bool) { counted++; return nil, true }
	v := w.check(call)
	if v.Allowed || !slices.Equal(codes(v), []string{CodeCapabilityRequired}) || v.Record.Details.Capability != "" || v.Record.Decision != evidence.Deny {
		t.Errorf("allowed %t with %v, recorded as %+v; want the denial without a grant", v.Allowed, codes(v), v.Record)
	}
	if counted != 1 {
		t.Errorf("the denial was counted %d times; want 1", counted)
	}
}
