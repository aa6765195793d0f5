package sqlite

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
)

// DueMessages implements [approval.Outbox].
func (r reader) DueMessages(now time.Time, limit int) ([]approval.Message, error) {
	return bodies[approval.Message](r, "SELECT body FROM message WHERE died = 0 AND due <= ? ORDER BY due, id LIMIT ?", now.UnixMilli(), limit)
}

// DeadMessages implements [approval.Outbox].
func (r reader) DeadMessages(limit int) ([]approval.Message, error) {
	return bodies[approval.Message](r, "SELECT body FROM message WHERE died <> 0 ORDER BY died DESC, id LIMIT ?", limit)
}

// Message implements [approval.Outbox].
func (r reader) Message(id string) (approval.Message, error) {
	return first(bodies[approval.Message](r, "SELECT body FROM message WHERE id = ?", id))
}

// CountMessages implements [approval.Outbox].
func (r reader) CountMessages() (map[string]approval.MessageCount, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT hook, sum(died = 0), sum(died <> 0) FROM message GROUP BY hook")
	if err != nil {
		return nil, fmt.Errorf("sqlite: messages: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	out := map[string]approval.MessageCount{}
	for rows.Next() {
		var hook string
		var n approval.MessageCount
		if err := rows.Scan(&hook, &n.Waiting, &n.Dead); err != nil {
			return nil, fmt.Errorf("sqlite: messages: %w", err)
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
	return t.keep(m, `INSERT INTO message (id, hook, due, died, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET due = excluded.due, died = excluded.died, body = excluded.body`, m.ID, m.Hook, m.Due.UnixMilli(), died)
}

// DeleteMessage implements [approval.OutboxTx].
func (t *transaction) DeleteMessage(id string) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM message WHERE id = ?", id); err != nil {
		return fmt.Errorf("sqlite: message: %w", err)
	}
	return nil
}

// ForgetMessages implements [approval.OutboxTx].
func (t *transaction) ForgetMessages(before time.Time) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM message WHERE died <> 0 AND died < ?", before.UnixMilli()); err != nil {
		return fmt.Errorf("sqlite: messages to forget: %w", err)
	}
	return nil
}
