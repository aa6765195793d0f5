package api

import (
	"errors"
	"math/big"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// maxHeldBody is the largest request about a held call: an agent's answer, 16 MiB at the
// most, and some words.
const maxHeldBody = 17 << 20

// held answers about calls that a gateway holds back (ADR 76).
func (g *Gateways) held(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.HeldQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	if g.Held == nil {
		if q.Do == link.HeldAsk {
			return link.HeldAnswer{Refused: &link.Refused{Reason: gate.CodeApproval, Message: "a person must approve this call, and the server has no approver to ask"}}, nil
		}
		return link.HeldAnswer{}, nil
	}
	return g.Held(r.Context(), of, q)
}

// budgetOf is an account as gateways are told of it.
func budgetOf(a gate.Account) link.Budget {
	out := link.Budget{Of: a.Of, Uses: a.Budgets.Uses}
	for field, most := range a.Budgets.Sum {
		if out.Sum == nil {
			out.Sum = map[string]string{}
		}
		out.Sum[field] = most.String()
	}
	return out
}

// budget reserves the share of a gateway's decision, or settles it.
func (g *Gateways) budget(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.BudgetQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	if q.Settle {
		return link.BudgetAnswer{}, g.Issuer.SettleRemote(r.Context(), of, q.Decision, q.Back)
	}
	var take []issuer.Taken
	for _, one := range q.Take {
		amount, ok := fraction(one.Amount)
		if !ok {
			return nil, status{http.StatusBadRequest, "take: an amount is no fraction"}
		}
		take = append(take, issuer.Taken{Of: one.Of, Budget: one.Budget, Amount: amount})
	}
	err := g.Issuer.ReserveRemote(r.Context(), of, q.Decision, take)
	if errors.Is(err, gate.ErrSpent) {
		return link.BudgetAnswer{Spent: true}, nil
	}
	return link.BudgetAnswer{}, err
}

// maxFraction is how long an amount can be.
const maxFraction = 256

// fraction reads an exact amount: digits and one slash, so that nothing stands for
// a number that would not fit into memory.
func fraction(text string) (*big.Rat, bool) {
	if len(text) > maxFraction || strings.Trim(text, "0123456789/") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
