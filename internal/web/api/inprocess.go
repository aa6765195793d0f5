package api

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// References resolves capabilities by the issuer's record: the second of the
// gate's resolvers, for holders without a key.
type References struct{ Issuer *issuer.Issuer }

// Resolve implements [gate.Resolver]. An unknown id, and one of another agent
// or holder, get one answer.
func (r References) Resolve(ctx context.Context, call *gate.Call, p gate.Presented, _ time.Time) (gate.Held, error) {
	c, err := r.Issuer.Presentable(ctx, p.Reference)
	if err != nil {
		return gate.Held{}, err
	}
	if c.ID == "" || c.Agent != call.Target.ID || c.Holder != call.Caller.Holder || call.Caller.Holder == "" {
		return gate.Held{}, link.Unknown()
	}
	return r.held(c), nil
}

func (r References) held(c issuer.Capability) gate.Held {
	return gate.Held{
		Capability: c.ID, OnRecord: c.ID, Root: c.Root, Principal: r.Issuer.Pseudonym(c.Agent, c.Principal), Holder: c.Holder,
		Authority: c.Authority, Links: c.Lineage(), Legacy: c.Legacy, Digest: c.Digest,
	}
}

// Given returns what operators gave a caller for calls of an operation that present nothing.
func (r References) Given(ctx context.Context, agent string, caller identity.Caller, operation powerbox.Operation) ([]gate.Held, error) {
	all, err := r.Issuer.GivenTo(ctx, agent, caller, operation)
	out := make([]gate.Held, 0, len(all))
	for _, c := range all {
		held := r.held(c)
		if held.Accounts, err = c.Accounts(); err != nil {
			return nil, err
		}
		held.Issued, held.Links = c.Issued(), append(held.Links, c.Links()...)
		out = append(out, held)
	}
	return out, err
}

// Recorder writes the gate's records into the issuer's store.
type Recorder struct{ Store issuer.Store }

// Record implements [gate.Recorder].
func (r Recorder) Record(ctx context.Context, record evidence.Record) (evidence.Sealed, error) {
	var sealed evidence.Sealed
	if ctx = issuer.InTime(ctx); gate.IsLazy(ctx) {
		ctx = issuer.Lazy(ctx)
	}
	err := r.Store.Update(ctx, func(tx issuer.Tx) error {
		var err error
		sealed, err = tx.Append(record)
		return err
	})
	if err != nil {
		return evidence.Sealed{}, err // it may be written to still
	}
	return sealed, nil
}

// Spend implements [gate.Ledger].
func (r Recorder) Spend(ctx context.Context, record evidence.Record, take []gate.Reservation) (evidence.Sealed, error) {
	var sealed evidence.Sealed
	err := r.Store.Update(issuer.InTime(ctx), func(tx issuer.Tx) error {
		for _, one := range take {
			ok, err := tx.Reserve(record.ID, one.Of, one)
			if err == nil && !ok {
				err = gate.ErrSpent
			}
			if err != nil {
				return err
			}
		}
		var err error
		sealed, err = tx.Append(record)
		return err
	})
	if err != nil {
		return evidence.Sealed{}, err // it may be written to still
	}
	return sealed, nil
}

// Settle implements [gate.Ledger].
func (r Recorder) Settle(ctx context.Context, decision string, back bool) error {
	return r.Store.Update(issuer.InTime(context.WithoutCancel(ctx)), func(tx issuer.Tx) error { return tx.Settle(decision, back) })
}

// Tasks keeps the owners of tasks in the issuer's store.
type Tasks struct {
	Store  issuer.Store
	Issuer *issuer.Issuer
}

// Owner returns to whom a task or context belongs.
func (t Tasks) Owner(ctx context.Context, agent, tenant, task string) (struct{ Root, Principal, Holder string }, bool, error) {
	var o issuer.Owner
	var known bool
	err := t.Store.View(ctx, func(r issuer.Reader) error {
		var err error
		o, known, err = r.TaskOwner(agent, tenant, task)
		return err
	})
	return o, known, err
}

// End ends the capabilities that were issued for a task.
func (t Tasks) End(ctx context.Context, agent, tenant, task string) error {
	return t.Issuer.EndTask(ctx, agent, tenant, task)
}

// Bind remembers the owner of a task or context; the first one stays.
func (t Tasks) Bind(ctx context.Context, agent, tenant, task string, owner struct{ Root, Principal, Holder string }) (struct{ Root, Principal, Holder string }, error) {
	var first issuer.Owner
	err := t.Store.Update(issuer.InTime(ctx), func(tx issuer.Tx) error {
		var err error
		first, err = tx.BindTask(agent, tenant, task, owner)
		return err
	})
	if err != nil {
		return issuer.Owner{}, err // it may be written to still
	}
	return first, nil
}

// Resources opens handles with the issuer's key and names the resources behind them.
type Resources struct {
	Issuer *issuer.Issuer
	Sealer *catalogue.Sealer
}

// Open returns the resource behind a handle of an agent and root capability.
func (r Resources) Open(agentID, root, handle string) (id, name string, ok bool) {
	id, ok = r.Sealer.Open(agentID, root, handle)
	if !ok {
		return "", "", false
	}
	if agent, known := r.Issuer.Agent(agentID); known {
		for _, item := range agent.Resources {
			if item.ID == id {
				return id, item.Name, true
			}
		}
	}
	return id, "", true
}

// Held returns the handles of a capability on record, as far as policy still
// gives them.
func (r Resources) Held(ctx context.Context, capability string) ([]string, error) {
	c, err := r.Issuer.OnRecord(ctx, capability)
	if err != nil {
		return nil, err
	}
	handles := []string{}
	for _, h := range r.Issuer.Permitted(c) {
		handles = append(handles, h.Handle)
	}
	return handles, nil
}

// Veto asks the issuer's policy again at use, where it is another than at
// issue. It can only subtract.
type Veto struct{ Issuer *issuer.Issuer }

// Veto implements [gate.Policy]. A capability whose record cannot be read is
// vetoed: whether the user may still do it is not known.
func (v Veto) Veto(ctx context.Context, call *gate.Call, held gate.Held) string {
	if held.Foreign != "" {
		return "" // the user behind it is the other issuer's, of whom policy knows nothing
	}
	c, err := v.Issuer.OnRecord(ctx, held.OnRecord)
	if err != nil {
		return link.VetoUntold
	}
	if operation, vetoed := v.Issuer.Vetoed(c, call.Attempts); vetoed {
		return "the user's policy has changed and no longer allows " + operation
	}
	return ""
}

// Digest implements [gate.Policy].
func (v Veto) Digest() string { return v.Issuer.PolicyDigest() }

// OnRecord resolves a capability and adds the issuer's record of it: the task that it is
// for, and ends with (SEP-22).
type OnRecord struct {
	Resolver gate.Resolver
	Issuer   *issuer.Issuer
}

// Resolve implements [gate.Resolver]. A chain whose capability is not on record
// was not issued here, whatever key signed it.
func (r OnRecord) Resolve(ctx context.Context, call *gate.Call, p gate.Presented, now time.Time) (gate.Held, error) {
	held, err := r.Resolver.Resolve(ctx, call, p, now)
	if err != nil || held.Foreign != "" {
		return held, err // another issuer's grant is on its record, not on ours
	}
	c, err := r.Issuer.OnRecord(ctx, held.OnRecord)
	if err != nil {
		return gate.Held{}, err
	}
	if c.ID == "" || c.Agent != call.Target.ID {
		return gate.Held{}, &gate.Refusal{Reasons: []evidence.Reason{{
			Code: gate.CodeCapabilityUnknown, Link: new(0), Message: "the token's capability is not on record at this agent",
		}}}
	}
	held.Task, held.Tenant = c.Task, c.Tenant
	held.Links = append(held.Links, c.Links()...)
	held.Issued = c.Issued()
	if held.Accounts, err = c.Accounts(); err != nil {
		return gate.Held{}, err
	}
	var before []string
	for _, id := range c.Ancestors {
		a, err := r.Issuer.OnRecord(ctx, id)
		if err != nil {
			return gate.Held{}, err
		}
		before = append(before, a.Holder)
	}
	if c.Digest != "" {
		before = append(before, c.Through...) // some of them are on no record
	}
	held.Through = append(before, held.Through...)
	return held, nil
}
