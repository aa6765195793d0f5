package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// Budgets bound what a capability is good for in all (design, section 1): how
// often it is used, and what an argument adds up to. They are the root's and are
// spent by the whole tree under it (ATK-42).
type Budgets struct {
	Uses int                         // 0 for no bound
	Sum  map[string]powerbox.Decimal // by argument, the most that it may add up to
}

// IsZero reports whether nothing is bounded.
func (b Budgets) IsZero() bool { return b.Uses == 0 && len(b.Sum) == 0 }

// Account is where budgets are kept: under the id of the capability that they
// were given to.
type Account struct {
	Of      string
	Budgets Budgets
}

// Reservation is what one call takes from one budget.
type Reservation struct {
	Of     string // account; "" where the caller of a store names it
	Budget string // "uses", or "sum:" and the argument
	Amount *big.Rat
	Limit  *big.Rat
}

// Ledger is a [Recorder] that keeps budgets: what a decision takes is reserved in
// the transaction of its record, so that calls at the same time cannot spend the
// same twice.
type Ledger interface {
	Recorder
	// Spend makes a record durable with what its decision takes. [ErrSpent] says that
	// a budget does not hold that much, and [ErrUntold] that this cannot be told; then
	// nothing was written.
	Spend(ctx context.Context, r evidence.Record, take []Reservation) (evidence.Sealed, error)
	// Settle ends the reservations of a decision, and with back gives back what they
	// took. Doing it again does nothing.
	Settle(ctx context.Context, decision string, back bool) error
}

// ErrSpent says that a budget does not hold what a call would take.
var ErrSpent = errors.New("the budget of the capability is used up")

// ErrUntold says that it cannot be told now whether a budget holds what a call would
// take: it is kept elsewhere, and that place does not answer. The call is denied as one
// that may be tried again.
var ErrUntold = errors.New("whether the budget of the capability holds it cannot be told now")

// counts reports whether a call takes from budgets: one that has an operation done,
// or says something that may have. What A2A and MCP do beside that, to open a
// session, to read, follow or cancel a task, to have its events posted, has been
// paid for with the call that it is about, and a holder whose budget is used up can
// still read and end what it began (ADR 79). What a person gave for one request is
// counted whatever that is.
func counts(call *Call, held Held) bool {
	return call.Free.Any || held.Digest != "" || slices.ContainsFunc(call.Attempts, func(a powerbox.Attempt) bool {
		return !a.IsAdmission() && !strings.HasPrefix(a.Operation().String(), reserved)
	})
}

// reserved begins the operations that stand for what the protocols do, to which no
// skill maps (design, section 2).
const reserved = "a2a."

// spend is what a call takes from the accounts of a capability, or why it cannot.
// It is all that the call ever takes: its arguments are known when it begins, and
// the events that answer it are not metered (ATK-34).
func (g *Gate) spend(call *Call, held Held) ([]Reservation, []evidence.Reason) {
	if !counts(call, held) {
		return nil, nil
	}
	var out []Reservation
	for _, a := range held.Accounts {
		if _, ok := g.Recorder.(Ledger); !ok {
			return nil, because(codeBudgetElsewhere)
		}
		op, args := proves(call)
		if a.Budgets.Uses > 0 {
			out = append(out, Reservation{a.Of, "uses", big.NewRat(1, 1), big.NewRat(int64(a.Budgets.Uses), 1)})
		}
		for _, field := range slices.Sorted(maps.Keys(a.Budgets.Sum)) {
			v, _ := args.Get(field)
			d, ok := v.Decimal()
			if !ok || d.Compare(powerbox.Decimal{}) < 0 {
				return nil, []evidence.Reason{{
					Code: string(powerbox.CodeArgumentConstraint), Operation: op.String(), Argument: field, Constraint: "sum",
					Message: fmt.Sprintf("argument %q counts towards a budget; want a number, 0 or more", field),
				}}
			}
			amount, okAmount := new(big.Rat).SetString(d.String())
			limit, okLimit := new(big.Rat).SetString(a.Budgets.Sum[field].String())
			if !okAmount || !okLimit {
				return nil, untold("the budget of the capability cannot be read")
			}
			out = append(out, Reservation{a.Of, "sum:" + field, amount, limit})
		}
	}
	return out, nil
}

// write makes the record of a verdict durable, with what it takes from budgets.
func (g *Gate) write(ctx context.Context, record evidence.Record, v *Verdict) (evidence.Sealed, error) {
	ledger, ok := g.Recorder.(Ledger)
	if len(v.take) == 0 || !ok {
		return g.Recorder.Record(ctx, record)
	}
	return ledger.Spend(ctx, record, v.take)
}

// spent denies a call that a budget did not hold, or of which that is not known,
// on record.
func (g *Gate) spent(ctx context.Context, call *Call, v Verdict, why error) (Verdict, error) {
	reasons := because(CodeLimit)
	if !errors.Is(why, ErrSpent) {
		reasons = untold(ErrUntold.Error())
	}
	return g.deny(ctx, call, Verdict{Held: v.Held, Reasons: reasons, call: call})
}

// deny records a denial in place of an allowing verdict whose record was not written.
func (g *Gate) deny(ctx context.Context, call *Call, denied Verdict) (Verdict, error) {
	note, recorded := call.noted(denied)
	if !recorded {
		return denied, nil
	}
	record, err := g.record(call, &denied, g.Now())
	if err != nil {
		return Verdict{}, err
	}
	record.Details.Reasons = slices.Concat(record.Details.Reasons, call.Record.Details.Reasons, note)
	sealed, err := g.Recorder.Record(ctx, record)
	if err != nil {
		return g.late(ctx, denied, record, err), errors.Join(evidence.ErrNotWritten, err)
	}
	denied.Record = sealed.Record()
	denied.Record.Detached = nil
	return denied, nil
}

// settle ends the reservations of a decision. A call that certainly did not
// happen gives back its reservation.
func (g *Gate) settleBudgets(ctx context.Context, v Verdict, back bool) error {
	ledger, ok := g.Recorder.(Ledger)
	if len(v.take) == 0 || !ok {
		return nil
	}
	return ledger.Settle(ctx, v.Record.ID, back)
}
