package gate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// gated is a ledger that writes outcomes when it is told.
type gated struct {
	budgets
	open chan struct{}
	lazy chan bool
}

func (g gated) Record(ctx context.Context, r evidence.Record) (evidence.Sealed, error) {
	if r.IsOutcome() {
		g.lazy <- IsLazy(ctx)
		<-g.open
	}
	return g.ledger.Record(ctx, r)
}

// followed is a town that records outcomes behind answers, and its recorder.
func followed(t *testing.T) (*town, gated) {
	w := newTown(t)
	r := gated{budgets{w.ledger}, make(chan struct{}), make(chan bool, 9)}
	w.gate.Recorder, w.gate.Behind = r, &Behind{}
	w.records["cap_1"] = Held{
		Capability: "cap_1", Root: "cap_1", Holder: "key:x", Authority: authority(t, "read", "a2a.message"),
		Accounts: []Account{{Of: "cap_1", Budgets: Budgets{Uses: 9}}},
	}
	return w, r
}

// Only the outcome of a call that changes nothing follows its answer, where the operator
// chose so and the caller gets no proof of it.
func TestATK75_WhichOutcomesFollowTheirAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		gate    func(*Gate)
		call    func(*Call)
		follows bool
	}{
		"a read":                       {follows: true},
		"a read in observe":            {call: func(c *Call) { c.Mode = Observe }, follows: true},
		"a write":                      {call: func(c *Call) { c.Reads = false }},
		"a read with a receipt":        {call: func(c *Call) { c.Behind = false }},
		"what a budget counts":         {call: func(c *Call) { c.Presented, c.Caller.Holder = []Presented{{Reference: "cap_1"}}, "key:x" }},
		"a read that is not chosen":    {gate: func(g *Gate) { g.Behind = nil }},
		"a read while the gate closes": {gate: func(g *Gate) { g.Behind.End() }},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := followed(t)
			call := w.reading()
			call.Behind = true
			if c.call != nil {
				c.call(call)
			}
			if c.gate != nil {
				c.gate(w.gate)
			}
			v := w.check(call)
			if !v.Allowed {
				t.Fatalf("the call is denied: %v", codes(v))
			}
			if !c.follows {
				close(r.open)
			}
			id, err := w.gate.Conclude(t.Context(), v, evidence.Achieved, nil)
			if err != nil || (id == "") != c.follows {
				t.Errorf("Conclude returned %q, %v", id, err)
			}
			if lazy := <-r.lazy; lazy != c.follows {
				t.Errorf("the recorder may wait for others: %t", lazy)
			}
			if c.follows {
				if n := len(w.ledger.sealed); n != 1 {
					t.Errorf("%d records before the outcome is written; want the decision", n)
				}
				close(r.open)
			}
			w.gate.Behind.End() // returns when the outcome is on record
			if n := len(w.ledger.sealed); n != 2 || !w.ledger.sealed[1].Record().IsOutcome() {
				t.Errorf("%d records; want the decision and its outcome", n)
			}
		})
	}
}

// Further answers wait when too many outcomes are on their way.
func TestATK75_OutcomesBehindAnswersAreBounded(t *testing.T) {
	w, r := followed(t)
	for range maxBehind {
		if !w.gate.Behind.begin() {
			t.Fatal("it is bounded too early")
		}
	}
	call := w.reading()
	call.Behind = true
	close(r.open)
	if id, err := w.gate.Conclude(t.Context(), w.check(call), evidence.Achieved, nil); err != nil || id == "" {
		t.Errorf("Conclude returned %q, %v; want the record of an outcome that was waited for", id, err)
	}
}

// An outcome that cannot be written behind its answer is in the log, and the decision
// stands without it.
func TestATK75_AnOutcomeThatFailsBehindItsAnswerIsLogged(t *testing.T) {
	w, r := followed(t)
	call := w.reading()
	call.Behind = true
	v := w.check(call)
	if id, err := w.gate.Conclude(t.Context(), v, evidence.Achieved, nil); err != nil || id != "" {
		t.Fatalf("Conclude returned %q, %v", id, err)
	}
	<-r.lazy
	w.ledger.broken = errors.New("the disk is gone")
	close(r.open)
	w.gate.Behind.End()
	if n := len(w.ledger.sealed); n != 1 || w.ledger.sealed[0].Record().OutcomeStatus != evidence.Pending {
		t.Errorf("%d records; want the decision, whose outcome is pending", n)
	}
	if log := w.log.String(); !strings.Contains(log, "the disk is gone") || !strings.Contains(log, v.Record.ID) {
		t.Errorf("the log says\n%s", log)
	}
}
