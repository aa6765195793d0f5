package issuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// revocations is the set that every check reads, replaced as a whole so that
// readers take no lock.
type revocations struct {
	sequence int64
	ids      map[string]time.Time // until when an entry matters
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

// learn adds revocations to the set and forgets those whose targets have
// expired anyway.
func (i *Issuer) learn(rs ...Revocation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.config.Now()
	old := i.revoked.Load()
	next := &revocations{sequence: old.sequence, ids: maps.Clone(old.ids)}
	maps.DeleteFunc(next.ids, func(_ string, until time.Time) bool { return until.Before(now) })
	for _, r := range rs {
		next.sequence = max(next.sequence, r.Sequence)
		if !r.Until.Before(now) {
			next.ids[r.Target] = r.Until
		}
	}
	i.revoked.Store(next)
}

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
// id, the id of a root token or the hash of a derived link.
func (i *Issuer) RevokeAsOperator(ctx context.Context, operator, target string) (Revocation, error) {
	agentID, id, until := "", target, i.config.Now().Add(i.config.MaximumLifetime)
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
		agentID = "powerbox"
	}
	record, err := i.newRecord(agentID, identity.Caller{Agent: operator}, "capability.revoke", evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return Revocation{}, err
	}
	return i.revoke(ctx, record, id, until, operator)
}

func (i *Issuer) revoke(ctx context.Context, record evidence.Record, target string, until time.Time, by string) (Revocation, error) {
	r := Revocation{Target: target, By: by, At: i.config.Now(), Until: until}
	record.Details.Capability = target
	record.OutcomeStatus = evidence.Achieved
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
		return Revocation{}, fmt.Errorf("revoking %s: %w", target, err)
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

// namedTask is under which the store remembers that a capability names a task.
func namedTask(task string) string { return "named:" + task }

// EndTask ends every capability that was issued for a task of an agent, since
// the task has ended (SEP-22). Where none was, nothing happens.
func (i *Issuer) EndTask(ctx context.Context, agent, task string) error {
	target, named := taskTarget(agent, task), false
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		_, named, err = r.TaskOwner(agent, namedTask(task))
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
	_, err = i.revoke(ctx, record, target, i.config.Now().Add(i.config.MaximumLifetime), i.config.Recorder)
	return err
}

// List returns what a holder holds of one agent and can still use, newest
// first.
func (i *Issuer) List(ctx context.Context, agentID string, caller identity.Caller) ([]Capability, error) {
	if refusal := checkCaller(caller); refusal != nil {
		return nil, refusal
	}
	var held []Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		held, err = r.HeldBy(agentID, caller.Holder.ID)
		return err
	})
	now := i.config.Now()
	return slices.DeleteFunc(held, func(c Capability) bool {
		return c.Principal != caller.Principal || !c.Expires.After(now) || i.RevokedAny(c.Links())
	}), err
}

// Capability returns what a reference stands for, whoever asks; whether it may
// be used is for the caller of this to check.
func (i *Issuer) Capability(ctx context.Context, id string) (Capability, error) {
	var c Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		c, err = r.Capability(id)
		return err
	})
	return c, err
}

// usable refuses a capability that cannot be used now, by this caller.
func (i *Issuer) usable(c Capability, agentID string, caller identity.Caller) *Refusal {
	switch now := i.config.Now(); {
	case c.Agent != agentID, c.Holder != caller.Holder.ID:
		// The same words for another agent's and another holder's: an id must
		// not tell whether it exists.
		return refuse(CodeCapabilityUnknown, "you hold no such capability of this agent")
	case caller.Principal != "" && c.Principal != caller.Principal:
		return refuse(CodeNotPrincipal, "the capability was issued for another user than the session's")
	case i.RevokedAny(c.Links()):
		return refuse(CodeCapabilityRevoked, "the capability, or one that it descends from, has been revoked")
	case !c.Expires.After(now):
		return refuse(CodeCapabilityExpired, "the capability has expired")
	}
	return nil
}

// Narrowing is what an attenuation asks for (SEP-12). Nil and zero members
// keep what the parent has.
type Narrowing struct {
	Handles    []string
	Operations []string
	Expires    time.Time
	// Recipient becomes the holder; the zero value keeps the parent's holder.
	Recipient identity.Holder
	// Agent is the configured name of the recipient.
	Agent string
	Task  string
}

// Narrow issues a child that is no wider than its parent. Anything wider is
// refused, and the refusal names what is wider.
func (i *Issuer) Narrow(ctx context.Context, agentID string, caller identity.Caller, parentID string, n Narrowing) (Capability, error) {
	record, err := i.newRecord(agentID, caller, "capability.attenuate", evidence.Intent{
		Operation: OperationCapability, Details: details(map[string]any{"parent": parentID}),
	})
	if err != nil {
		return Capability{}, err
	}
	parent, err := i.Capability(ctx, parentID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Capability{}, err
	}
	if refusal := i.usable(parent, agentID, caller); refusal != nil {
		return Capability{}, i.denied(ctx, record, refusal)
	}
	child, refusal := i.narrow(parent, caller, n)
	if refusal != nil {
		return Capability{}, i.denied(ctx, record, refusal)
	}
	record.Details.Capability, record.Details.Granted = child.ID, child.Authority.Names()
	record.OutcomeStatus = evidence.Achieved
	return child, i.config.Store.Update(ctx, func(tx Tx) error {
		if err := putCapability(tx, child); err != nil {
			return err
		}
		_, err := tx.Append(record)
		return err
	})
}

func (i *Issuer) narrow(parent Capability, caller identity.Caller, n Narrowing) (Capability, *Refusal) {
	agent, ok := i.agents[parent.Agent]
	if !ok {
		return Capability{}, refuse(CodeAgentUnknown, "no agent %q is protected here", parent.Agent)
	}
	if !parent.Attenuable {
		return Capability{}, refuse(CodeNotAttenuable, "capabilities of grant %q cannot be attenuated", parent.Grant)
	}
	if wider := wider(parent, n); len(wider) > 0 {
		return Capability{}, &Refusal{Code: CodeWider, Message: "the attenuation is wider than its parent", Details: wider}
	}
	child := parent
	child.Ancestors = parent.Lineage()
	child.Created = i.config.Now().UTC().Truncate(time.Second)
	child.Token = ""
	var errID, errRevocation error
	child.ID, errID = i.NewID("cap_")
	child.RevocationID, errRevocation = i.NewID("rv_")
	if err := errors.Join(errID, errRevocation); err != nil {
		return Capability{}, refuse(CodeNothingGranted, "%v", err)
	}
	recipient := caller
	if n.Recipient.ID != "" {
		recipient = identity.Caller{Principal: parent.Principal, Holder: n.Recipient, Agent: n.Agent}
		child.Holder, child.Requester = n.Recipient.ID, n.Agent
	}
	if n.Task != "" {
		child.Task = n.Task
	}
	authority, err := narrowed(agent, parent, n)
	if err != nil {
		return Capability{}, refuse(CodeDelegationDepth, "%v", err)
	}
	child.Authority, child.Expires = authority, authority.Window().Until
	if n.Handles != nil {
		child.Handles = slices.DeleteFunc(slices.Clone(parent.Handles), func(h Handle) bool { return !slices.Contains(n.Handles, h.Handle) })
	}
	if len(child.Operations()) == 0 {
		return Capability{}, refuse(CodeNothingGranted, "nothing is left of the capability after the attenuation")
	}
	return i.mint(agent, recipient, child)
}

// wider lists everything in which a narrowing goes beyond the parent.
func wider(parent Capability, n Narrowing) []string {
	var out []string
	for _, h := range n.Handles {
		if !slices.ContainsFunc(parent.Handles, func(p Handle) bool { return p.Handle == h }) {
			out = append(out, fmt.Sprintf("resourceHandles: %q is not in the capability", h))
		}
	}
	for _, op := range n.Operations {
		if !slices.Contains(parent.Operations(), op) {
			out = append(out, fmt.Sprintf("operations: %q is not in the capability", op))
		}
	}
	if n.Expires.After(parent.Expires) {
		out = append(out, fmt.Sprintf("expires: %s is later than %s", n.Expires.UTC().Format(time.RFC3339), parent.Expires.UTC().Format(time.RFC3339)))
	}
	return out
}

// narrowed meets the parent's authority with what is kept.
func narrowed(agent *Agent, parent Capability, n Narrowing) (powerbox.Authority, error) {
	depth := parent.Authority.Depth()
	if n.Recipient.ID != "" && n.Recipient.ID != parent.Holder {
		if depth--; depth < 0 {
			return powerbox.Authority{}, errors.New("the capability may not be passed on to another holder")
		}
	}
	window := parent.Authority.Window()
	if !n.Expires.IsZero() {
		window.Until = n.Expires.UTC().Truncate(time.Second)
	}
	var clauses []powerbox.Clause
	for _, c := range parent.Authority.Clauses() {
		name, ours := Unqualify(parent.Agent, parent.Grant, c.Pattern.Name())
		if ours && n.Operations != nil && !slices.Contains(n.Operations, name) {
			continue
		}
		shape := powerbox.AnyArguments()
		if _, handle := agent.shapeOf(parent.Grant, name); ours && handle != "" && n.Handles != nil {
			values := make([]powerbox.Value, len(n.Handles))
			for k, h := range n.Handles {
				values[k] = powerbox.String(h)
			}
			var err error
			if shape, err = powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: handle, Constraint: powerbox.OneOf{Values: values}, Required: true}); err != nil {
				return powerbox.Authority{}, err
			}
		}
		clauses = append(clauses, powerbox.Clause{Pattern: c.Pattern, Shape: shape})
	}
	kept, err := powerbox.NewAuthority(window, depth, clauses...)
	return parent.Authority.Meet(kept), err
}

// Held returns a capability of any agent that the caller holds and can use.
func (i *Issuer) Held(ctx context.Context, caller identity.Caller, id string) (Capability, error) {
	c, err := i.Capability(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Capability{}, err
	}
	if refusal := i.usable(c, c.Agent, caller); refusal != nil {
		return Capability{}, refusal
	}
	return c, nil
}
