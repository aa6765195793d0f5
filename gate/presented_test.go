package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// A chain without a proof, and a proof without a chain, are never read as a reference.
func TestSEP11_HalfOfAPresentationIsRefused(t *testing.T) {
	for name, foreign := range map[string]map[string]token.KeySet{
		"own keys alone":    nil,
		"with foreign keys": {"https://partner.example/agents/mail": token.NewKeySet(key(t, "other").Public())},
	} {
		w := newTown(t)
		w.target.Foreign = foreign
		whole := w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read"))).Presented[0]
		for half, presented := range map[string]Presented{
			"a chain alone": {Chain: whole.Chain},
			"a proof alone": {Proof: whole.Proof},
		} {
			call := w.call(Require, try(t, "read"))
			call.Presented = []Presented{presented}
			v := w.check(call)
			if v.Allowed || len(v.Reasons) != 1 || v.Reasons[0].Code == CodeCapabilityUnknown {
				t.Errorf("%s, %s: allowed %t, %v", name, half, v.Allowed, codes(v))
			}
		}
	}
}

// Free text that policy admits without a capability is held to the same rule as under one.
func TestGATE5_FreeTextUnderPolicy(t *testing.T) {
	for _, c := range []struct {
		name    string
		allowed string
		free    bool
		change  func(*Target)
		want    []string
	}{
		{"constrained", "read=h1", true, func(*Target) {}, []string{CodeMessageNotBound}},
		{"unconstrained", "read", true, func(*Target) {}, nil},
		{"constrained, enforced behind", "read=h1", true, func(t *Target) { t.EnforcesContext = true }, nil},
		{"constrained, unsafe", "read=h1", true, func(t *Target) { t.AdmitFreeText = true }, nil},
		{"constrained, but no free text", "read=h1", false, func(*Target) {}, nil},
	} {
		w := newTown(t)
		c.change(&w.target)
		call := w.call(Require, powerbox.Admission(operations(t, "read")...), try(t, "a2a.message"))
		call.Free.Any = c.free
		call.ByPolicy = func() (powerbox.Authority, error) { return authority(t, c.allowed, "a2a.message"), nil }
		v := w.check(call)
		if diff := cmp.Diff(c.want, codes(v)); diff != "" || v.Allowed != (c.want == nil) {
			t.Errorf("%s: allowed %t (-want +got):\n%s", c.name, v.Allowed, diff)
		}
	}
}

// Operations that are missing are named once each, in order, so that a caller can ask for them.
func TestMissingOperationsAreSorted(t *testing.T) {
	w := newTown(t)
	v := w.check(w.call(Require, try(t, "search"), try(t, "read"), try(t, "search")))
	if diff := cmp.Diff([]string{"read", "search"}, v.Missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

// A verdict that no call led to answers its questions with nothing.
func TestVerdictOfNoCall(t *testing.T) {
	if d := (Verdict{}).Digest(); d != "" {
		t.Errorf("digest %q", d)
	}
	if r := (Verdict{}).Required(); r != nil {
		t.Errorf("required %v", r)
	}
}
