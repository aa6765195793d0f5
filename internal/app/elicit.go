package app

import (
	"context"
	"errors"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// toolAsks keeps questions about tool calls at the desk. Their callers keep the calls and
// make them again (ADR 121).
type toolAsks struct{ holds holds }

// toolAsks is the desk as gateways know it for tool calls, nil where nothing is left to
// people.
func (i *Instance) toolAsks() gateway.Asks {
	h, ok := i.holds()
	if !ok {
		return nil
	}
	return toolAsks{h}
}

// toolGateway is the gateway of such a call on record: any gateway of the agent makes it.
func toolGateway(agent string) string { return "mcp:" + agent }

func toolKey(agent, key string) string { return "mcp/" + agent + "/" + key }

// Asked implements [gateway.Asks].
func (t toolAsks) Asked(ctx context.Context, agent, key string) (gateway.AskedCall, bool, error) {
	q, c, counts, err := t.holds.desk.Attempt(ctx, agent, toolKey(agent, key))
	return t.answer(q, c), counts, err
}

// Ask implements [gateway.Asks].
func (t toolAsks) Ask(ctx context.Context, c gateway.HeldCall) (gateway.AskedCall, error) {
	q := approval.Question{
		Key: toolKey(c.Agent, c.Key), Agent: c.Agent, Principal: c.Caller.Principal, Holder: c.Caller.Holder.ID, Requester: c.Caller.Agent,
		Purpose: c.Purpose, Cause: approval.Cause{Record: c.Decision, Trace: c.Trace}, Matters: t.holds.matters(c),
	}
	asked, call, err := t.holds.desk.Hold(ctx, q, approval.Call{
		Agent: c.Agent, Tenant: c.Tenant, Owner: issuer.Owner(c.Owner), Gateway: toolGateway(c.Agent), Digest: c.Digest,
		Parent: c.Parent, Under: c.Under, Through: c.Through, Authority: c.Authority.JSON().AppendJSON(nil),
	})
	if refusal := (*issuer.Refusal)(nil); errors.As(err, &refusal) {
		return gateway.AskedCall{}, deskDenial{refusal}
	}
	return t.answer(asked, call), err
}

// Begin implements [gateway.Asks].
func (t toolAsks) Begin(ctx context.Context, agent string, a gateway.AskedCall) (string, bool, error) {
	c, ok, err := t.holds.desk.BeginCall(ctx, toolGateway(agent), agent, a.Task)
	return c.Capability, ok, err
}

// Made implements [gateway.Asks].
func (t toolAsks) Made(ctx context.Context, a gateway.AskedCall, failed bool, decision string) error {
	return t.holds.Made(ctx, a.Question, failed, decision, "", nil)
}

func (t toolAsks) answer(q approval.Question, c approval.Call) gateway.AskedCall {
	d := t.holds.desk
	a := gateway.AskedCall{Question: q.ID, Task: c.Task, URL: d.Page(q.ID), Expires: q.Expires}
	switch q.At(d.Now()) {
	case issuer.StatePending:
		a.State = a2a.OwnAuthRequired
	case issuer.StateApproved:
		a.State = a2a.OwnWorking
	case issuer.StateDenied:
		a.State, a.Denied = a2a.OwnFailed, string(issuer.CodeApprovalDenied)
	default:
		a.State, a.Denied = a2a.OwnFailed, string(issuer.CodeApprovalExpired)
	}
	return a
}

// apart answers a remote gateway about the tool calls of its agent.
func (t toolAsks) apart(ctx context.Context, agent string, q link.HeldQuery) (link.HeldAnswer, error) {
	c := q.Call
	if c == nil || c.Key == "" {
		return link.HeldAnswer{}, &issuer.TargetError{Message: "want a call with a key"}
	}
	asked, known, err := t.Asked(ctx, agent, c.Key)
	switch {
	case err != nil || q.Do == link.HeldFind:
	case q.Do == link.HeldAskKept:
		return t.askRemote(ctx, agent, c)
	case !known || asked.Task != q.Task:
		known = false
	case q.Do == link.HeldBeginKept:
		var capability string
		capability, known, err = t.Begin(ctx, agent, asked)
		return link.HeldAnswer{Known: known, Rulings: []link.Ruling{{Task: asked.Task, Capability: capability}}}, err
	case q.Result != nil:
		err = t.Made(ctx, asked, q.Result.Failed, q.Result.Decision)
	}
	return link.HeldAnswer{Known: known, Task: askedWire(asked)}, err
}

func (t toolAsks) askRemote(ctx context.Context, agent string, c *link.HeldCall) (link.HeldAnswer, error) {
	if c.Digest == "" {
		return link.HeldAnswer{}, &issuer.TargetError{Message: "want a call with a digest"}
	}
	held, err := heldHere(agent, c)
	if err != nil {
		return link.HeldAnswer{}, err
	}
	value, err := powerbox.ParseValue(c.Authority)
	if err == nil {
		held.Authority, err = powerbox.ParseAuthority(value)
	}
	if err != nil {
		return link.HeldAnswer{}, &issuer.TargetError{Message: "authority: " + err.Error()}
	}
	held.Key, held.Digest = c.Key, c.Digest
	held.Tenant, held.Owner, held.Purpose, held.Decision, held.Trace = c.Tenant, c.Owner, c.Purpose, c.Decision, c.Trace
	held.Parent, held.Under, held.Through = c.Parent, c.Under, c.Through
	held.Caller.Principal, held.Caller.Holder.ID, held.Caller.Agent = c.Principal, c.Holder, c.Requester

	asked, err := t.Ask(ctx, held)
	if refused := (deskDenial{}); errors.As(err, &refused) {
		return link.HeldAnswer{Refused: &link.Refused{Reason: string(refused.Code), Message: refused.Message, Record: refused.Record}}, nil
	}
	return link.HeldAnswer{Known: err == nil, Task: askedWire(asked)}, err
}

// askedWire is the wire form of a call that waits for people.
func askedWire(a gateway.AskedCall) link.HeldTask {
	return link.HeldTask{Question: a.Question, Task: a.Task, State: a.State, URL: a.URL, Expires: a.Expires, Denied: a.Denied}
}
