package provider

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Budgets bound all uses of a grant together (design, section 1): their number, and the
// sum of an argument. They are kept per capability on record and reserved in the
// transaction of the decision, so that calls at the same time cannot spend the same
// twice (ATK-42).
type Budgets struct {
	Uses int                         // 0 for no bound
	Sum  map[string]powerbox.Decimal // the most that an argument may add up to
}

// none reports whether nothing is bounded.
func (b Budgets) none() bool { return b.Uses == 0 && len(b.Sum) == 0 }

// Reservation is the share of one budget that one call takes.
type Reservation = gate.Reservation

// errSpent says that a budget does not hold the share of a call.
var errSpent = errors.New("the budget of the grant is used up")

// reservations are the shares that a call takes from the budgets of a capability.
func (b Budgets) reservations(arguments powerbox.Value) ([]Reservation, error) {
	var out []Reservation
	if b.Uses > 0 {
		out = append(out, Reservation{Budget: "uses", Amount: big.NewRat(1, 1), Limit: big.NewRat(int64(b.Uses), 1)})
	}
	for field, limit := range b.Sum {
		v, _ := arguments.Get(field)
		d, ok := v.Decimal()
		if !ok || d.Compare(powerbox.Decimal{}) < 0 {
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "argument %q counts towards a budget; want a number, 0 or more", field)
		}
		amount, okAmount := new(big.Rat).SetString(d.String())
		most, okMost := new(big.Rat).SetString(limit.String())
		if !okAmount || !okMost {
			return nil, fmt.Errorf("provider: budget of %q: not a number", field)
		}
		out = append(out, Reservation{Budget: "sum:" + field, Amount: amount, Limit: most})
	}
	return out, nil
}

// reservationsKey is where a call's reservations are in its context.
type reservationsKey struct{}

// Recorder writes decisions of executions, with their reservations, in one transaction:
// a decision that is recorded has its reservations.
type Recorder struct {
	Store Store
	Plain gate.Recorder // for a call without reservations
}

// Record implements [gate.Recorder].
func (r Recorder) Record(ctx context.Context, record evidence.Record) (evidence.Sealed, error) {
	reserved, _ := ctx.Value(reservationsKey{}).([]Reservation)
	if len(reserved) == 0 || record.Decision != evidence.Allow || record.Details.OutcomeOf != "" {
		return r.Plain.Record(ctx, record)
	}
	var sealed evidence.Sealed
	err := r.Store.UpdateProvider(ctx, func(tx Tx) error {
		for _, one := range reserved {
			ok, err := tx.Reserve(record.ID, record.Details.Capability, one)
			if err == nil && !ok {
				err = errSpent
			}
			if err != nil {
				return err
			}
		}
		var err error
		sealed, err = tx.Append(record)
		return err
	})
	return sealed, err
}

// settle ends the reservations of a decision, once. A call that certainly did not happen
// gives back its reservation.
func (p *Provider) settle(ctx context.Context, decision string, back bool) error {
	return p.config.Store.UpdateProvider(context.WithoutCancel(ctx), func(tx Tx) error { return tx.Settle(decision, back) })
}

// checkBudgeted has the gate decide a call whose grants have budgets: a grant that
// has spent its own is passed over, and where none is left the call is denied.
func (p *Provider) checkBudgeted(ctx context.Context, call *gate.Call, c *Capability, held []Grant, arguments powerbox.Value) (gate.Verdict, error) {
	reserved, uncounted := c.Budgets.reservations(arguments)
	budgeted := context.WithValue(ctx, reservationsKey{}, reserved)
	tried := false
	for _, g := range held {
		// A grant that does not admit the call has nothing to spend.
		if d, err := p.judge([]Grant{g}, c.Name, arguments, p.config.Now()); err != nil || !d.Allowed {
			continue
		}
		if uncounted != nil {
			return gate.Verdict{}, uncounted // authority comes first
		}
		call.Presented, tried = []gate.Presented{{Reference: g.Record}}, true
		v, err := p.config.Gate.Check(budgeted, call)
		if err == nil && v.TakenBack() {
			err = p.settle(ctx, v.Record.ID, true)
		}
		if !errors.Is(err, errSpent) {
			return v, err
		}
	}
	if tried {
		return p.spent(ctx, call)
	}
	return p.config.Gate.Check(ctx, call)
}

// spent records a denial for a budget that is used up.
func (p *Provider) spent(ctx context.Context, call *gate.Call) (gate.Verdict, error) {
	call.Refused = []evidence.Reason{{Code: string(agentauth.CodeLimit), Message: errSpent.Error()}}
	return p.config.Gate.Check(ctx, call)
}
