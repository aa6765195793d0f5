package powerboxa2a

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
)

// Handoffs asks before an agent hands a task to another: what the task requires
// must be within what the peer can do and this agent's scope at it, or nothing is
// sent (GATE-1, GATE-6). It is a client interceptor for clients of one peer, with
// or without a gateway in front of it, and stands behind all others. Reading and
// ending tasks is no hand-off.
//
// A call that is refused returns a *[gate.Failure]; [Violation] makes of it what
// the task of this agent becomes.
type Handoffs struct {
	a2aclient.PassthroughInterceptor
	From string         // this agent's name. Required.
	Card *a2a.AgentCard // of the peer: a skill that is not on it adds nothing (GATE-4). Required.
	// Skills are the operations of the peer's skills by their ids, as this agent's
	// operator has them. A skill that is not among them is an unknown requirement,
	// which is refused (GATE-5).
	Skills map[string]powerbox.Operation
	// Scope is what this agent may have done by the peer, as it was configured where
	// the agent was deployed. The zero Authority is nothing.
	Scope powerbox.Authority
	// FreeText is what a message requires that names no skill. Empty: such a message
	// is refused.
	FreeText []powerbox.Operation
	Now      func() time.Time // Required.
	// Record keeps evidence of every attempt, with the failure of one that is
	// refused and nil otherwise (GATE-10). Where it cannot, nothing is sent. Required.
	Record func(ctx context.Context, h gate.Handoff, failure *gate.Failure) error
}

// Before implements [a2aclient.CallInterceptor].
func (o *Handoffs) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	if o.From == "" || o.Card == nil || o.Now == nil || o.Record == nil {
		return ctx, nil, errors.New("powerbox: Handoffs needs From, Card, Now and Record")
	}
	message, ok := req.Payload.(*a2a.SendMessageRequest)
	if !ok {
		return ctx, nil, nil
	}
	h := gate.Handoff{From: o.From, To: o.Card.Name, Scope: o.Scope}
	var err error
	if h.Caps, err = o.caps(); err != nil {
		return ctx, nil, err
	}
	read, err := readMessage(message)
	if err != nil {
		return ctx, nil, fmt.Errorf("powerbox: the message cannot be told apart: %w", err)
	}
	switch op, known := o.Skills[read.skill]; {
	case read.skill == "":
		h.Required = slices.Clone(o.FreeText)
	case known:
		h.Required = []powerbox.Operation{op}
	}
	failure := gate.Preflight(h, o.Now())
	if err := o.Record(ctx, h, failure); err != nil {
		return ctx, nil, fmt.Errorf("powerbox: the hand-off is not recorded, and so not made: %w", err)
	}
	if failure != nil {
		return ctx, nil, failure
	}
	return ctx, nil, nil
}

// caps is Caps(peer): the operations that the skills of its card are.
func (o *Handoffs) caps() (powerbox.Authority, error) {
	var clauses []powerbox.Clause
	for _, s := range o.Card.Skills {
		op, ok := o.Skills[s.ID]
		if !ok || slices.ContainsFunc(clauses, func(c powerbox.Clause) bool { return c.Pattern.Matches(op) }) {
			continue
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	return powerbox.NewAuthority(powerbox.Window{Until: o.Now().Add(time.Minute)}, 0, clauses...)
}

// Violation returns the event with which the task of an agent fails whose hand-off
// was refused: TASK_STATE_FAILED. Its status names exactly the missing
// permissions, so that they stand in the task's history (GATE-3). For other errors
// it is false.
func Violation(task a2a.TaskInfoProvider, err error) (a2a.Event, bool) {
	var f *gate.Failure
	if !errors.As(err, &f) {
		return nil, false
	}
	return a2a.NewStatusUpdateEvent(task, a2a.TaskStateFailed, a2a.NewMessageForTask(a2a.MessageRoleAgent, task, a2a.NewTextPart(f.Error()))), true
}
