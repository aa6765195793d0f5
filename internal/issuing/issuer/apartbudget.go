package issuer

import (
	"context"
	"math/big"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Taken is what a decision at a remote gateway takes from one budget. How much
// there is, is on record here.
type Taken struct {
	Of, Budget string
	Amount     *big.Rat
}

// maxTaken bounds what one decision takes from: a capability has two accounts.
const maxTaken = 64

// ReserveRemote takes from budgets for a decision of a remote gateway, in a
// transaction with a record that names it, and returns [gate.ErrSpent] where one
// does not hold that much: then nothing is taken. A budget of another agent's
// capability is none.
func (i *Issuer) ReserveRemote(ctx context.Context, of Gateway, decision string, take []Taken) error {
	if decision == "" || len(take) == 0 || len(take) > maxTaken {
		return noTarget("want the id of a decision and 1 to %d budgets", maxTaken)
	}
	return i.config.Store.Update(ctx, func(tx Tx) error {
		amounts := map[string]string{}
		for _, one := range take {
			limit, err := i.limitOf(tx, of.Agent, one)
			if err != nil {
				return err
			}
			ok, err := tx.Reserve(reservedAs(of, decision), one.Of, gate.Reservation{Of: one.Of, Budget: one.Budget, Amount: one.Amount, Limit: limit})
			if err == nil && !ok {
				err = gate.ErrSpent
			}
			if err != nil {
				return err
			}
			amounts[one.Of+" "+one.Budget] = one.Amount.RatString()
		}
		r, err := i.newRecord(of.Agent, identity.Caller{Agent: of.ID}, action.BudgetReserve, evidence.Intent{
			Operation: OperationCapability, Details: details(map[string]any{"decision": decision, "gateway": of.ID, "taken": amounts}),
		})
		if err != nil {
			return err
		}
		r.OutcomeStatus = evidence.Achieved
		_, err = tx.Append(r)
		return err
	})
}

// limitOf is how much a budget of an agent's capability holds in all.
func (i *Issuer) limitOf(tx CapabilityReader, agent string, one Taken) (*big.Rat, error) {
	c, err := tx.Capability(one.Of)
	if err != nil {
		return nil, err
	}
	if c.Agent != agent || one.Amount.Sign() < 0 {
		return nil, ErrNotFound
	}
	accounts, err := c.Accounts()
	if err != nil {
		return nil, err
	}
	field, sums := strings.CutPrefix(one.Budget, "sum:")
	for _, a := range accounts {
		if a.Of != one.Of {
			continue
		}
		if most, ok := a.Budgets.Sum[field]; ok && sums {
			limit, ok := new(big.Rat).SetString(most.String())
			if ok {
				return limit, nil
			}
		}
		if one.Budget == "uses" && a.Budgets.Uses > 0 {
			return big.NewRat(int64(a.Budgets.Uses), 1), nil
		}
	}
	return nil, noTarget("%s has no budget %q", one.Of, one.Budget)
}

// SettleRemote ends what a decision of a remote gateway has reserved, and with back
// gives it back. Doing it again does nothing.
func (i *Issuer) SettleRemote(ctx context.Context, of Gateway, decision string, back bool) error {
	return i.config.Store.Update(ctx, func(tx Tx) error { return tx.Settle(reservedAs(of, decision), back) })
}

// reservedAs is a decision of a gateway among all of them: another decision cannot
// return its reservation.
func reservedAs(of Gateway, decision string) string { return of.ID + "/" + decision }
