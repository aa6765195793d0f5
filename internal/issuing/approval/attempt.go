package approval

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Attempts of programs that ask before something happens. The program has the attempt and
// tries it again; here is the question, found by its key, and what people gave for it.

// Attempt returns the newest question about an attempt, with its stored call. False is
// one about which people must be asked: no one was, or the answer does not count any
// more.
func (d *Desk) Attempt(ctx context.Context, agent, key string) (Question, Call, bool, error) {
	var q Question
	var c Call
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		if q, err = r.QuestionByKey(key); err == nil {
			c, err = r.HeldCall(q.ID)
		}
		return err
	})
	if notFound(err) || err == nil && c.Agent != agent {
		return Question{}, Call{}, false, nil
	}
	now, counts := d.config.Now(), false
	switch q.At(now) {
	case issuer.StatePending:
		counts = c.State == CallWaits
	case issuer.StateApproved:
		counts = (c.State == CallApproved || c.State == CallBeingMade) && !c.late(q, now)
	case issuer.StateDenied:
		counts = now.Before(q.Ended.Add(quietDenied))
	case issuer.StateExpired:
		counts = now.Before(q.Expires.Add(quietExpired))
	}
	return q, c, counts, err
}

// openAttempt finds the open question of the same key: of two same attempts at one time
// the second waits for what the first asked.
func openAttempt(tx Tx, q Question, now time.Time) (Question, Call, bool, error) {
	if q.Key == "" {
		return Question{}, Call{}, false, nil
	}
	asked, err := tx.QuestionByKey(q.Key)
	if notFound(err) || err == nil && !asked.Open(now) {
		return Question{}, Call{}, false, nil
	}
	var c Call
	if err == nil {
		c, err = tx.HeldCall(asked.ID)
	}
	return asked, c, err == nil, err
}
