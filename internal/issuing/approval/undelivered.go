package approval

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// deliver looks for new messages to webhooks in the store.
func (d *Desk) deliver() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.tells)
	d.tells = make(chan struct{})
}

// Tells returns a channel that is closed when there may be something to tell.
func (d *Desk) Tells() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tells
}

// maxUndelivered is how many messages that were given up are shown.
const maxUndelivered = 200

// HookState is how it stands with one webhook.
type HookState struct {
	Name string `json:"name"`
	MessageCount
}

// Undelivered is what webhooks have not taken: how many messages wait for each, and
// those that were given up, newest first, 200 at the most.
type Undelivered struct {
	Hooks []HookState
	Dead  []Message
}

// Undelivered returns it.
func (d *Desk) Undelivered(ctx context.Context) (Undelivered, error) {
	var u Undelivered
	counts := map[string]MessageCount{}
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		if counts, err = r.CountMessages(); err == nil {
			u.Dead, err = r.DeadMessages(maxUndelivered)
		}
		return err
	})
	if d.config.Tell != nil {
		for _, name := range d.config.Tell.Names() {
			if _, ok := counts[name]; !ok {
				counts[name] = MessageCount{} // nothing waits there
			}
		}
	}
	for name, n := range counts {
		u.Hooks = append(u.Hooks, HookState{name, n})
	}
	sorting.Sort(u.Hooks, func(a, b HookState) int { return cmp.Compare(a.Name, b.Name) })
	return u, err
}

// Redeliver has a message tried again that was given up, by the word of an operator.
func (d *Desk) Redeliver(ctx context.Context, by, id string) (Message, error) {
	var m Message
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		var err error
		if m, err = tx.Message(id); err != nil {
			return err
		}
		now := d.config.Now()
		q, err := tx.Question(m.Question)
		if over := notFound(err) || err == nil && !q.Open(now); over && (m.Event == EventAsked || m.Event == EventOverdue) {
			return &issuer.TargetError{Message: "the question that the message tells of is over; there is nothing to answer any more"}
		} else if err != nil && !notFound(err) {
			return err
		}
		m.Died, m.Due, m.Tries, m.Expires = time.Time{}, now, 0, now.Add(toldTime)
		if m.Event == EventAsked || m.Event == EventOverdue {
			m.Expires = q.Expires
		}
		record, err := d.config.Issuer.RedeliveryRecord(by, map[string]any{"message": m.ID, "webhook": m.Hook, "question": m.Question})
		if err == nil {
			_, err = tx.Append(record)
		}
		return errors.Join(err, tx.PutMessage(m))
	})
	d.deliver()
	return m, err
}
