package approval

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// takenBack is what an agent is told of an approval that was revoked.
const takenBack = "a person took this approval back"

// Approval is an approval that a person can see and take back.
type Approval struct {
	Question Question
	Call     Call      // of a question about one call
	Until    time.Time // the end of the capability; zero for a call
	// Live reports that something can still be done under it, so that [Desk.Revoke]
	// takes it back.
	Live bool
}

// ends is when a question ends, and so when nothing of it is left to approve: earlier
// than Expires where someone before has chosen an earlier end.
func (q Question) ends() time.Time { return earlier(q.Expires, q.Chosen.Until) }

// Over is when a question need not be kept any more: when it was answered, or when what
// was approved ends. Zero while it is open.
func (q Question) Over() time.Time {
	if until := q.yes().Until(); !q.Ended.IsZero() && until.After(q.Ended) {
		return until
	}
	return q.Ended
}

// Ended reports whether a matter would have ended by now, so that approving it gives
// nothing.
func Ended(m issuer.Matter, now time.Time) bool { return !m.Until.IsZero() && !m.Until.After(now) }

// mine reports whether a person has approved a question, or it was approved in the
// person's name. Both may take the approval back.
func (q Question) mine(who Person) bool {
	return slices.ContainsFunc(q.Answers, func(g Given) bool { return g.Approve && g.By == who.Principal }) ||
		q.State == issuer.StateApproved && q.Principal == who.Principal && who.Principal != ""
}

// Approvals returns what a person has approved and what others have approved in the
// person's name, newest first: requests until what they gave has ended, and calls for a
// day.
func (d *Desk) Approvals(ctx context.Context, who Person) ([]Approval, error) {
	now := d.config.Now()
	var out []Approval
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		out = nil // it may run again
		for _, state := range []issuer.State{issuer.StatePending, issuer.StateApproved} {
			qs, err := r.Questions(state)
			if err != nil {
				return err
			}
			for _, q := range qs {
				if !q.mine(who) || state == issuer.StatePending && !q.Open(now) {
					continue
				}
				a, err := d.approval(r, q, now)
				if err != nil {
					return err
				}
				out = append(out, a)
			}
		}
		return nil
	})
	sorting.Stable(out, func(a, b Approval) int { return b.Question.Created.Compare(a.Question.Created) })
	return out, err
}

// Revocable reports whether a person can revoke the approval of a question.
func (d *Desk) Revocable(ctx context.Context, who Person, q Question) (can bool, err error) {
	now := d.config.Now()
	if !q.mine(who) || q.State != issuer.StateApproved && !q.Open(now) {
		return false, nil
	}
	err = d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		a, err := d.approval(r, q, now)
		can = a.Live
		return err
	})
	return can, err
}

// approval says what can still be done under a question.
func (d *Desk) approval(r CallReader, q Question, now time.Time) (Approval, error) {
	a := Approval{Question: q, Until: q.yes().Until(), Live: true}
	switch {
	case q.State == issuer.StatePending: // it waits for another person
		return a, nil
	case q.Kind == ForCall:
		var err error
		a.Call, err = r.HeldCall(q.ID)
		a.Live = a.Call.State == CallApproved
		return a, err
	}
	a.Live = now.Before(a.Until) && len(q.Issued) == 0 && !d.overtaken(q)
	for _, id := range q.Issued {
		c, err := r.Capability(id)
		if err != nil {
			return a, err
		}
		a.Live = a.Live || now.Before(a.Until) && !d.config.Issuer.Dead(c)
	}
	return a, nil
}

// Revoke revokes an approval, on record: capabilities issued for it are revoked with
// everything derived from them, waiting ones are not issued, and a call that was
// not made is not made. A call that was made stays made, which is an error (ATK-85).
func (d *Desk) Revoke(ctx context.Context, who Person, id string) (Question, error) {
	var q Question
	var revoked []issuer.Revocation
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		revoked = nil // it may run again
		if err := d.admits(tx, who); err != nil {
			return err
		}
		now := d.config.Now()
		var err error
		q, err = tx.Question(id)
		if notFound(err) || err == nil && !q.mine(who) {
			return agentauth.Errorf(agentauth.CodeNotFound, "there is no approval of yours with that id")
		}
		if err != nil {
			return err
		}
		a, err := d.approval(tx, q, now)
		switch {
		case err != nil:
			return err
		case !a.Live && q.Kind == ForCall:
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "the call was made already, or has failed; it cannot be taken back")
		case !a.Live:
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "nothing can be done under this approval any more; there is nothing to take back")
		}
		issued := slices.Clone(q.Issued)
		if a.Call.Capability != "" {
			issued = append(issued, a.Call.Capability)
		}
		if revoked, err = d.end(tx, issued, who, now); err != nil {
			return err
		}
		q.State, q.Ended, q.Reason, q.TakenBack = issuer.StateDenied, now, takenBack, who.Principal
		if err := errors.Join(tx.PutQuestion(q), d.cancelled(tx, q, now), d.tell(tx, EventAnswered, q)); err != nil {
			return err
		}
		return d.append(tx, q, action.ApprovalRevoke, identity.Caller{Principal: who.Principal, Holder: identity.Holder{ID: who.Principal}}, evidence.Allow, map[string]any{
			"question": q.ID, "kind": string(q.Kind), "by": who.Principal, "capabilities": issued,
		})
	})
	if err != nil {
		return q, err
	}
	if len(revoked) > 0 {
		d.config.Issuer.Learned(revoked...)
	}
	d.deliver()
	return q, nil
}

// end revokes capabilities, in a transaction.
func (d *Desk) end(tx Tx, ids []string, who Person, now time.Time) ([]issuer.Revocation, error) {
	var out []issuer.Revocation
	for _, id := range ids {
		c, err := tx.Capability(id)
		if err != nil {
			return nil, err
		}
		r := issuer.Revocation{Kind: issuer.KindRevoke, Target: id, By: who.Principal, At: now, Until: c.Expires}
		if r.Sequence, err = tx.Revoke(r); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// cancelled has the call of a question that was taken back not made.
func (d *Desk) cancelled(tx Tx, q Question, now time.Time) error {
	if q.Kind != ForCall {
		return nil
	}
	c, err := tx.HeldCall(q.ID)
	if err != nil {
		return err
	}
	c.State, c.Request, c.Text, c.Updated = CallCancelled, nil, takenBack, now
	return tx.PutHeldCall(c)
}

// ErrRefreshed says that a refresh token was used before: someone else has a copy of it.
var ErrRefreshed = errors.New("approval: the refresh token was used before")

// Refresh uses up a refresh token of an approval: the one with a number. The next one has
// the number after it.
func (d *Desk) Refresh(ctx context.Context, id string, number int) (Question, error) {
	var q Question
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		var err error
		q, err = tx.Question(id)
		switch {
		case notFound(err), err == nil && (q.Client == nil || q.State != issuer.StateApproved || len(q.Issued) == 0):
			return issuer.ErrNotConsented
		case err != nil:
			return err
		case number != q.Refreshed:
			return ErrRefreshed
		}
		q.Refreshed++
		return tx.PutQuestion(q)
	})
	return q, err
}
