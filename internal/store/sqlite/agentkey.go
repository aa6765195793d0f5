package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// AgentKey implements [issuer.Reader].
func (r reader) AgentKey(agent string) (key string, renewed time.Time, err error) {
	var seconds int64
	err = r.db.QueryRowContext(r.ctx, "SELECT key, renewed FROM agent_key WHERE agent = ? AND newest = 1", agent).Scan(&key, &seconds)
	if errors.Is(err, sql.ErrNoRows) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sqlite: key of agent %s: %w", agent, err)
	}
	return key, time.Unix(seconds, 0).UTC(), nil
}

// NewestKeys implements [issuer.Reader].
func (r reader) NewestKeys() (map[string]string, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT agent, key FROM agent_key WHERE newest = 1")
	if err != nil {
		return nil, fmt.Errorf("sqlite: keys: %w", err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var agent, key string
		if err := rows.Scan(&agent, &key); err != nil {
			return nil, fmt.Errorf("sqlite: keys: %w", err)
		}
		out[agent] = key
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: keys: %w", err)
	}
	return out, nil
}

// PutAgentKey implements [issuer.Tx].
func (t *transaction) PutAgentKey(agent, key string, renewed time.Time) error {
	_, err := t.db.ExecContext(t.ctx, "UPDATE agent_key SET newest = 0 WHERE agent = ?", agent)
	if err == nil {
		_, err = t.db.ExecContext(t.ctx, "INSERT INTO agent_key (agent, key, renewed, newest) VALUES (?, ?, ?, 1) ON CONFLICT (agent, key) DO UPDATE SET newest = 1",
			agent, key, renewed.Unix())
	}
	if err != nil {
		return fmt.Errorf("sqlite: key of agent %s: %w", agent, err)
	}
	return nil
}
