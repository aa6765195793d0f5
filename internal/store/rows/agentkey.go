package rows

import (
	"errors"
	"fmt"
	"time"
)

// AgentKey implements [issuer.Reader].
func (r Reader) AgentKey(agent string) (key string, renewed time.Time, err error) {
	var seconds int64
	err = r.db.QueryRow("SELECT key, renewed FROM agent_key WHERE agent = ? AND newest = true", agent).Scan(&key, &seconds)
	if errors.Is(err, ErrNone) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("store: key of agent %s: %w", agent, err)
	}
	return key, time.Unix(seconds, 0).UTC(), nil
}

// NewestKeys implements [issuer.Reader].
func (r Reader) NewestKeys() (map[string]string, error) {
	return r.named("keys", "SELECT agent, key FROM agent_key WHERE newest = true")
}

// PutAgentKey implements [issuer.Tx].
func (t Tx) PutAgentKey(agent, key string, renewed time.Time) error {
	what := "key of agent " + agent
	if err := t.exec(what, "UPDATE agent_key SET newest = false WHERE agent = ?", agent); err != nil {
		return err
	}
	return t.exec(what, "INSERT INTO agent_key (agent, key, renewed, newest) VALUES (?, ?, ?, true) ON CONFLICT (agent, key) DO UPDATE SET newest = true",
		agent, key, renewed.Unix())
}
