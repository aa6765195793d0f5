package gate

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
)

// slowDisk has something happen while a record waits for the disk.
type slowDisk struct {
	*ledger
	meanwhile func()
}

func (s slowDisk) Record(ctx context.Context, r evidence.Record) (evidence.Sealed, error) {
	sealed, err := s.ledger.Record(ctx, r)
	if r.Details.OutcomeOf == "" {
		s.meanwhile()
	}
	return sealed, err
}

// TestATK171_WhatEndedWhileItsRecordWaited has what a verdict rests on end while its record waits:
// here, at another node, or so that nothing can be told. The call is denied, and its outcome says so.
func TestATK171_WhatEndedWhileItsRecordWaited(t *testing.T) {
	for name, c := range map[string]struct {
		mode      Mode
		meanwhile func(*town)
		current   func(*town) error
		want      []string
	}{
		"revoked here":          {Require, func(w *town) { w.revoked["cap_1"] = true }, nil, []string{CodeRevoked}},
		"frozen here":           {Require, func(w *town) { w.revoked["frozen pw_alice"] = true }, nil, []string{CodeFrozen}},
		"frozen, observed":      {Observe, func(w *town) { w.revoked["frozen pw_alice"] = true }, nil, []string{CodeFrozen}},
		"revoked elsewhere":     {Require, nil, func(w *town) error { w.revoked["cap_1"] = true; return nil }, []string{CodeRevoked}},
		"others do not tell":    {Require, nil, func(*town) error { return errors.New("no answer") }, []string{CodeStale}},
		"stale, observed":       {Observe, nil, func(*town) error { return errors.New("no answer") }, nil},
		"nothing happens":       {Require, nil, func(*town) error { return nil }, nil},
		"another one's revoked": {Require, func(w *town) { w.revoked["cap_9"] = true }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			w.gate.Recorder = slowDisk{w.ledger, func() {
				if c.meanwhile != nil {
					c.meanwhile(w)
				}
			}}
			if c.current != nil {
				w.gate.Current = func(context.Context) error { return c.current(w) }
			}
			call := w.call(c.mode, try(t, "read"))
			if c.mode == Require {
				w.present(call, w.minted(clauses(t, "read")))
			}
			v := w.check(call)
			if v.Allowed != (c.want == nil) || v.TakenBack() != (c.want != nil) || c.want != nil && !cmp.Equal(codes(v), c.want) {
				t.Fatalf("ATK-171: allowed %t, taken back %t, %v; want %v", v.Allowed, v.TakenBack(), codes(v), c.want)
			}
			if c.mode == Observe {
				return // an observed call has no outcome
			}
			last := w.ledger.sealed[len(w.ledger.sealed)-1].Record()
			if c.want == nil {
				if len(w.ledger.sealed) != 1 {
					t.Errorf("there are %d records", len(w.ledger.sealed))
				}
				return
			}
			if last.Details.OutcomeOf != v.Record.ID || last.OutcomeStatus != evidence.Failed {
				t.Errorf("ATK-171: the last record is %+v; want the outcome of %s", last, v.Record.ID)
			}
			if err := w.gate.Outcome(t.Context(), v, evidence.Achieved, nil); err != nil || len(w.ledger.sealed) != 2 {
				t.Errorf("ATK-171: a second outcome: %v, %d records", err, len(w.ledger.sealed))
			}
		})
	}
}

// Where the outcome cannot be written either, the call is not answered with a denial on record.
func TestATK171_AnOutcomeThatCannotBeWritten(t *testing.T) {
	w := newTown(t)
	w.gate.Recorder = slowDisk{w.ledger, func() { w.revoked["cap_1"] = true; w.ledger.broken = errors.New("the disk is full") }}
	v, err := w.gate.Check(t.Context(), w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read"))))
	if v.Allowed || !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("ATK-171: allowed %t, %v", v.Allowed, err)
	}
}
