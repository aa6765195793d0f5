package sqlite

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutStatusPlace implements [issuer.Tx].
func (t *transaction) PutStatusPlace(c issuer.Capability, place int, now time.Time) (bool, error) {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM status_place WHERE agent = ? AND expires <= ?", c.Agent, now.Unix()); err != nil {
		return false, fmt.Errorf("sqlite: status: %w", err)
	}
	result, err := t.db.ExecContext(t.ctx, "INSERT INTO status_place (agent, place, capability, expires) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		c.Agent, place, c.ID, c.Expires.Unix())
	if err != nil {
		return false, fmt.Errorf("sqlite: status: %w", err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// StatusPlaces implements [issuer.Reader].
func (r reader) StatusPlaces(agent string) (map[string]int, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT capability, place FROM status_place WHERE agent = ?", agent)
	if err != nil {
		return nil, fmt.Errorf("sqlite: status: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	out := map[string]int{}
	for rows.Next() {
		var id string
		var place int
		if err := rows.Scan(&id, &place); err != nil {
			return nil, fmt.Errorf("sqlite: status: %w", err)
		}
		out[id] = place
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: status: %w", err)
	}
	return out, nil
}
