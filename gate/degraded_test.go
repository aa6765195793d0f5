package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

var errDiskFull = fmt.Errorf("%w: disk full", evidence.ErrUnavailable)

// degraded is a town whose operator lets reads continue for a minute.
func degraded(t *testing.T) *town {
	w := newTown(t)
	w.target.Degraded = Degraded{Reads: true, For: time.Minute}
	return w
}

// reading is a call under a capability that is known to change nothing.
func (w *town) reading() *Call {
	w.t.Helper()
	c := w.present(w.call(Require, try(w.t, "read")), w.minted(clauses(w.t, "read")))
	c.Reads = true
	return c
}

// budgets is a ledger that keeps budgets beside its records, and as well.
type budgets struct{ *ledger }

func (b budgets) Spend(ctx context.Context, r evidence.Record, _ []Reservation) (evidence.Sealed, error) {
	return b.Record(ctx, r)
}

func (budgets) Settle(context.Context, string, bool) error { return nil }

// Only what the operator named continues without a record: allowed, known to change
// nothing, at this agent, while nothing can be written.
func TestEXT27_WhatGoesOnDegraded(t *testing.T) {
	for name, c := range map[string]struct {
		target func(*Target)
		call   func(*Call)
		broken error
		goesOn bool
	}{
		"a read":                    {goesOn: true},
		"a write":                   {call: func(c *Call) { c.Reads = false }},
		"a read that is not chosen": {target: func(t *Target) { t.Degraded.Reads = false }},
		"an agent without it":       {target: func(t *Target) { t.Degraded = Degraded{} }},
		"what is not allowed":       {call: func(c *Call) { c.Presented = nil }},
		"a record that is refused":  {broken: errors.New("the record is too large")},
		"what a budget counts":      {call: func(c *Call) { c.Presented = []Presented{{Reference: "cap_1"}} }},
	} {
		w := degraded(t)
		w.gate.Recorder = budgets{w.ledger}
		w.records["cap_1"] = Held{
			Capability: "cap_1", Root: "cap_1", Holder: "key:x", Authority: authority(t, "read", "a2a.message"),
			Accounts: []Account{{Of: "cap_1", Budgets: Budgets{Uses: 9}}},
		}
		if c.target != nil {
			c.target(&w.target)
		}
		call := w.reading()
		if c.call != nil {
			c.call(call)
		}
		if w.ledger.broken = c.broken; c.broken == nil {
			w.ledger.broken = errDiskFull
		}
		v, err := w.gate.Check(t.Context(), call)
		total, untold := w.gate.Unrecorded()
		if v.Allowed != c.goesOn || (err == nil) != c.goesOn || (total == 1) != c.goesOn || len(untold) != int(total) {
			t.Errorf("%s: %+v, %v, %d without a record", name, v.Allowed, err, total)
		}
		if err != nil && !errors.Is(err, evidence.ErrNotWritten) {
			t.Errorf("%s: %v", name, err)
		}
		if logged := strings.Contains(w.log.String(), "by=agents.degraded"); logged != c.goesOn {
			t.Errorf("%s: the log says\n%s", name, w.log)
		}
	}
}

// It ends when its time is over, and begins anew once the gap is on record.
func TestEXT27_DegradedIsForATime(t *testing.T) {
	w := degraded(t)
	w.ledger.broken = errDiskFull
	goes := func() bool {
		v, _ := w.gate.Check(t.Context(), w.reading())
		return v.Allowed
	}
	for _, step := range []struct {
		after  time.Duration
		goesOn bool
	}{{0, true}, {30 * time.Second, true}, {time.Minute, true}, {time.Minute + time.Nanosecond, false}, {59 * time.Minute, false}} {
		w.now = at.Add(step.after)
		if goes() != step.goesOn {
			t.Errorf("after %s it goes on: %t", step.after, !step.goesOn)
		}
	}
	w.ledger.broken = nil
	if err := w.gate.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := w.ledger.sealed[0].Record()
	want := fmt.Sprintf(`{"calls":3,"from":"%s","until":"%s"}`, at.UTC().Format(time.RFC3339), at.Add(time.Minute).UTC().Format(time.RFC3339))
	if got.ActionType != evidence.ActionGap || got.Decision != evidence.Abstain || got.AgentID != w.target.ID || string(got.Intent.Details) != want {
		t.Errorf("the gap is recorded as %+v, want %s", got, want)
	}
	w.ledger.broken = errDiskFull
	if !goes() {
		t.Error("another gap does not begin")
	}
}

// The gap comes before the record of the next call, and is told once.
func TestEXT27_AGapIsToldFirst(t *testing.T) {
	w := degraded(t)
	w.ledger.broken = errDiskFull
	v := w.check(w.reading())
	if err := w.gate.Outcome(t.Context(), v, evidence.Achieved, nil); err != nil {
		t.Errorf("the outcome of a call without a record: %v", err)
	}
	if err := w.gate.Settle(t.Context()); !errors.Is(err, evidence.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	w.ledger.broken = nil
	w.check(w.reading())
	w.check(w.reading())
	var actions []string
	for _, s := range w.ledger.sealed {
		actions = append(actions, s.Record().ActionType)
	}
	if got := strings.Join(actions, " "); got != evidence.ActionGap+" a2a.SendMessage a2a.SendMessage" {
		t.Errorf("on record are %s", got)
	}
	w.gate.NewID = func() (string, error) { return "", errors.New("no randomness") }
	if err := w.gate.Settle(t.Context()); err != nil {
		t.Errorf("there is nothing to settle: %v", err)
	}
}

// Calls that continue while the gap is written are in the next one.
func TestEXT27_NoCallIsLostBetweenGaps(t *testing.T) {
	w := degraded(t)
	w.ledger.broken = errDiskFull
	w.check(w.reading())
	during := &meanwhile{ledger: w.ledger}
	w.gate.Recorder = during
	during.then = func() {
		w.gate.Recorder = w.ledger
		w.check(w.reading())
		w.ledger.broken = nil
		if err := w.gate.Settle(t.Context()); err != nil || len(w.ledger.sealed) != 0 {
			t.Errorf("a gap is told twice at once: %v", err)
		}
	}
	if err := w.gate.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, untold := w.gate.Unrecorded(); untold[w.target.ID] != 1 {
		t.Errorf("left are %v", untold)
	}
	if err := w.gate.Settle(t.Context()); err != nil || len(w.ledger.sealed) != 2 {
		t.Errorf("%v, %d records", err, len(w.ledger.sealed))
	}
}

// meanwhile has something happen while a record is written.
type meanwhile struct {
	ledger *ledger
	then   func()
}

func (m *meanwhile) Record(ctx context.Context, r evidence.Record) (evidence.Sealed, error) {
	m.then()
	return m.ledger.Record(ctx, r)
}
