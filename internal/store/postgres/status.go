package postgres

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutStatusPlace implements [issuer.Tx].
func (t *transaction) PutStatusPlace(c issuer.Capability, place int, now time.Time) (bool, error) {
	if _, err := t.exec("DELETE FROM status_place WHERE agent = $1 AND expires <= $2", c.Agent, now.Unix()); err != nil {
		return false, fmt.Errorf("postgres: status: %w", err)
	}
	n, err := t.exec("INSERT INTO status_place (agent, place, capability, expires) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
		c.Agent, place, c.ID, c.Expires.Unix())
	if err != nil {
		return false, fmt.Errorf("postgres: status: %w", err)
	}
	return n == 1, nil
}

// StatusPlaces implements [issuer.Reader].
func (r reader) StatusPlaces(agent string) (map[string]int, error) {
	rows, err := r.query("SELECT capability, place FROM status_place WHERE agent = $1", agent)
	if err != nil {
		return nil, fmt.Errorf("postgres: status: %w", err)
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var id string
		var place int
		if err := rows.Scan(&id, &place); err != nil {
			return nil, fmt.Errorf("postgres: status: %w", err)
		}
		out[id] = place
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("postgres: status: %w", err)
	}
	return out, nil
}
