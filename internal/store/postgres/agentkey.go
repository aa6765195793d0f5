package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AgentKey implements [issuer.Reader].
func (r reader) AgentKey(agent string) (key string, renewed time.Time, err error) {
	var seconds int64
	err = r.row("SELECT key, renewed FROM agent_key WHERE agent = $1 AND newest", agent).Scan(&key, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("postgres: key of agent %s: %w", agent, err)
	}
	return key, time.Unix(seconds, 0).UTC(), nil
}

// NewestKeys implements [issuer.Reader].
func (r reader) NewestKeys() (map[string]string, error) {
	rows, err := r.query("SELECT agent, key FROM agent_key WHERE newest")
	if err != nil {
		return nil, fmt.Errorf("postgres: keys: %w", err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var agent, key string
		if err := rows.Scan(&agent, &key); err != nil {
			return nil, fmt.Errorf("postgres: keys: %w", err)
		}
		out[agent] = key
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("postgres: keys: %w", err)
	}
	return out, nil
}

// PutAgentKey implements [issuer.Tx].
func (t *transaction) PutAgentKey(agent, key string, renewed time.Time) error {
	_, err := t.exec("UPDATE agent_key SET newest = false WHERE agent = $1", agent)
	if err == nil {
		_, err = t.exec("INSERT INTO agent_key (agent, key, renewed, newest) VALUES ($1, $2, $3, true) ON CONFLICT (agent, key) DO UPDATE SET newest = true",
			agent, key, renewed.Unix())
	}
	if err != nil {
		return fmt.Errorf("postgres: key of agent %s: %w", agent, err)
	}
	return nil
}
