package rows

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutStatusPlace implements [issuer.Tx].
func (t Tx) PutStatusPlace(c issuer.Capability, place int, now time.Time) (bool, error) {
	if err := t.exec("status", "DELETE FROM status_place WHERE agent = ? AND expires <= ?", c.Agent, now.Unix()); err != nil {
		return false, err
	}
	n, err := t.db.Exec("INSERT INTO status_place (agent, place, capability, expires) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		c.Agent, place, c.ID, c.Expires.Unix())
	if err != nil {
		return false, fmt.Errorf("store: status: %w", err)
	}
	return n == 1, nil
}

// StatusPlaces implements [issuer.Reader].
func (r Reader) StatusPlaces(agent string) (map[string]int, error) {
	out := map[string]int{}
	err := r.each("status", func(row Row) error {
		var id string
		var place int
		err := row.Scan(&id, &place)
		out[id] = place
		return err
	}, "SELECT capability, place FROM status_place WHERE agent = ?", agent)
	if err != nil {
		return nil, err
	}
	return out, nil
}
