package app

import (
	"context"
	"errors"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// guardAsks keeps attempts of guards at the desk.
type guardAsks struct{ holds holds }

// guardAsks is the desk as guards know it, nil where nothing is left to people.
func (i *Instance) guardAsks() api.Approvals {
	h, ok := i.holds()
	if !ok {
		return nil
	}
	return guardAsks{h}
}

// guardKey is that of the question about an attempt. Its digest names the guard.
func guardKey(a api.GuardAttempt) string { return "guard/" + a.Digest }

// Find implements [api.Approvals].
func (g guardAsks) Find(ctx context.Context, a api.GuardAttempt) (api.GuardAnswer, bool, error) {
	q, c, counts, err := g.holds.desk.Attempt(ctx, a.Agent, guardKey(a))
	return g.answer(q, c), counts, err
}

// Ask implements [api.Approvals].
func (g guardAsks) Ask(ctx context.Context, a api.GuardAttempt) (api.GuardAnswer, error) {
	held := gateway.HeldCall{Agent: a.Agent, HeldSubject: gateway.HeldSubject{
		Operations: []gateway.HeldOperation{{Name: a.Operation.String(), Write: a.Write}}, Arguments: a.Arguments,
	}}
	if kind, id := a.Resource[0], a.Resource[1]; id != "" {
		held.Resource, held.ResourceName = id, kind+" "+id
	}
	q := approval.Question{
		Key: guardKey(a), Agent: a.Agent, Principal: a.Who.Principal, Holder: a.Who.Holder, Requester: a.Who.Name, Purpose: a.Purpose, Cause: approval.Cause{Record: a.Decision, Trace: a.Trace},
		Matters: g.holds.matters(held),
	}
	asked, c, err := g.holds.desk.Hold(ctx, q, approval.Call{
		Agent: a.Agent, Tenant: a.Tenant, Owner: issuer.Owner{Holder: api.GuardHolder(a.Guard)}, Gateway: api.GuardHolder(a.Guard), Digest: a.Digest,
		Parent: a.Held.OnRecord, Under: a.Held.Links, Through: a.Held.Through, Authority: a.Authority.JSON().AppendJSON(nil),
	})
	return g.answer(asked, c), err
}

// Begin implements [api.Approvals].
func (g guardAsks) Begin(ctx context.Context, a api.GuardAttempt, said api.GuardAnswer) (string, bool, error) {
	c, ok, err := g.holds.desk.BeginCall(ctx, api.GuardHolder(a.Guard), a.Agent, said.Task)
	if ok && c.Digest != a.Digest {
		return "", false, errors.New("the approval is of another attempt")
	}
	return c.Capability, ok, err
}

// Made implements [api.Approvals].
func (g guardAsks) Made(ctx context.Context, said api.GuardAnswer, allowed bool, decision, text string) error {
	return g.holds.Made(ctx, said.Question, !allowed, decision, text, nil)
}

func (g guardAsks) answer(q approval.Question, c approval.Call) api.GuardAnswer {
	d := g.holds.desk
	return api.GuardAnswer{
		Guard: c.Gateway, Question: q.ID, Task: c.Task, URL: d.Page(q.ID), Holder: q.Holder, State: q.At(d.Now()), Reason: q.Reason, Decision: q.Record, Expires: q.Expires, Interval: askInterval,
	}
}
