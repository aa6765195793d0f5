package issuer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// gift is a grant of one fix to alice's orchestrator.
func gift(t *testing.T, c identity.Caller) issuer.Gift {
	t.Helper()
	shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: "title", Constraint: powerbox.ExactValue{Value: powerbox.String("Report")}, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	return issuer.Gift{
		Agent: "documents", Operation: "documents/fixed/fix", Caller: c.Agent, Holder: c.Holder.ID, Principal: c.Principal,
		Limits: shape, Uses: 1, Until: noon.Add(30 * time.Minute), Record: "rec_1", By: "user:carol",
	}
}

// TestGiftIsExact: a grant of an operator is for the named operation with the limits, once,
// until its end. It is on record under the operator's name, and its holder cannot present it,
// see it, or hand it on.
func TestGiftIsExact(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	g := gift(t, alice)
	c, no, err := w.issuer.Give(t.Context(), g)
	if no != nil || err != nil {
		t.Fatal(no, err)
	}
	op, _ := powerbox.ParseOperation(g.Operation)
	shape, _ := c.Authority.Shape(op)
	if diff := cmp.Diff([]string{"fix"}, c.Operations()); diff != "" || !shape.Equal(g.Limits) || c.Budgets.Uses != 1 || !c.Expires.Equal(g.Until) || c.Token != "" || c.Authority.Depth() != 0 {
		t.Errorf("gave %+v, with %v", c, shape.JSON())
	}
	r := w.last()
	if r.Details.Requester != "user:carol" || r.ActionType != "operator.grant" || r.Decision != evidence.Allow || r.Details.Capability != c.ID {
		t.Errorf("recorded as %+v", r)
	}
	if held, err := w.issuer.List(t.Context(), "documents", alice); err != nil || len(held) != 0 {
		t.Errorf("its holder is shown %v, %v; want nothing", held, err)
	}
	if one, err := w.issuer.Presentable(t.Context(), c.ID); err != nil || one.ID != "" {
		t.Errorf("its holder can present %v, %v", one.ID, err)
	}
	if _, err := w.issuer.Narrow(t.Context(), "documents", alice, c.ID, issuer.Narrowing{}); refusal(t, err) != issuer.CodeCapabilityUnknown {
		t.Errorf("its holder narrows it: %v", err)
	}
}

// TestGiftIsWithinPolicyAndOffer refuses what policy does not allow, what it leaves to people,
// what takes the handle of a resource, and frozen or missing operations.
func TestGiftIsWithinPolicyAndOffer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*town, *issuer.Gift)
		want   issuer.Code
	}{
		"policy":           {func(_ *town, g *issuer.Gift) { g.Principal = "user:bob" }, issuer.CodeNothingGranted},
		"a handle":         {func(_ *town, g *issuer.Gift) { g.Operation = "documents/read/retrieve" }, issuer.CodeNothingGranted},
		"a legacy grant":   {func(_ *town, g *issuer.Gift) { g.Operation = "documents/admin/archive" }, issuer.CodeLegacyNotAllowed},
		"not offered":      {func(_ *town, g *issuer.Gift) { g.Operation = "documents/fixed/other" }, issuer.CodeGrantUnknown},
		"another agent":    {func(_ *town, g *issuer.Gift) { g.Agent = "mail" }, issuer.CodeAgentUnknown},
		"no use":           {func(_ *town, g *issuer.Gift) { g.Uses = 0 }, issuer.CodeNothingGranted},
		"too many uses":    {func(_ *town, g *issuer.Gift) { g.Uses = issuer.MaxUses + 1 }, issuer.CodeNothingGranted},
		"an end that past": {func(_ *town, g *issuer.Gift) { g.Until = noon }, issuer.CodeExpiryInvalid},
		"no user":          {func(_ *town, g *issuer.Gift) { g.Principal = "" }, issuer.CodeUnauthenticated},
		"no holder":        {func(_ *town, g *issuer.Gift) { g.Holder = "" }, issuer.CodeHolderUnknown},
		"a frozen caller": {func(w *town, g *issuer.Gift) {
			if _, err := w.issuer.Freeze(t.Context(), "operator", g.Holder, "test"); err != nil {
				t.Fatal(err)
			}
		}, issuer.CodeFrozen},
		"left to people": {func(w *town, _ *issuer.Gift) {
			p := w.rules("people")
			p.allow["user:alice fix agent"] = issuer.Ruling{Allow: true, Approval: "finance"}
			w.config.Policy = p
			w.restart()
		}, issuer.CodeApprovalRequired},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			g := gift(t, caller(t, "user:alice"))
			c.change(w, &g)
			before := w.last().ID
			_, refusal, err := w.issuer.Give(t.Context(), g)
			if err != nil || refusal == nil || refusal.Code != c.want {
				t.Errorf("gives with %v, %v; want %s", refusal, err, c.want)
			}
			if name == "policy" && !strings.Contains(refusal.Error(), "policy does not allow") { // not that nothing was left
				t.Errorf("the policy's no is %q", refusal.Error())
			}
			if w.last().ID != before {
				t.Errorf("a refused grant is on record as %+v", w.last())
			}
		})
	}
}

// TestGiftEndsWithTheMaximum: the issuer's longest lifetime holds for grants of operators.
func TestGiftEndsWithTheMaximum(t *testing.T) {
	w := newTown(t)
	g := gift(t, caller(t, "user:alice"))
	g.Until = noon.Add(48 * time.Hour)
	c, refusal, err := w.issuer.Prepare(t.Context(), g)
	if refusal != nil || err != nil || !c.Expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("ends at %v, %v, %v; want after an hour", c.Expires, refusal, err)
	}
}

// TestGivenToAsksThePolicyAboutTheSession: the groups of the session can be others than those
// that the operator saw, and a user's frozen or revoked grants are none.
func TestGivenToAsksThePolicyAboutTheSession(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c, refusal, err := w.issuer.Give(t.Context(), gift(t, alice))
	if refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	op, _ := powerbox.ParseOperation("documents/fixed/fix")
	given := func(who identity.Caller) int {
		t.Helper()
		all, err := w.issuer.GivenTo(t.Context(), "documents", who, op)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	bob, other := alice, alice
	bob.Principal, other.Holder.ID = "user:bob", "key:other"
	if given(alice) != 1 || given(bob) != 0 || given(other) != 0 {
		t.Errorf("given to alice %d, bob %d, another holder %d; want 1, 0, 0", given(alice), given(bob), given(other))
	}
	p := w.rules("groups")
	p.group = "finance"
	w.config.Policy = p
	w.restart()
	outside := alice
	outside.Groups = nil
	if given(alice) != 1 || given(outside) != 0 {
		t.Errorf("given with the group %d, without it %d; want 1, 0", given(alice), given(outside))
	}
	if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	if given(alice) != 0 {
		t.Error("a revoked grant is given still")
	}
}
