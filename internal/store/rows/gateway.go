package rows

import (
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutGatewayToken implements [issuer.Tx].
func (t Tx) PutGatewayToken(hash [32]byte, agent string, expires time.Time) error {
	return t.exec("gateway token", "INSERT INTO gateway_token (hash, agent, expires, used) VALUES (?, ?, ?, 0)", hash[:], agent, expires.Unix())
}

// UseGatewayToken implements [issuer.Tx].
func (t Tx) UseGatewayToken(hash [32]byte, now time.Time) (string, error) {
	var agent string
	err := t.db.QueryRow("UPDATE gateway_token SET used = ? WHERE hash = ? AND used = 0 AND expires > ? RETURNING agent",
		now.Unix(), hash[:], now.Unix()).Scan(&agent)
	if errors.Is(err, ErrNone) {
		return "", issuer.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("store: gateway token: %w", err)
	}
	return agent, nil
}

// PutGateway implements [issuer.Tx].
func (t Tx) PutGateway(g issuer.Gateway) error {
	t.counts.Gateways++
	return t.Keep(g, `INSERT INTO gateway (id, agent, enrolled, closed, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET body = excluded.body, closed = excluded.closed`,
		g.ID, g.Agent, g.Enrolled.Unix(), unix(g.Closed))
}

// Gateways implements [issuer.Reader].
func (r Reader) Gateways() ([]issuer.Gateway, error) {
	all, err := bodies[issuer.Gateway](r, "SELECT body FROM gateway ORDER BY enrolled, id")
	if all == nil && err == nil {
		all = []issuer.Gateway{} // a list that a caller shows
	}
	return all, err
}

// FirstTold implements [issuer.OutcomeReader].
func (t Tx) FirstTold(chain evidence.ChainID, decision, record string) (first string, err error) {
	err = t.exec("outcomes", "INSERT INTO told (chain, decision, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", chain[:], decision, record)
	if err != nil {
		return "", err
	}
	if err = t.db.QueryRow("SELECT record FROM told WHERE chain = ? AND decision = ?", chain[:], decision).Scan(&first); err != nil {
		return "", fmt.Errorf("store: outcomes: %w", err)
	}
	return first, nil
}
