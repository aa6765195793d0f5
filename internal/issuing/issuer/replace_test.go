package issuer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// TestReplaceEndsTheWiderAndPutsTheNarrower: one commit ends a capability with its children,
// and makes one with some of its operations for the same holder, who finds it in the list.
func TestReplaceEndsTheWiderAndPutsTheNarrower(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	old := w.read(alice)
	child, err := w.issuer.Narrow(t.Context(), "documents", alice, old.ID, issuer.Narrowing{Operations: []string{"search"}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.issuer.ReplaceAsOperator(t.Context(), "user:carol", old.ID, []string{"retrieve"})
	if err != nil {
		t.Fatal(err)
	}
	c := n.New
	if diff := cmp.Diff([]string{"retrieve"}, c.Operations()); diff != "" || c.Holder != old.Holder || !c.Expires.Equal(old.Expires) || c.Token == "" || c.Root != c.ID || len(c.Handles) != len(old.Handles) {
		t.Errorf("the narrower one is %+v\n%s", c, diff)
	}
	op, _ := powerbox.ParseOperation("documents/read/retrieve")
	shape, _ := c.Authority.Shape(op)
	field, _ := shape.Field("handle")
	if !field.Constraint.Admits(powerbox.String(c.Handles[0].Handle)) || field.Constraint.Admits(powerbox.String(old.Handles[0].Handle)) {
		t.Errorf("it admits %s; want its own handles alone", field.Constraint.JSON())
	}
	if !w.issuer.Dead(old) || !w.issuer.Dead(child) || w.issuer.Dead(c) {
		t.Errorf("ended: the old one %t, its child %t, the new one %t; want true, true, false", w.issuer.Dead(old), w.issuer.Dead(child), w.issuer.Dead(c))
	}
	held, err := w.issuer.List(t.Context(), "documents", alice)
	if err != nil || len(held) != 1 || held[0].ID != c.ID {
		t.Errorf("its holder is shown %v, %v; want %s", held, err, c.ID)
	}
	if r := w.last(); r.ActionType != "operator.narrow" || r.Details.Requester != "user:carol" || r.Details.Capability != c.ID {
		t.Errorf("recorded as %+v", r)
	}
}

// TestReplaceRefuses what would be wider, the same, nothing, or a reset of a budget; the
// capability stays as it was.
func TestReplaceRefuses(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	old := w.read(alice)
	child, err := w.issuer.Narrow(t.Context(), "documents", alice, old.ID, issuer.Narrowing{Operations: []string{"search"}})
	if err != nil {
		t.Fatal(err)
	}
	given, no, err := w.issuer.Give(t.Context(), gift(t, alice))
	if no != nil || err != nil {
		t.Fatal(no, err)
	}
	w.agent.Grants[0].Budgets.Uses = 5
	budgeted := w.read(caller(t, "user:alice"))
	for name, c := range map[string]struct {
		id   string
		keep []string
		says string
	}{
		"an operation that it has not": {old.ID, []string{"retrieve", "delete"}, `has no operation "delete"`},
		"all of it":                    {old.ID, []string{"retrieve", "search", "search"}, "and not all"},
		"nothing":                      {old.ID, nil, "name some of"},
		"a child":                      {child.ID, []string{"search"}, "was narrowed from"},
		"one with a budget":            {budgeted.ID, []string{"search"}, "has a budget"},
		"one that an operator gave":    {given.ID, []string{"fix"}, "has a budget"},
	} {
		var no *issuer.TargetError
		if _, err := w.issuer.ReplaceAsOperator(t.Context(), "operator", c.id, c.keep); !errors.As(err, &no) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want a refusal with %q", name, err, c.says)
		}
	}
	if w.issuer.Dead(old) || w.issuer.Dead(child) || w.issuer.Dead(given) || w.issuer.Dead(budgeted) {
		t.Error("a refused change ended a capability")
	}
	if _, err := w.issuer.ReplaceAsOperator(t.Context(), "operator", "cap_none", []string{"x"}); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

// full is a store whose disk is full when a capability is put.
type full struct{ issuer.Store }

type fullTx struct{ issuer.Tx }

func (fullTx) PutCapability(issuer.Capability) error { return errors.New("the disk is full") }

func (f full) Update(ctx context.Context, do func(issuer.Tx) error) error {
	return f.Store.Update(ctx, func(tx issuer.Tx) error { return do(fullTx{tx}) })
}

// TestReplaceIsNeverHalfDone: where the narrower one cannot be stored, the wider one stays.
func TestReplaceIsNeverHalfDone(t *testing.T) {
	w := newTown(t)
	old := w.read(caller(t, "user:alice"))
	w.config.Store = full{w.store}
	w.restart()
	if _, err := w.issuer.ReplaceAsOperator(t.Context(), "operator", old.ID, []string{"retrieve"}); err == nil {
		t.Error("it was replaced")
	}
	w.config.Store = w.store
	w.restart()
	if w.issuer.Dead(old) {
		t.Error("the wider one ended, and no narrower one is there")
	}
}

// TestKeepIsOnRecord: a look at a capability is a record of the operator, with a reason.
func TestKeepIsOnRecord(t *testing.T) {
	w := newTown(t)
	c := w.read(caller(t, "user:alice"))
	if err := w.issuer.KeepAsOperator(t.Context(), "user:carol", c.ID, " "); err == nil {
		t.Error("it is kept without a reason")
	}
	if err := w.issuer.KeepAsOperator(t.Context(), "user:carol", c.ID, "quarterly report"); err != nil {
		t.Fatal(err)
	}
	if r := w.last(); r.ActionType != "operator.keep" || r.Details.Requester != "user:carol" || r.Details.Capability != c.ID || r.Intent.Purpose != "quarterly report" {
		t.Errorf("recorded as %+v", r)
	}
	if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: c.ID}); err != nil {
		t.Fatal(err)
	}
	if err := w.issuer.KeepAsOperator(t.Context(), "user:carol", c.ID, "quarterly report"); err == nil {
		t.Error("one that has ended is kept")
	}
}
