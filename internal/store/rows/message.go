package rows

import (
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
)

// DueMessages implements [approval.Outbox].
func (r Reader) DueMessages(now time.Time, limit int) ([]approval.Message, error) {
	return bodies[approval.Message](r, "SELECT body FROM message WHERE died = 0 AND due <= ? ORDER BY due, id LIMIT ?", now.UnixMilli(), limit)
}

// DeadMessages implements [approval.Outbox].
func (r Reader) DeadMessages(limit int) ([]approval.Message, error) {
	return bodies[approval.Message](r, "SELECT body FROM message WHERE died <> 0 ORDER BY died DESC, id LIMIT ?", limit)
}

// Message implements [approval.Outbox].
func (r Reader) Message(id string) (approval.Message, error) {
	return first(bodies[approval.Message](r, "SELECT body FROM message WHERE id = ?", id))
}

// CountMessages implements [approval.Outbox].
func (r Reader) CountMessages() (map[string]approval.MessageCount, error) {
	out := map[string]approval.MessageCount{}
	err := r.each("messages", func(row Row) error {
		var hook string
		var n approval.MessageCount
		err := row.Scan(&hook, &n.Waiting, &n.Dead)
		out[hook] = n
		return err
	}, "SELECT hook, count(*) FILTER (WHERE died = 0), count(*) FILTER (WHERE died <> 0) FROM message GROUP BY hook")
	return out, err
}

// PutMessage implements [approval.OutboxTx].
func (t Tx) PutMessage(m approval.Message) error {
	died := int64(0)
	if !m.Died.IsZero() {
		died = m.Died.UnixMilli()
	}
	return t.Keep(m, `INSERT INTO message (id, hook, due, died, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET due = excluded.due, died = excluded.died, body = excluded.body`, m.ID, m.Hook, m.Due.UnixMilli(), died)
}

// DeleteMessage implements [approval.OutboxTx].
func (t Tx) DeleteMessage(id string) error {
	return t.exec("message", "DELETE FROM message WHERE id = ?", id)
}

// ForgetMessages implements [approval.OutboxTx].
func (t Tx) ForgetMessages(before time.Time) error {
	return t.exec("messages to forget", "DELETE FROM message WHERE died <> 0 AND died < ?", before.UnixMilli())
}
