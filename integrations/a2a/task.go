package powerboxa2a

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// Task is what an agent may do for one call: what the gateway has signed about
// it. It is safe for use by several goroutines.
type Task struct {
	// Context is the gateway's signed statement: principal (a pseudonym),
	// holder, capability, authority, the resources behind handles, and the
	// delegations. It must not be changed.
	Context token.Context

	in     *Inbound
	wallet *holder.Wallet

	mu      sync.Mutex // guards claimed, and held while something is claimed
	claimed map[token.ContextDelegation]bool
}

func (in *Inbound) newTask(c token.Context) *Task {
	return &Task{
		Context: c, in: in, wallet: holder.NewWallet(in.config.Holder),
		claimed: map[token.ContextDelegation]bool{},
	}
}

// bounded reports whether an authority limits the call: that of a capability, or
// the caller's standing scope. The modes observe and prefer also let through
// calls without one.
func (t *Task) bounded() bool {
	return t.Context.Basis == string(gate.OnCapability) || t.Context.Basis == string(gate.OnStanding)
}

// Handles are the resources that the task may touch: their ids, as the agent
// knows them, by the opaque handle that callers use. bounded is false where the
// task is not bounded by handles; true and none means that it may touch nothing.
func (t *Task) Handles() (ids map[string]string, bounded bool) {
	if t.Context.Handles == nil {
		return nil, false
	}
	ids = make(map[string]string, len(t.Context.Handles))
	for handle, resource := range t.Context.Handles {
		ids[handle] = resource.ID
	}
	return ids, true
}

// Permits decides whether the task may call a skill of the agent with those
// arguments: what an executor asks before every effect, the more so where words
// asked for it. The error is the denial, to be returned as it is, and a
// [powerbox.ErrDenied].
func (t *Task) Permits(ctx context.Context, skill string, arguments map[string]any) error {
	args, err := valueOf(arguments)
	if err != nil {
		return t.denied(wrongArguments(skill, err))
	}
	mapped, why := t.mapped(ctx, skill)
	if why != nil {
		return t.denied(*why)
	}
	return t.permits(mapped, args)
}

// PermitsOperation is [Task.Permits] for an operation that is no skill of the
// agent's card, by its full name.
func (t *Task) PermitsOperation(op powerbox.Operation, arguments powerbox.Value) error {
	return t.permits(holder.Skill{Operation: op}, arguments)
}

func (t *Task) permits(s holder.Skill, args powerbox.Value) error {
	attempt, err := powerbox.Invocation(s.Operation, args)
	if err != nil {
		return t.denied(wrongArguments(s.Operation.String(), err))
	}
	if reasons := t.decide([]powerbox.Attempt{attempt}, s.Handle); len(reasons) > 0 {
		return t.denied(reasons...)
	}
	return nil
}

func wrongArguments(of string, err error) evidence.Reason {
	return evidence.Reason{Code: "params", Message: fmt.Sprintf("the arguments of %q are no JSON object: %v", of, err)}
}

// mapped is what a skill of the agent is in its authority.
func (t *Task) mapped(ctx context.Context, skill string) (holder.Skill, *evidence.Reason) {
	skills, err := t.in.skillSet(ctx)
	if err != nil {
		t.in.config.Log.WarnContext(ctx, "what skills stand for cannot be told", "error", err)
		return holder.Skill{}, &evidence.Reason{Code: gate.CodeUnavailable, Message: "what skill " + skill + " stands for cannot be told now"}
	}
	s, ok := skills[skill]
	if !ok {
		return holder.Skill{}, &evidence.Reason{Code: "skill_unmapped", Message: "skill " + skill + " maps to no operation here"}
	}
	return s, nil
}

// decide holds attempts against the authority that the gateway has signed, at
// the time of the asking. handle is the argument that takes one.
func (t *Task) decide(attempts []powerbox.Attempt, handle string) []evidence.Reason {
	if !t.bounded() {
		if t.in.config.RequireCapability {
			needed := worded(powerbox.Reason{Code: gate.CodeCapabilityRequired})
			needed.Message += "; request one with " + methodRequest
			return []evidence.Reason{*needed}
		}
		return nil
	}
	var out []evidence.Reason
	for _, a := range attempts {
		for _, r := range powerbox.Decide(a, t.Context.Authority, t.in.config.Now()).Reasons {
			if r.Code == powerbox.CodeArgumentConstraint && r.Argument == handle && handle != "" {
				r = noHandle(r.Operation, handle)
			}
			out = append(out, gate.Worded(r))
		}
		if len(out) == 0 && !t.reaches(a, handle) {
			out = append(out, gate.Worded(noHandle(a.Operation().String(), handle)))
		}
	}
	return out
}

// noHandle is one answer for unknown, foreign and merely not granted (SEP-19).
func noHandle(operation, argument string) powerbox.Reason {
	return powerbox.Reason{Code: gate.CodeHandle, Operation: operation, Argument: argument}
}

// worded is a reason in the gate's words.
func worded(r powerbox.Reason) *evidence.Reason {
	out := gate.Worded(r)
	return &out
}

// methodRequest is the method by which callers get a capability.
const methodRequest = "a2a/capabilities/request"

// reaches reports whether the resource that an attempt names is one of those
// that the gateway said: policy may have taken one away that the capability
// still names.
func (t *Task) reaches(a powerbox.Attempt, handle string) bool {
	if handle == "" || t.Context.Handles == nil {
		return true
	}
	named, ok := a.Arguments().Get(handle)
	if !ok {
		return true // the shape says whether it may be left out
	}
	text, _ := named.Text()
	_, known := t.Context.Handles[text]
	return known
}

// constrained reports whether any operation of the task is held to arguments,
// to which words cannot be held.
func (t *Task) constrained() bool {
	return slices.ContainsFunc(t.Context.Authority.Clauses(), func(c powerbox.Clause) bool {
		return len(c.Shape.Fields()) > 0 || c.Shape.Rest() == powerbox.RestNone
	})
}

// Wallet holds the capabilities of other agents that came with the task, bound
// to the agent's key ([Config.Holder]), and what an [Outbound] has asked for
// while the agent worked on it.
func (t *Task) Wallet() *holder.Wallet { return t.wallet }

// receiveHeader accepts the capabilities handed over in a header. A useless
// one is no reason to refuse a call that the gateway has let through.
func (t *Task) receiveHeader(ctx context.Context, value string) {
	t.received(ctx, t.wallet.ReceiveHeader(value, t.in.config.Now()))
}

func (t *Task) receiveMetadata(ctx context.Context, metadata map[string]any) {
	t.received(ctx, t.wallet.Receive(metadata, t.in.config.Now()))
}

func (t *Task) received(ctx context.Context, err error) {
	if err != nil {
		t.in.config.Log.WarnContext(ctx, "what was handed over with a call is not of use", "decision", t.Context.Decision, "error", err)
	}
}
