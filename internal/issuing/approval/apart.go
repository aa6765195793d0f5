package approval

import (
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Calls that a remote gateway holds back: the bytes are there, and
// the question and what became of it are here (ADR 76).

// lostTime is how long a gateway that began to make a call has to tell what became
// of it. It is longer than a call may take.
const lostTime = 10 * time.Minute

// Ruling returns a call that a gateway holds, as people have left it. One of
// another gateway is none.
func (d *Desk) Ruling(ctx context.Context, gateway, agent, task string) (Question, Call, error) {
	q, c, err := d.Held(ctx, agent, task)
	if err == nil && c.Gateway != gateway {
		return Question{}, Call{}, issuer.ErrNotFound
	}
	return q, c, err
}

// BeginCall notes that a gateway makes a call that it holds, and returns it. Doing
// so again is no error while nothing came of it: that it is made once is for the
// gateway's book and for the one use of the capability to say. False is a call
// that is not to be made.
func (d *Desk) BeginCall(ctx context.Context, gateway, agent, task string) (Call, bool, error) {
	var begun Call
	var ok bool
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		c, err := tx.HeldCallByTask(agent, task)
		if notFound(err) || err == nil && c.Gateway != gateway {
			ok = false
			return nil
		}
		if ok = err == nil && (c.State == CallApproved || c.State == CallBeingMade); !ok {
			return err
		}
		c.State, c.Updated = CallBeingMade, d.config.Now()
		begun = c
		return tx.PutHeldCall(c)
	})
	return begun, ok, err
}

// lose has calls fail that a remote gateway did not make while it could, or of which
// it has not told what became.
func (d *Desk) lose(ctx context.Context, now time.Time) error {
	var late []Call
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		for _, state := range []CallState{CallApproved, CallBeingMade} {
			all, err := r.HeldCalls(state)
			if err != nil {
				return err
			}
			for _, c := range all {
				q, err := r.Question(c.Question)
				if err != nil {
					return err
				}
				if c.Gateway != "" && c.late(q, now) {
					late = append(late, c)
				}
			}
		}
		return nil
	})
	for _, c := range late {
		if err != nil {
			return err
		}
		err = d.config.Store.UpdateApprovals(ctx, func(tx Tx) error { return d.lost(tx, c.Question, now) })
	}
	return err
}

func (d *Desk) lost(tx Tx, question string, now time.Time) error {
	c, err := tx.HeldCall(question)
	q, wrong := tx.Question(question)
	if err = errors.Join(err, wrong); err != nil || !c.late(q, now) {
		return err
	}
	c.Text = "it was approved, but the gateway that holds the call did not make it in time; send it again"
	if c.State == CallBeingMade {
		c.Lost = true
		c.Text = "the gateway that made the call has not told what became of it, so its outcome is unknown; find out before it is repeated"
	}
	c.State, c.Updated = CallFailed, now
	return tx.PutHeldCall(c)
}

// late reports whether nothing is to be expected of a gateway's call any more.
func (c Call) late(q Question, now time.Time) bool {
	switch c.State {
	case CallApproved:
		return now.After(c.until(q, q.Ended).Add(2 * time.Second)) // the capability for it is over
	case CallBeingMade:
		return now.After(c.Updated.Add(lostTime))
	case CallWaits, CallMade, CallFailed, CallCancelled:
	}
	return false
}
