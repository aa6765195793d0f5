package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Hold keeps a call and asks whether it may be made (design, section 4). The call
// is in the store unencrypted: it is as secret as the store is.
func (d *Desk) Hold(ctx context.Context, q Question, c Call) (Question, Call, error) {
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		if asked, held, found, err := openAttempt(tx, q, d.config.Now()); found || err != nil {
			q, c = asked, held
			return err
		}
		task, err := c.Task, error(nil)
		if c.Task == "" {
			task, err = d.config.Issuer.NewID("task_pb_")
		} // a gateway's own, which the store takes once
		if err != nil {
			return err
		}
		made := q
		made.Kind, made.Task, made.Tenant = ForCall, task, c.Tenant
		if c.Parent != "" {
			// Anyone who is behind the capability is behind the call, and what it was given
			// for is what the call is for, unless it says so itself.
			parent, err := tx.Capability(c.Parent)
			if err != nil {
				return err
			}
			if parent.Agent != c.Agent {
				return issuer.ErrNotFound // a gateway speaks for its agent alone
			}
			made.Principal, made.Purpose = parent.Principal, cmp.Or(made.Purpose, parent.Purpose)
		}
		if made, err = d.open(tx, made); err != nil {
			return err
		}
		held := c
		held.Question, held.Task, held.State, held.Updated = made.ID, task, CallWaits, d.config.Now()
		if held.Context == "" {
			held.Context = "ctx_" + task
		}
		for _, name := range []string{a2a.TaskKey(held.Task), a2a.ContextKey(held.Context)} {
			if _, err := tx.BindTask(held.Agent, held.Tenant, name, held.Owner); err != nil {
				return err
			}
		}
		if err := tx.PutHeldCall(held); err != nil {
			return err
		}
		q, c = made, held
		return nil
	})
	if err == nil {
		d.deliver()
	}
	return q, c, refusedBy(err)
}

// OwnerKey is an owner, in a tenant, as one text by which a store finds the calls
// that are held for it ([Reader]). No root's id begins like what stands before a
// tenant, and that has no separator in it.
func OwnerKey(tenant string, o issuer.Owner) string {
	key := o.Root + "\x1f" + o.Principal + "\x1f" + o.Holder
	if tenant != "" {
		key = "in " + url.QueryEscape(tenant) + "\x1f" + key
	}
	return key
}

// refusedBy words why no person is asked.
func refusedBy(err error) error {
	switch {
	case errors.Is(err, issuer.ErrNobody):
		return &issuer.Refusal{Code: issuer.CodeApprovalNobody, Message: "a person must approve this call, and no approver is configured: the call has no user"}
	case errors.Is(err, issuer.ErrTooMany):
		return &issuer.Refusal{Code: issuer.CodeApprovalTooMany, Message: "too many of this agent's calls wait for people; wait for the answers"}
	}
	return err
}

// Held returns a call by its task, with its question.
func (d *Desk) Held(ctx context.Context, agent, task string) (Question, Call, error) {
	var q Question
	var c Call
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		if c, err = r.HeldCallByTask(agent, task); err == nil {
			q, err = r.Question(c.Question)
		}
		return err
	})
	return q, c, err
}

// HeldOf returns the tasks of an owner's held calls in a tenant of an agent, newest
// first, limit at the most.
func (d *Desk) HeldOf(ctx context.Context, agent, tenant string, owner issuer.Owner, limit int) ([]string, error) {
	var tasks []string
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		tasks, err = r.HeldTasksOf(agent, tenant, owner, limit)
		return err
	})
	return tasks, err
}

// Cancel withdraws a call that waits. One that was approved or made stays.
func (d *Desk) Cancel(ctx context.Context, agent, task string) (Question, Call, error) {
	var q Question
	var c Call
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		var err error
		if c, err = tx.HeldCallByTask(agent, task); err == nil {
			q, err = tx.Question(c.Question)
		}
		now := d.config.Now()
		if err != nil || c.State != CallWaits || !q.Open(now) {
			return err
		}
		q.State, q.Ended, q.Reason = issuer.StateDenied, now, withdrawn
		c.State, c.Request, c.Updated = CallCancelled, nil, now
		if err := errors.Join(tx.PutQuestion(q), tx.PutHeldCall(c), d.tell(tx, EventAnswered, q)); err != nil {
			return err
		}
		return d.append(tx, q, action.ApprovalWithdraw, q.caller(), evidence.Allow, map[string]any{"question": q.ID})
	})
	return q, c, err
}

// decideCall has an answered call made, or not.
func (d *Desk) decideCall(tx Tx, q Question, now time.Time) error {
	c, err := tx.HeldCall(q.ID)
	if err != nil {
		return err
	}
	c.Updated = now
	if q.State != issuer.StateApproved {
		c.State, c.Request, c.Text = CallFailed, nil, "a person has refused this call"
		if q.Reason != "" {
			c.Text += ": " + q.Reason
		}
		return tx.PutHeldCall(c)
	}
	authority, err := parseAuthority(c.Authority)
	if err != nil {
		return err
	}
	given, err := d.config.Issuer.GiveOnce(tx, issuer.Once{
		Agent: q.Agent, Principal: q.Principal, Holder: q.Holder, Requester: q.Requester, Purpose: q.Purpose, Approval: q.ID,
		Digest: c.Digest, Parent: c.Parent, Under: c.Under, Through: c.Through, Authority: authority, Until: c.until(q, now),
	})
	if err != nil {
		return err
	}
	c.State, c.Capability = CallApproved, given.ID
	if err := tx.PutHeldCall(c); err != nil {
		return err
	}
	r, err := d.config.Issuer.NewRecord(q.Agent, identity.Caller{Principal: q.Principal, Holder: identity.Holder{ID: q.Holder}, Agent: q.Requester}, action.CapabilityOnce, map[string]any{"question": q.ID, "digest": c.Digest})
	if err != nil {
		return err
	}
	r.OutcomeStatus, r.Details.Capability, r.Details.Granted = evidence.Achieved, given.ID, given.Authority.Names()
	q.causes(&r)
	_, err = tx.Append(r)
	return err
}

// until is how long an approved call can be made. A remote gateway
// has to ask first, and may be away for a moment: it has as long as people had.
func (c Call) until(q Question, now time.Time) time.Time {
	if soon := now.Add(onceTime); c.Gateway == "" || q.Expires.Before(soon) {
		return soon
	}
	return q.Expires
}

func parseAuthority(raw json.RawMessage) (powerbox.Authority, error) {
	v, err := powerbox.ParseValue(raw)
	if err != nil {
		return powerbox.Authority{}, err
	}
	return powerbox.ParseAuthority(v)
}

// Take returns a call that people have approved, and only once:
// it is made once, or its outcome is unknown. False is none.
func (d *Desk) Take(ctx context.Context, agents []string) (Call, bool, error) {
	var taken Call
	found := false
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		found = false // it may run again
		ready, err := tx.HeldCalls(CallApproved)
		if err != nil {
			return err
		}
		for _, c := range ready {
			if !slices.Contains(agents, c.Agent) || c.Gateway != "" {
				continue
			}
			taken, found = c, true
			c.State, c.Request, c.Updated = CallBeingMade, nil, d.config.Now()
			return tx.PutHeldCall(c)
		}
		return nil
	})
	return taken, found, err
}

// Made tells what became of a call that was taken.
func (d *Desk) Made(ctx context.Context, question string, state CallState, decision, text string, answer []byte) error {
	return d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		c, err := tx.HeldCall(question)
		if err != nil || c.State != CallBeingMade && !c.Lost {
			return err
		}
		c.State, c.Decision, c.Text, c.Answer, c.Updated, c.Lost = state, decision, text, answer, d.config.Now(), false
		return tx.PutHeldCall(c)
	})
}

// Begin has calls fail that were taken before a moment and are still being made:
// the one who made them has ended, their outcome is unknown, and they are not
// repeated.
func (d *Desk) Begin(ctx context.Context, before time.Time) error {
	return d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		broken, err := tx.HeldCalls(CallBeingMade)
		if err != nil {
			return err
		}
		for _, c := range broken {
			if c.Gateway != "" || c.Updated.After(before) {
				continue // which reports its own end, or may still be made
			}
			c.State, c.Text, c.Updated = CallFailed, "the server ended while the call was made, so its outcome is unknown; find out what became of it before it is repeated", d.config.Now()
			if err := tx.PutHeldCall(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// Changed returns a channel that is closed when a call may be made.
func (d *Desk) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (d *Desk) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Sweep ends questions whose time is over, tells delegates that it is their turn,
// and forgets old questions.
func (d *Desk) Sweep(ctx context.Context) error {
	now := d.config.Now()
	var open []Question
	err := d.config.Store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		open, err = d.pending(r)
		return err
	})
	for _, q := range open {
		if err == nil && !q.Open(now) {
			err = d.expire(ctx, q.ID, now)
		}
		if err == nil && q.Open(now) && !slices.Contains(q.Told, string(EventAsked)) {
			err = d.told(ctx, q.ID, EventAsked) // asked by a server that told afterwards
		}
		if err == nil && q.Open(now) && q.overdue(now) {
			err = d.told(ctx, q.ID, EventOverdue)
		}
	}
	if err == nil {
		err = d.lose(ctx, now)
	}
	if err != nil {
		return err
	}
	return d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		return errors.Join(tx.ForgetQuestions(now.Add(-keptTime)), tx.ForgetMessages(now.Add(-keptDead)))
	})
}

// overdue reports whether there are delegates whose turn it is, and who were not
// told.
func (q Question) overdue(now time.Time) bool {
	return !slices.Contains(q.Told, string(EventOverdue)) && slices.ContainsFunc(q.Needs, func(n Need) bool {
		return len(n.Delegates) > 0 && !now.Before(q.Created.Add(n.After))
	})
}

// told tells people of a question, and notes that they were told.
func (d *Desk) told(ctx context.Context, id string, e Event) error {
	var q Question
	err := d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		var err error
		if q, err = d.question(tx, id); err != nil {
			return err
		}
		q.Told = append(q.Told, string(e))
		return errors.Join(tx.PutQuestion(q), d.tell(tx, e, q))
	})
	d.deliver()
	return err
}

// expire ends a question without an answer in time: that is a denial.
func (d *Desk) expire(ctx context.Context, id string, now time.Time) error {
	return d.config.Store.UpdateApprovals(ctx, func(tx Tx) error {
		q, err := tx.Question(id)
		if err != nil || q.State != issuer.StatePending || q.Open(now) {
			return err
		}
		q.State, q.Ended = issuer.StateExpired, now
		if err := errors.Join(tx.PutQuestion(q), d.tell(tx, EventAnswered, q)); err != nil {
			return err
		}
		if q.Kind == ForCall {
			c, err := tx.HeldCall(q.ID)
			if err != nil {
				return err
			}
			c.State, c.Request, c.Text, c.Updated = CallFailed, nil, "no person approved this call in time", now
			if err := tx.PutHeldCall(c); err != nil {
				return err
			}
		}
		return d.append(tx, q, action.ApprovalExpire, q.caller(), evidence.Deny, map[string]any{"question": q.ID, "kind": string(q.Kind)})
	})
}
