package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math/big"

	"github.com/powerbox-project/powerbox/gate"
)

// Reserve implements [issuer.Tx].
func (t *transaction) Reserve(decision, capability string, r gate.Reservation) (bool, error) {
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
	_, err = t.db.ExecContext(t.ctx, "INSERT INTO reservation (decision, capability, budget, amount) VALUES (?, ?, ?, ?)", decision, capability, r.Budget, r.Amount.RatString())
	if err != nil {
		return false, fmt.Errorf("sqlite: reservation: %w", err)
	}
	return true, nil
}

func (t *transaction) spent(capability, budget string) (*big.Rat, error) {
	var text string
	err := t.db.QueryRowContext(t.ctx, "SELECT used FROM budget WHERE capability = ? AND budget = ?", capability, budget).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return new(big.Rat), nil
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: budget: %w", err)
	}
	used, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("sqlite: the budget %s of %s is damaged", budget, capability)
	}
	return used, nil
}

func (t *transaction) setUsed(capability, budget string, used *big.Rat) error {
	_, err := t.db.ExecContext(t.ctx, "INSERT INTO budget (capability, budget, used) VALUES (?, ?, ?) ON CONFLICT (capability, budget) DO UPDATE SET used = excluded.used",
		capability, budget, used.RatString())
	if err != nil {
		return fmt.Errorf("sqlite: budget: %w", err)
	}
	return nil
}

// Settle implements [issuer.Tx].
func (t *transaction) Settle(decision string, back bool) error {
	rows, err := t.db.QueryContext(t.ctx, "SELECT capability, budget, amount FROM reservation WHERE decision = ?", decision)
	if err != nil {
		return fmt.Errorf("sqlite: reservations: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var reserved [][3]string
	for rows.Next() {
		var r [3]string
		if err := rows.Scan(&r[0], &r[1], &r[2]); err != nil {
			return fmt.Errorf("sqlite: reservations: %w", err)
		}
		reserved = append(reserved, r)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("sqlite: reservations: %w", err)
	}
	for _, r := range reserved {
		amount, ok := new(big.Rat).SetString(r[2])
		if !ok {
			return fmt.Errorf("sqlite: the reservation of decision %s is damaged", decision)
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
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM reservation WHERE decision = ?", decision); err != nil {
		return fmt.Errorf("sqlite: reservations: %w", err)
	}
	return nil
}
