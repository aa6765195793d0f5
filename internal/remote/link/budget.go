package link

import (
	"context"
	"errors"
	"log/slog"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

// Budget is what an account of budgets holds at the most, as gate.Account.
type Budget struct {
	Of   string            `json:"of"`
	Uses int               `json:"uses,omitempty"`
	Sum  map[string]string `json:"sum,omitempty"` // exact decimals by argument
}

// accounts are what the use of a capability is counted in.
func (c Capability) accounts() ([]gate.Account, error) {
	var out []gate.Account
	for _, b := range c.Budgets {
		a := gate.Account{Of: b.Of, Budgets: gate.Budgets{Uses: b.Uses, Sum: map[string]powerbox.Decimal{}}}
		for field, text := range b.Sum {
			var err error
			if a.Budgets.Sum[field], err = powerbox.ParseDecimal(text); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	if len(out) < len(c.Accounts) {
		return nil, errors.New("the server has budgets for the capability and does not say which; it may be an older one")
	}
	return out, nil
}

// BudgetQuery reserves what a decision takes from budgets, or settles it.
type BudgetQuery struct {
	Decision string       `json:"decision"` // id of the gateway's record
	Take     []BudgetTake `json:"take,omitempty"`
	Settle   bool         `json:"settle,omitempty"`
	Back     bool         `json:"back,omitempty"` // of settling: give back the reservation
}

// BudgetTake is the amount taken from one budget. The bound is the server's to know.
type BudgetTake struct {
	Of     string `json:"of"`
	Budget string `json:"budget"` // "uses", or "sum:" and the argument
	Amount string `json:"amount"` // exact, as a fraction
}

// BudgetAnswer is the answer to a reservation.
type BudgetAnswer struct {
	Spent bool `json:"spent,omitempty"` // it does not hold that much, and nothing was taken
}

// Ledger keeps records at this gateway and budgets at the server, which gave them
// (ADR 76): a gate.Ledger. What cannot be asked is refused.
type Ledger struct {
	*Remote
	Recorder gate.Recorder
}

// Record implements [gate.Recorder].
func (l Ledger) Record(ctx context.Context, r evidence.Record) (evidence.Sealed, error) {
	return l.Recorder.Record(ctx, r)
}

// Spend implements [gate.Ledger]: the server reserves, in a transaction with a
// record of its own that names this decision, and then the decision is recorded.
// If that fails, the reservation is given back; if even that cannot be told
// to the server it stays taken, so that nothing is spent twice.
func (l Ledger) Spend(ctx context.Context, r evidence.Record, take []gate.Reservation) (evidence.Sealed, error) {
	q := BudgetQuery{Decision: r.ID}
	for _, one := range take {
		q.Take = append(q.Take, BudgetTake{one.Of, one.Budget, one.Amount.RatString()})
	}
	var a BudgetAnswer
	switch err := l.Client.call(ctx, PathBudget, q, &a); {
	case err != nil:
		l.Log.WarnContext(ctx, "a budget cannot be asked for", slog.Any("error", err))
		l.giveBack(ctx, r.ID) // it may have been taken, and only the answer be lost
		return evidence.Sealed{}, gate.ErrUntold
	case a.Spent:
		return evidence.Sealed{}, gate.ErrSpent
	}
	sealed, err := l.Recorder.Record(ctx, r)
	if err != nil {
		l.giveBack(ctx, r.ID)
	}
	return sealed, err
}

func (l Ledger) giveBack(ctx context.Context, decision string) {
	if err := l.Settle(ctx, decision, true); err != nil {
		l.Log.WarnContext(ctx, "what a call took from a budget stays taken, though it was not made", slog.String("decision", decision), slog.Any("error", err))
	}
}

// Settle implements [gate.Ledger].
func (l Ledger) Settle(ctx context.Context, decision string, back bool) error {
	var a BudgetAnswer
	return l.Client.call(context.WithoutCancel(ctx), PathBudget, BudgetQuery{Decision: decision, Settle: true, Back: back}, &a)
}
