package gate

import (
	"context"
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// once is what a person gave for one request.
func (w *town) once(digest string) {
	w.t.Helper()
	w.gate.References = onRecord{"cap_once": Held{
		Capability: "cap_once", Root: "cap_once", Holder: "key:" + w.holder.Public().Thumbprint(), Authority: authority(w.t, "a2a.message"), Digest: digest,
	}}
}

// GATE-3: a call that needs a person's approval waits even if a grant allows it,
// on record as ABSTAIN, and continues under the approval.
func TestGATE3_WaitsForAPerson(t *testing.T) {
	w := newTown(t)
	call := w.call(Require, try(t, "a2a.message"))
	call.Approval, call.Bound = true, "the very call"
	w.once("")
	call.Presented = []Presented{{Reference: "cap_once"}}
	v := w.check(call)
	if v.Allowed || !v.Waits || !slices.Equal(codes(v), []string{CodeApproval}) || v.Record.Decision != evidence.Abstain || v.Record.OutcomeStatus != "" {
		t.Errorf("GATE-3 under a capability for any request: %+v, recorded %s %s", codes(v), v.Record.Decision, v.Record.OutcomeStatus)
	}
	if v.Under.IsEmpty() || v.Digest() != call.Bound || len(v.Required()) != 1 {
		t.Errorf("GATE-3 what it would go on under is not told: %v", v.Under.Names())
	}
	w.once(call.Bound)
	if v := w.check(call); v.Allowed || !slices.Contains(codes(v), codeOtherRequest) {
		t.Errorf("ATK-58 the caller itself presents what was given for it: %v", codes(v))
	}
	call.Released = true
	if v := w.check(call); !v.Allowed || v.Waits {
		t.Errorf("GATE-3 under what was given for it: %v", codes(v))
	}
	call.Mode = Observe
	w.once("")
	if v := w.check(call); !v.Allowed || v.Waits {
		t.Errorf("GATE-3 in observe: %v", codes(v))
	}
}

// ATK-46: an approval of one request is useless for another.
func TestATK46_OneRequest(t *testing.T) {
	w := newTown(t)
	call := w.call(Require, try(t, "a2a.message"))
	call.Approval, call.Presented = true, []Presented{{Reference: "cap_once"}}
	w.once("of other bytes")
	if v := w.check(call); v.Allowed || v.Waits || !slices.Contains(codes(v), codeOtherRequest) {
		t.Errorf("ATK-46 another request: %v", codes(v))
	}
}

// counting is a recorder that keeps budgets, and notes the amounts taken.
type counting struct {
	*ledger
	taken []Reservation
}

func (c *counting) Spend(ctx context.Context, r evidence.Record, take []Reservation) (evidence.Sealed, error) {
	c.taken = append(c.taken, take...)
	return c.Record(ctx, r)
}

func (c *counting) Settle(context.Context, string, bool) error { return nil }

// ATK-46: a request uses up its approval, for requests of every kind.
func TestATK46_OneRequestIsOneUse(t *testing.T) {
	w := newTown(t)
	kept := &counting{ledger: w.ledger}
	w.gate.Recorder = kept
	call := w.call(Require, try(t, "a2a.message"))
	call.Presented = []Presented{{Reference: "cap_once"}}
	call.Bound, call.Released = "the very call", true
	for digest, want := range map[string]int{"": 0, call.Bound: 1} {
		w.once(digest)
		held := w.gate.References.(onRecord)["cap_once"]
		held.Accounts = []Account{{Of: "cap_once", Budgets: Budgets{Uses: 1}}}
		w.gate.References, kept.taken = onRecord{"cap_once": held}, nil
		if v := w.check(call); !v.Allowed || len(kept.taken) != want {
			t.Errorf("ATK-46 for the digest %q: %v, %d uses; want %d", digest, codes(v), len(kept.taken), want)
		}
	}
}

// ATK-42: a capability with a budget is refused if no recorder keeps budgets.
func TestATK42_BudgetElsewhere(t *testing.T) {
	w := newTown(t)
	call := w.call(Require, try(t, "a2a.message"))
	call.Free.Any, call.Presented = true, []Presented{{Reference: "cap_once"}}
	w.once("")
	held := w.gate.References.(onRecord)["cap_once"]
	held.Accounts = []Account{{Of: "cap_once", Budgets: Budgets{Uses: 1}}}
	w.gate.References = onRecord{"cap_once": held}
	if v := w.check(call); v.Allowed || !slices.Equal(codes(v), []string{codeBudgetElsewhere}) {
		t.Errorf("ATK-42 at a gate that keeps no budgets: %v", codes(v))
	}
}
