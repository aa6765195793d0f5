package remote

import (
	"context"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// remoteAsks asks the server about tool calls, for a remote gateway.
type remoteAsks struct{ Remote *link.Remote }

// Asked implements [gateway.Asks].
func (t remoteAsks) Asked(ctx context.Context, _, key string) (gateway.AskedCall, bool, error) {
	a, err := t.Remote.Held(ctx, link.HeldQuery{Do: link.HeldFind, Call: &link.HeldCall{Key: key}})
	return askedHere(key, a.Task), a.Known, err
}

// Ask implements [gateway.Asks].
func (t remoteAsks) Ask(ctx context.Context, c gateway.HeldCall) (gateway.AskedCall, error) {
	wire := heldWire(c)
	a, err := t.Remote.Held(ctx, link.HeldQuery{Do: link.HeldAskKept, Call: &wire})
	return askedHere(c.Key, a.Task), err
}

// Begin implements [gateway.Asks].
func (t remoteAsks) Begin(ctx context.Context, _ string, c gateway.AskedCall) (string, bool, error) {
	a, err := t.Remote.Held(ctx, link.HeldQuery{Do: link.HeldBeginKept, Task: c.Task, Call: &link.HeldCall{Key: c.Key}})
	if err != nil || !a.Known || len(a.Rulings) != 1 {
		return "", false, err
	}
	return a.Rulings[0].Capability, a.Rulings[0].Capability != "", nil
}

// Made implements [gateway.Asks].
func (t remoteAsks) Made(ctx context.Context, c gateway.AskedCall, failed bool, decision string) error {
	_, err := t.Remote.Held(ctx, link.HeldQuery{
		Do: link.HeldMadeKept, Task: c.Task, Call: &link.HeldCall{Key: c.Key}, Result: &link.HeldResult{Failed: failed, Decision: decision},
	})
	return err
}

func askedHere(key string, t link.HeldTask) gateway.AskedCall {
	return gateway.AskedCall{Key: key, Question: t.Question, Task: t.Task, State: t.State, URL: t.URL, Expires: t.Expires, Denied: t.Denied}
}

// hereTask is a held task of the wire as in the gateway.
func hereTask(t link.HeldTask) gateway.HeldTask {
	return gateway.HeldTask{
		Question: t.Question, Task: t.Task, Context: t.Context, State: t.State, Text: t.Text, URL: t.URL, Expires: t.Expires, Updated: t.Updated, Decision: t.Decision, Denied: t.Denied, Answer: t.Answer,
	}
}

// heldWire is a call as the server is asked about it.
func heldWire(c gateway.HeldCall) link.HeldCall {
	wire := link.HeldCall{
		Key: c.Key, Tenant: c.Tenant, Context: c.Context, Owner: c.Owner, Principal: c.Caller.Principal, Holder: c.Caller.Holder.ID, Requester: c.Caller.Agent, Purpose: c.Purpose,
		Resource: c.Resource, Name: c.ResourceName, Arguments: c.Arguments.AppendJSON(nil), Digest: c.Digest, Parent: c.Parent, Under: c.Under, Through: c.Through,
		Authority: c.Authority.JSON().AppendJSON(nil), Decision: c.Decision, Trace: c.Trace,
	}
	for _, op := range c.Operations {
		wire.Operations = append(wire.Operations, link.HeldOperation(op))
	}
	return wire
}
