package postgres

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
)

// DueMessages implements [approval.Outbox].
func (r reader) DueMessages(now time.Time, limit int) ([]approval.Message, error) {
	return bodies[approval.Message](r, "SELECT body FROM message WHERE died = 0 AND due <= $1 ORDER BY due, id LIMIT $2", now.UnixMilli(), limit)
}

// DeadMessages implements [approval.Outbox].
func (r reader) DeadMessages(limit int) ([]approval.Message, error) {
	return bodies[approval.Message](r, "SELECT body FROM message WHERE died <> 0 ORDER BY died DESC, id LIMIT $1", limit)
}

// Message implements [approval.Outbox].
func (r reader) Message(id string) (approval.Message, error) {
	return first(bodies[approval.Message](r, "SELECT body FROM message WHERE id = $1", id))
}

// CountMessages implements [approval.Outbox].
func (r reader) CountMessages() (map[string]approval.MessageCount, error) {
	rows, err := r.query("SELECT hook, count(*) FILTER (WHERE died = 0), count(*) FILTER (WHERE died <> 0) FROM message GROUP BY hook")
	if err != nil {
		return nil, fmt.Errorf("postgres: messages: %w", err)
	}
	defer rows.Close()
	out := map[string]approval.MessageCount{}
	for rows.Next() {
		var hook string
		var n approval.MessageCount
		if err := rows.Scan(&hook, &n.Waiting, &n.Dead); err != nil {
			return nil, fmt.Errorf("postgres: messages: %w", err)
		}
		out[hook] = n
	}
	return out, rows.Err()
}

// PutMessage implements [approval.OutboxTx].
func (t *transaction) PutMessage(m approval.Message) error {
	died := int64(0)
	if !m.Died.IsZero() {
		died = m.Died.UnixMilli()
	}
	return t.keep(m, `INSERT INTO message (id, hook, due, died, body) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET due = excluded.due, died = excluded.died, body = excluded.body`, m.ID, m.Hook, m.Due.UnixMilli(), died)
}

// DeleteMessage implements [approval.OutboxTx].
func (t *transaction) DeleteMessage(id string) error {
	if _, err := t.exec("DELETE FROM message WHERE id = $1", id); err != nil {
		return fmt.Errorf("postgres: message: %w", err)
	}
	return nil
}

// ForgetMessages implements [approval.OutboxTx].
func (t *transaction) ForgetMessages(before time.Time) error {
	if _, err := t.exec("DELETE FROM message WHERE died <> 0 AND died < $1", before.UnixMilli()); err != nil {
		return fmt.Errorf("postgres: messages to forget: %w", err)
	}
	return nil
}
