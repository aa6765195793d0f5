package server

import (
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuer"
)

// References resolves capabilities by the issuer's record: the second of the
// gate's resolvers, for holders without a key.
type References struct{ Issuer *issuer.Issuer }

// Resolve implements [gate.Resolver]. An unknown id, and one of another agent
// or holder, get one answer.
func (r References) Resolve(ctx context.Context, call *gate.Call, p gate.Presented, _ time.Time) (gate.Held, error) {
	c, err := r.Issuer.Capability(ctx, p.Reference)
	if err != nil && !errors.Is(err, issuer.ErrNotFound) {
		return gate.Held{}, err
	}
	if err != nil || c.Agent != call.Target.ID || c.Holder != call.Caller.Holder || call.Caller.Holder == "" {
		return gate.Held{}, &gate.Refusal{Reasons: []gate.Reason{{
			Code: gate.CodeCapabilityUnknown, Link: -1, Message: "the caller holds no such capability of this agent",
		}}}
	}
	return gate.Held{
		Capability: c.ID, OnRecord: c.ID, Root: c.Root, Principal: r.Issuer.Pseudonym(c.Agent, c.Principal), Holder: c.Holder,
		Authority: c.Authority, Links: c.Lineage(), Legacy: c.Legacy,
	}, nil
}

// Recorder writes the gate's records into the issuer's store.
type Recorder struct{ Store issuer.Store }

// Record implements [gate.Recorder].
func (r Recorder) Record(ctx context.Context, record evidence.Record) (evidence.Sealed, error) {
	var sealed evidence.Sealed
	err := r.Store.Update(ctx, func(tx issuer.Tx) error {
		var err error
		sealed, err = tx.Append(record)
		return err
	})
	return sealed, err
}

// Tasks keeps the owners of tasks in the issuer's store.
type Tasks struct{ Store issuer.Store }

// Owner returns to whom a task or context belongs.
func (t Tasks) Owner(ctx context.Context, agent, task string) (struct{ Root, Principal, Holder string }, bool, error) {
	var o issuer.Owner
	var known bool
	err := t.Store.View(ctx, func(r issuer.Reader) error {
		var err error
		o, known, err = r.TaskOwner(agent, task)
		return err
	})
	return o, known, err
}

// Bind remembers the owner of a task or context; the first one stays.
func (t Tasks) Bind(ctx context.Context, agent, task string, owner struct{ Root, Principal, Holder string }) (struct{ Root, Principal, Holder string }, error) {
	var first issuer.Owner
	err := t.Store.Update(ctx, func(tx issuer.Tx) error {
		var err error
		first, err = tx.BindTask(agent, task, owner)
		return err
	})
	return first, err
}

// Resources opens handles with the issuer's key and names what is behind.
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

// Held returns the handles of a capability on record.
func (r Resources) Held(ctx context.Context, capability string) ([]string, error) {
	c, err := r.Issuer.Capability(ctx, capability)
	if errors.Is(err, issuer.ErrNotFound) {
		return nil, nil
	}
	handles := make([]string, len(c.Handles))
	for i, h := range c.Handles {
		handles[i] = h.Handle
	}
	return handles, err
}

// Veto asks the issuer's policy again at use. It can only subtract.
type Veto struct{ Policy issuer.Policy }

// Veto implements [gate.Policy]. The session's groups and roles are not part
// of a capability, so what policy says of them was settled at issue; what is
// left to subtract at use is nothing yet.
func (v Veto) Veto(*gate.Call, gate.Held) string { return "" }

// Digest implements [gate.Policy].
func (v Veto) Digest() string { return v.Policy.Digest() }
