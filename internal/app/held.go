package app

import (
	"context"
	"errors"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// maxRulings is how many calls one question for rulings is about.
const maxRulings = 1024

// heldRemote answers remote gateways about the calls that they hold
// back: each about those of its agent, and about its own.
func (h holds) heldRemote(ctx context.Context, of issuer.Gateway, q link.HeldQuery) (link.HeldAnswer, error) {
	var a link.HeldAnswer
	switch q.Do {
	case link.HeldAsk:
		return h.askRemote(ctx, of, q.Call)
	case link.HeldTell:
		task, known, err := h.Task(ctx, of.Agent, q.Task)
		return link.HeldAnswer{Known: known, Task: remoteTask(task)}, err
	case link.HeldList:
		own, err := h.Of(ctx, of.Agent, q.Tenant, q.Owner)
		for _, t := range own {
			a.Tasks = append(a.Tasks, remoteTask(t))
		}
		return a, err
	case link.HeldCancel:
		task, err := h.Cancel(ctx, of.Agent, q.Task)
		if errors.Is(err, issuer.ErrNotFound) {
			return a, nil
		}
		return link.HeldAnswer{Known: true, Task: remoteTask(task)}, err
	case link.HeldRulings:
		return h.rulings(ctx, of, q.Tasks)
	case link.HeldBegin:
		c, ok, err := h.desk.BeginCall(ctx, of.ID, of.Agent, q.Task)
		if ok {
			a = link.HeldAnswer{Known: true, Rulings: []link.Ruling{{Task: c.Task, Capability: c.Capability}}}
		}
		return a, err
	case link.HeldMade:
		return a, h.madeRemote(ctx, of, q)
	case link.HeldFind, link.HeldAskKept, link.HeldBeginKept, link.HeldMadeKept:
		return toolAsks{h}.apart(ctx, of.Agent, q)
	}
	return a, &issuer.TargetError{Message: "do is none of what is known here; the gateway may be newer than the server"}
}

// askRemote asks people about a call whose bytes the gateway keeps.
func (h holds) askRemote(ctx context.Context, of issuer.Gateway, c *link.HeldCall) (link.HeldAnswer, error) {
	if c == nil || len(c.Task) <= len(gateway.HeldPrefix) || c.Task[:len(gateway.HeldPrefix)] != gateway.HeldPrefix || c.Digest == "" {
		return link.HeldAnswer{}, &issuer.TargetError{Message: "want a call with a task and a digest"}
	}
	held, err := heldHere(of.Agent, c)
	if err != nil {
		return link.HeldAnswer{}, err
	}
	q := approval.Question{
		Agent: of.Agent, Principal: c.Principal, Holder: c.Holder, Requester: c.Requester, Purpose: c.Purpose, Cause: approval.Cause{Record: c.Decision, Trace: c.Trace}, Matters: h.matters(held),
	}
	asked, call, err := h.desk.Hold(ctx, q, approval.Call{
		Agent: of.Agent, Gateway: of.ID, Tenant: c.Tenant, Task: c.Task, Context: c.Context, Owner: issuer.Owner(c.Owner), Digest: c.Digest,
		Parent: c.Parent, Under: c.Under, Through: c.Through, Authority: c.Authority,
	})
	if refusal := (*issuer.Refusal)(nil); errors.As(err, &refusal) {
		return link.HeldAnswer{Refused: &link.Refused{Reason: string(refusal.Code), Message: refusal.Message, Record: refusal.Record}}, nil
	}
	return link.HeldAnswer{Known: err == nil, Task: remoteTask(h.task(asked, call))}, err
}

// heldHere is the subject of a call that a remote gateway asks about.
func heldHere(agent string, c *link.HeldCall) (gateway.HeldCall, error) {
	arguments := powerbox.Object()
	if len(c.Arguments) > 0 {
		var err error
		if arguments, err = powerbox.ParseValue(c.Arguments); err != nil {
			return gateway.HeldCall{}, &issuer.TargetError{Message: "arguments: " + err.Error()}
		}
	}
	held := gateway.HeldCall{Agent: agent, HeldSubject: gateway.HeldSubject{Resource: c.Resource, ResourceName: c.Name, Arguments: arguments}}
	for _, op := range c.Operations {
		held.Operations = append(held.Operations, gateway.HeldOperation(op))
	}
	return held, nil
}

// rulings are the answers of people about calls that a gateway holds. The gateway must
// not make a call that is not known.
func (h holds) rulings(ctx context.Context, of issuer.Gateway, tasks []string) (link.HeldAnswer, error) {
	var a link.HeldAnswer
	if len(tasks) > maxRulings {
		return a, &issuer.TargetError{Message: "too many calls in one question"}
	}
	for _, task := range tasks {
		q, c, err := h.desk.Ruling(ctx, of.ID, of.Agent, task)
		if err != nil && !errors.Is(err, issuer.ErrNotFound) {
			return a, err
		}
		r := link.Ruling{Task: task}
		switch c.State {
		case approval.CallWaits:
			r.Waits = q.Open(h.desk.Now())
		case approval.CallApproved, approval.CallBeingMade:
			r.Capability = c.Capability
		case approval.CallMade, approval.CallFailed, approval.CallCancelled:
		}
		a.Rulings = append(a.Rulings, r)
	}
	return a, nil
}

func (h holds) madeRemote(ctx context.Context, of issuer.Gateway, q link.HeldQuery) error {
	if q.Result == nil {
		return &issuer.TargetError{Message: "want what came of the call"}
	}
	question, _, err := h.desk.Ruling(ctx, of.ID, of.Agent, q.Task)
	if errors.Is(err, issuer.ErrNotFound) {
		return nil // it was forgotten meanwhile: no caller waits for it
	}
	if err != nil {
		return err
	}
	return h.Made(ctx, question.ID, q.Result.Failed, q.Result.Decision, q.Result.Text, q.Result.Answer)
}

// remoteTask is the wire form of a held task.
func remoteTask(t gateway.HeldTask) link.HeldTask {
	return link.HeldTask{
		Question: t.Question, Task: t.Task, Context: t.Context, State: t.State, Text: t.Text, URL: t.URL, Expires: t.Expires, Updated: t.Updated, Decision: t.Decision, Denied: t.Denied, Answer: t.Answer,
	}
}
