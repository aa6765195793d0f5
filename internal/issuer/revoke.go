package issuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// revocations is the set that every check reads, replaced as a whole so that
// readers take no lock.
type revocations struct {
	sequence int64
	ids      map[string]time.Time  // until when an entry matters
	freezes  map[string]Revocation // by target, the last freeze or thaw
	frozen   map[string]bool       // every id that a freeze in force stands for
	changed  chan struct{}         // closed when the set is replaced
}

// Revoked reports whether one id, of a capability, a token or a derived link,
// has been revoked.
func (i *Issuer) Revoked(id string) bool {
	_, ok := i.revoked.Load().ids[id]
	return ok
}

// RevokedAny reports whether any of the ids has been revoked.
func (i *Issuer) RevokedAny(ids []string) bool {
	set := i.revoked.Load().ids
	return slices.ContainsFunc(ids, func(id string) bool { _, ok := set[id]; return ok })
}

// RevocationSequence returns how far the set has come; decisions record it.
func (i *Issuer) RevocationSequence() int64 { return i.revoked.Load().sequence }

func (i *Issuer) loadRevocations(ctx context.Context) error {
	return i.config.Store.View(ctx, func(r Reader) error {
		all, err := r.Revocations(0)
		if err != nil {
			return err
		}
		i.learn(all...)
		return nil
	})
}

// learn adds events to the set and forgets revocations whose targets have
// expired anyway. Of two for one target the longer counts; of freezes and thaws
// the last, in whichever order their callers come here.
func (i *Issuer) learn(rs ...Revocation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.config.Now()
	old := i.revoked.Load()
	next := &revocations{
		sequence: old.sequence, ids: maps.Clone(old.ids), freezes: maps.Clone(old.freezes), frozen: map[string]bool{}, changed: make(chan struct{}),
	}
	maps.DeleteFunc(next.ids, func(_ string, until time.Time) bool { return until.Before(now) })
	for _, r := range rs {
		next.sequence = max(next.sequence, r.Sequence)
		switch {
		case r.Kind == KindFreeze || r.Kind == KindThaw:
			if r.Sequence > next.freezes[r.Target].Sequence {
				next.freezes[r.Target] = r
			}
		case r.Kind == KindRevoke && !r.Until.Before(now) && r.Until.After(next.ids[r.Target]):
			next.ids[r.Target] = r.Until
		}
	}
	for _, f := range next.freezes {
		if f.Kind == KindFreeze {
			for _, id := range i.stops(f.Target) {
				next.frozen[id] = true
			}
		}
	}
	i.revoked.Store(next)
	close(old.changed)
}

// Stale implements gate.Revocations: where the set is made nothing is old.
func (i *Issuer) Stale(bool) bool { return false }

// Changed returns a channel that is closed at the next change of the set.
func (i *Issuer) Changed() <-chan struct{} { return i.revoked.Load().changed }

// Revoke ends a capability and everything that descends from it (SEP-20). The
// holder may do it, the principal behind it, and an operator. Whoever else
// asks gets the answer of an unknown id.
func (i *Issuer) Revoke(ctx context.Context, agentID string, caller identity.Caller, revocationID string) (Revocation, error) {
	record, err := i.newRecord(agentID, caller, "capability.revoke", evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return Revocation{}, err
	}
	var c Capability
	err = i.config.Store.View(ctx, func(r Reader) error {
		c, err = r.CapabilityByRevocation(revocationID)
		return err
	})
	mine := c.Holder == caller.Holder.ID && caller.Holder.ID != "" || c.Principal == caller.Principal && caller.Principal != ""
	if errors.Is(err, ErrNotFound) || err == nil && (c.Agent != agentID || !mine) {
		return Revocation{}, i.denied(ctx, record, refuse(CodeCapabilityUnknown, "no capability of yours has that revocation id"))
	}
	if err != nil {
		return Revocation{}, err
	}
	return i.revoke(ctx, record, c.ID, c.Expires, requester(caller))
}

// RevokeAsOperator ends whatever target names: a capability id, a revocation
// id, the id of a root token or the hash of a derived link. What is not on
// record stays revoked for as long as any token can live, since nothing here
// says when it ends.
func (i *Issuer) RevokeAsOperator(ctx context.Context, operator, target string) (Revocation, error) {
	agentID, id, until := "", target, i.config.Now().Add(token.MaxLifetime)
	err := i.config.Store.View(ctx, func(r Reader) error {
		for _, find := range []func(string) (Capability, error){r.Capability, r.CapabilityByRevocation} {
			c, err := find(target)
			if err == nil {
				agentID, id, until = c.Agent, c.ID, c.Expires
			}
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Revocation{}, err
	}
	if agentID == "" {
		agentID = issuerItself
	}
	record, err := i.newRecord(agentID, identity.Caller{Agent: operator}, "capability.revoke", evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return Revocation{}, err
	}
	return i.revoke(ctx, record, id, until, operator)
}

func (i *Issuer) revoke(ctx context.Context, record evidence.Record, target string, until time.Time, by string) (Revocation, error) {
	r := Revocation{Kind: KindRevoke, Target: target, By: by, At: i.config.Now(), Until: until}
	record.Details.Capability = target
	record.OutcomeStatus = evidence.Achieved
	return i.commitRevocation(ctx, record, r)
}

// commitRevocation writes a revocation, a freeze or a thaw, and its record in
// one commit; it is in force when this returns.
func (i *Issuer) commitRevocation(ctx context.Context, record evidence.Record, r Revocation) (Revocation, error) {
	err := i.config.Store.Update(ctx, func(tx Tx) error {
		var err error
		if r.Sequence, err = tx.Revoke(r); err != nil {
			return err
		}
		record.Details.RevocationSequence = r.Sequence
		_, err = tx.Append(record)
		return err
	})
	if err != nil {
		return Revocation{}, fmt.Errorf("%s %s: %w", r.Kind, r.Target, err)
	}
	i.learn(r)
	return r, nil
}

// taskTarget is what a revocation names to end every capability of a task.
func taskTarget(agent, task string) string { return "task:" + agent + "/" + task }

// Links returns every id whose revocation ends c: its lineage and, where it is
// for a task, that task (SEP-22).
func (c Capability) Links() []string {
	if c.Task == "" {
		return c.Lineage()
	}
	return append(c.Lineage(), taskTarget(c.Agent, c.Task))
}

// EndTask ends every capability that was issued for a task of an agent, since
// the task has ended (SEP-22). Where none was, nothing happens.
func (i *Issuer) EndTask(ctx context.Context, agent, task string) error {
	target, named := taskTarget(agent, task), false
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		named, err = r.TaskNamed(agent, task)
		return err
	})
	if err != nil || !named || i.Revoked(target) {
		return err
	}
	record, err := i.newRecord(agent, identity.Caller{Agent: i.config.Recorder}, "task.end", evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return err
	}
	record.TaskID = task
	_, err = i.revoke(ctx, record, target, i.config.Now().Add(token.MaxLifetime), i.config.Recorder)
	return err
}
