package rows

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/powerbox-project/powerbox/gate"
)

// Reserve implements [issuer.Tx].
func (t Tx) Reserve(decision, capability string, r gate.Reservation) (bool, error) {
	used, err := t.spent(capability, r.Budget)
	if err != nil {
		return false, err
	}
	used.Add(used, r.Amount)
	if used.Cmp(r.Limit) > 0 {
		return false, nil
	}
	if err := t.setUsed(capability, r.Budget, used); err != nil {
		return false, err
	}
	err = t.exec("reservation", "INSERT INTO reservation (decision, capability, budget, amount) VALUES (?, ?, ?, ?)", decision, capability, r.Budget, r.Amount.RatString())
	return err == nil, err
}

func (t Tx) spent(capability, budget string) (*big.Rat, error) {
	var text string
	err := t.db.QueryRow("SELECT used FROM budget WHERE capability = ? AND budget = ?", capability, budget).Scan(&text)
	if errors.Is(err, ErrNone) {
		return new(big.Rat), nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: budget: %w", err)
	}
	used, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("store: the budget %s of %s is damaged", budget, capability)
	}
	return used, nil
}

func (t Tx) setUsed(capability, budget string, used *big.Rat) error {
	return t.exec("budget", "INSERT INTO budget (capability, budget, used) VALUES (?, ?, ?) ON CONFLICT (capability, budget) DO UPDATE SET used = excluded.used",
		capability, budget, used.RatString())
}

// Settle implements [issuer.Tx].
func (t Tx) Settle(decision string, back bool) error {
	reserved, err := list(t.Reader, "reservations", func(row Row) (r [3]string, err error) {
		err = row.Scan(&r[0], &r[1], &r[2])
		return r, err
	}, "SELECT capability, budget, amount FROM reservation WHERE decision = ?", decision)
	if err != nil {
		return err
	}
	for _, r := range reserved {
		amount, ok := new(big.Rat).SetString(r[2])
		if !ok {
			return fmt.Errorf("store: the reservation of decision %s is damaged", decision)
		}
		if !back {
			continue
		}
		used, err := t.spent(r[0], r[1])
		if err != nil {
			return err
		}
		if err := t.setUsed(r[0], r[1], used.Sub(used, amount)); err != nil {
			return err
		}
	}
	return t.exec("reservations", "DELETE FROM reservation WHERE decision = ?", decision)
}
