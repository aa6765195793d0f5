package issuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/until"
	"github.com/powerbox-project/powerbox/token"
)

// revocations is the set that every check reads, replaced as a whole so that
// readers take no lock.
type revocations struct {
	sequence int64                 // of the last event before which none is missing
	ahead    map[int64]bool        // events behind that, of which some before are missing
	newest   Revocation            // the event with the largest number
	ids      until.Hashed          // of capabilities, tokens and links
	rest     *rest                 // where others are asked for, nil where ids has all
	freezes  map[string]Revocation // by target, the last freeze or thaw
	frozen   map[string]bool       // every id that a freeze in force stands for
	epochs   map[bulk]epoch
	extended time.Time     // until when gateways read without news
	changed  chan struct{} // closed when the set is replaced
}

// RevocationSequence returns how far the set has come; decisions record it.
func (i *Issuer) RevocationSequence() int64 { return i.revoked.Load().sequence }

// loadRevocations reads the events behind the known ones.
func (i *Issuer) loadRevocations(ctx context.Context) error {
	return i.config.Store.View(ctx, func(r Reader) error { return i.Refresh(r) })
}

// revocationsReader is how much of a store [Issuer.Refresh] uses.
type revocationsReader interface {
	Revocations(after int64) ([]Revocation, error)
}

// Refresh reads the events behind the known ones, as a snapshot of the store has them.
func (i *Issuer) Refresh(r revocationsReader) error {
	all, err := r.Revocations(i.RevocationSequence())
	if err == nil && len(all) > 0 {
		i.learn(all...)
	}
	return err
}

// CatchUp takes over what other nodes have written of what this one remembers, up to
// these versions of the store. It is called by one goroutine at a time.
func (i *Issuer) CatchUp(ctx context.Context, v Versions) error {
	if v.Stops > i.RevocationSequence() {
		if err := i.loadRevocations(ctx); err != nil {
			return err
		}
	}
	if v.Modes == i.modes.version {
		return nil
	}
	err := i.loadModes(ctx)
	if err == nil {
		i.modes.version = v.Modes
	}
	return err
}

// ErrWentBack is returned if a store lacks events that were known: the promoted
// database lacked the last writes of a lost machine.
var ErrWentBack = errors.New("the store went back behind what was known here; start this node anew")

// Anew takes over what the store of another primary has, where numbers alone may say that
// nothing moved: it must have the newest event that is known.
func (i *Issuer) Anew(ctx context.Context) error {
	if known := i.revoked.Load().newest; known.Sequence > 0 {
		err := i.config.Store.View(ctx, func(r Reader) error {
			all, err := r.Revocations(known.Sequence - 1)
			if err == nil && (len(all) == 0 || all[0].Sequence != known.Sequence || all[0].Kind != known.Kind || all[0].Target != known.Target || all[0].At.Unix() != known.At.Unix()) {
				err = ErrWentBack
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return i.loadModes(ctx)
}

// learn adds events to the set and forgets revocations whose targets have
// expired anyway. Of two for one target the longer counts; of freezes and thaws
// the last, in whichever order their callers come here.
func (i *Issuer) learn(rs ...Revocation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.revoked.Load()
	i.revoked.Store(i.after(old, rs...))
	close(old.changed)
}

// after returns what a set is after more events.
func (i *Issuer) after(old *revocations, rs ...Revocation) *revocations {
	now := steady.Over(i.config.Now())
	next := &revocations{
		sequence: old.sequence, newest: old.newest, ahead: maps.Clone(old.ahead), freezes: maps.Clone(old.freezes), frozen: map[string]bool{}, epochs: maps.Clone(old.epochs),
		extended: old.extended, changed: make(chan struct{}), rest: old.rest,
	}
	maps.DeleteFunc(next.epochs, func(_ bulk, e epoch) bool { return e.until.Before(now) })
	revoked := map[until.Key]int64{}
	for _, r := range rs {
		next.came(r.Sequence)
		if r.Sequence > next.newest.Sequence {
			next.newest = r
		}
		if r.Kind != KindRevoke {
			next.apply(i, r, now)
		} else if !r.Until.Before(now) {
			key := i.hash(r.Target)
			revoked[key] = max(revoked[key], r.Until.Unix())
		}
	}
	next.ids = old.ids.With(revoked, now)
	for _, f := range next.freezes {
		if f.Kind == KindFreeze {
			for _, id := range i.stops(f.Target) {
				next.frozen[id] = true
			}
		}
	}
	return next
}

// came notes that an event is known. Those of other nodes, and of other goroutines,
// may come here before the ones that are before them in the sequence: the known sequence
// has no gaps.
func (s *revocations) came(n int64) {
	if n <= s.sequence {
		return
	}
	if s.ahead == nil {
		s.ahead = map[int64]bool{}
	}
	for s.ahead[n] = true; s.ahead[s.sequence+1]; s.sequence++ {
		delete(s.ahead, s.sequence+1)
	}
}

// apply adds the effect of one event except a revocation to a set that is not read yet.
func (s *revocations) apply(i *Issuer, r Revocation, now time.Time) {
	switch {
	case r.Kind == KindFreeze || r.Kind == KindThaw:
		if r.Sequence > s.freezes[r.Target].Sequence {
			s.freezes[r.Target] = r
		}
	case r.Kind == KindEpoch && !r.Until.Before(now):
		s.end(i, r)
	case r.Kind == KindExtend:
		s.extended = r.Until
	}
}

// Stale implements gate.Revocations: where the set is made nothing is old, unless
// others make it, too, and cannot be asked.
func (i *Issuer) Stale(bool) bool { return i.config.Stale != nil && i.config.Stale() }

// Changed returns a channel that is closed at the next change of the set.
func (i *Issuer) Changed() <-chan struct{} { return i.revoked.Load().changed }

// Revoke ends a capability and everything that descends from it (SEP-20). The
// holder may do it, the principal behind it, and an operator. Anyone who else
// asks gets the answer of an unknown id.
func (i *Issuer) Revoke(ctx context.Context, agentID string, caller identity.Caller, revocationID string) (Revocation, error) {
	record, err := i.newRecord(agentID, caller, action.CapabilityRevoke, evidence.Intent{Operation: OperationCapability})
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
		r, err = write(tx, record, r)
		return err
	})
	if err != nil {
		return Revocation{}, fmt.Errorf("%s %s: %w", r.Kind, r.Target, err)
	}
	i.learn(r)
	return r, nil
}

// EventWriter is how much of a transaction an event of the sequence uses.
type EventWriter interface {
	AccountReader
	IssuedAfter(at time.Time, query IssuedQuery) (time.Time, error)
	Revoke(r Revocation) (int64, error)
	Append(record evidence.Record) (evidence.Sealed, error)
}

// write writes an event and its record in one transaction. A thaw is refused while the
// target is a person whose account stops it (ATK-94).
func write(tx EventWriter, record evidence.Record, r Revocation) (Revocation, error) {
	if r.Kind == KindThaw {
		if err := released(tx, r.Target); err != nil {
			return r, err
		}
	}
	r, err := covering(tx, r)
	if err != nil {
		return r, err
	}
	if r.Sequence, err = tx.Revoke(r); err != nil {
		return r, err
	}
	record.Details.RevocationSequence = r.Sequence
	_, err = tx.Append(record)
	return r, err
}

func released(r AccountReader, target string) error {
	a, err := r.Account(target)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}
	if err := a.Stops(); err != nil {
		return noTarget("%s", err.Error())
	}
	return nil
}

// taskTarget is what a revocation names to end every capability of a task. The
// tenant is written so that no part of it, and no task, can be taken for the other.
func taskTarget(agent, tenant, task string) string {
	if tenant == "" {
		return "task:" + agent + "/" + task
	}
	return "tenant-task:" + agent + "/" + url.PathEscape(tenant) + "/" + task
}

// Links returns every id whose revocation ends c: its lineage and, where it is
// for a task, that task (SEP-22).
func (c Capability) Links() []string {
	links := append(c.Lineage(), c.Under...)
	if c.Card != "" {
		links = append(links, cardTarget(c.Agent, c.Card))
	}
	if c.Task == "" {
		return links
	}
	return append(links, taskTarget(c.Agent, c.Tenant, c.Task))
}

// EndTask ends every capability that was issued for a task of an agent, since
// the task has ended (SEP-22). Where none was, nothing happens.
func (i *Issuer) EndTask(ctx context.Context, agent, tenant, task string) error {
	target, named := taskTarget(agent, tenant, task), false
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		named, err = r.TaskNamed(agent, tenant, task)
		return err
	})
	if err != nil || !named || i.Revoked(target) {
		return err
	}
	record, err := i.newRecord(agent, identity.Caller{Agent: i.config.Recorder}, action.TaskEnd, evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return err
	}
	record.TaskID, record.Details.Tenant = task, tenant
	_, err = i.revoke(ctx, record, target, i.config.Now().Add(token.MaxLifetime), i.config.Recorder)
	return err
}
