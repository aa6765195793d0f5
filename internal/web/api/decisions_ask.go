package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Approvals asks people about attempts of guards, and keeps their answers.
type Approvals interface {
	// Find returns the newest question about an attempt, while it counts; false where
	// people must be asked.
	Find(ctx context.Context, a GuardAttempt) (GuardAnswer, bool, error)
	// Ask asks people, once. An [*issuer.Refusal] says why it cannot.
	Ask(ctx context.Context, a GuardAttempt) (GuardAnswer, error)
	// Begin returns the capability that people gave for the attempt; false where there
	// is none.
	Begin(ctx context.Context, a GuardAttempt, answer GuardAnswer) (string, bool, error)
	// Made reports the gate's verdict on the attempt under that capability.
	Made(ctx context.Context, answer GuardAnswer, allowed bool, decision, text string) error
}

// GuardAttempt is an attempt of a guard that a person has to approve.
type GuardAttempt struct {
	Guard, Agent, Tenant string
	Digest               string // of everything that it is
	Who                  GuardCaller
	Operation            powerbox.Operation
	Write                bool
	Arguments            powerbox.Value
	Resource             [2]string // type and id, empty where the resource is an agent
	Purpose, Trace       string
	Decision             string // id of the record
	Held                 gate.Held
	Authority            powerbox.Authority // its needs, and no more
}

// GuardCaller is whose attempt it is.
type GuardCaller struct{ Principal, Holder, Name string }

// GuardAnswer has the answers of people so far.
type GuardAnswer struct {
	Guard               string // that made the attempt, as [GuardHolder] names it
	Question, Task, URL string
	Holder              string // that the capability is for
	State               issuer.State
	Reason              string // of a no
	Decision            string // id of the record of the waiting attempt
	Expires             time.Time
	Interval            time.Duration
}

// GuardHolder is the holder of the capabilities that people approve for attempts of a
// guard.
func GuardHolder(name string) string { return "guard:" + name }

// pendingApproval tells a guard where the person is asked, and how often to ask again.
type pendingApproval struct {
	ID       string    `json:"id"`
	URL      string    `json:"approvalUrl"`
	Expires  time.Time `json:"expires"`
	Interval int       `json:"interval"` // seconds
}

// asks reports whether people may have to be asked about a call.
func (d *Decisions) asks(call *gate.Call) bool {
	return d.Approvals != nil && (call.Approval || d.sinkAsks(call)) && len(call.Refused) == 0 && call.Mode != gate.Observe
}

// withPeople decides an attempt that a person has to approve. The same attempt finds the
// same question: it waits, is allowed once, or is denied.
func (d *Decisions) withPeople(ctx context.Context, g *Guard, e evaluation, call *gate.Call, agent Guarded) (decision, error) {
	a, err := attemptOf(g, e, call)
	if err != nil {
		return decision{}, status{http.StatusBadRequest, err.Error()}
	}
	call.Bound = a.Digest
	said, known, err := d.Approvals.Find(ctx, a)
	if err != nil {
		return d.untold(ctx, g, err), nil
	}
	if !known {
		return d.askPeople(ctx, g, a, call, agent)
	}
	switch said.State {
	case issuer.StatePending:
		return d.waits(call, decision{Context: decisionContext{ID: said.Decision, Target: call.Target.ID}}, said), nil
	case issuer.StateApproved:
		return d.approved(ctx, g, a, said, call, agent)
	case issuer.StateDenied:
		call.Refused = []evidence.Reason{{Code: string(issuer.CodeApprovalDenied), Message: "a person has refused this attempt; do not try it again unless the user wants you to"}}
	default:
		call.Refused = []evidence.Reason{{Code: string(issuer.CodeApprovalExpired), Message: "no person answered in time; tell the user, and try again later if it is still wanted"}}
	}
	_, answer := d.check(ctx, g, call, agent)
	return answer, nil
}

// askPeople decides an attempt, and asks people where nothing but their word is missing.
func (d *Decisions) askPeople(ctx context.Context, g *Guard, a GuardAttempt, call *gate.Call, agent Guarded) (decision, error) {
	v, answer := d.check(ctx, g, call, agent)
	if !v.Waits {
		return answer, nil
	}
	var err error
	if a.Authority, err = neededBy(v, call); err != nil {
		return decision{}, err
	}
	a.Decision, a.Held = v.Record.ID, v.Held
	if v.Held.Holder != "" {
		a.Who.Holder, a.Who.Name = v.Held.Holder, v.Held.Origin
	}
	said, err := d.Approvals.Ask(ctx, a)
	var refused *issuer.Refusal
	switch {
	case errors.As(err, &refused):
		answer.Context.Text = refused.Message
		answer.Context.Reasons = []decisionReason{{Code: string(refused.Code), Operation: a.Operation.String(), Message: refused.Message}}
		return answer, nil
	case err != nil:
		return d.untold(ctx, g, err), nil
	}
	return d.waits(call, answer, said), nil
}

// approved decides an attempt under the capability that a person gave for it alone. The
// capability is used up with the record of the decision.
func (d *Decisions) approved(ctx context.Context, g *Guard, a GuardAttempt, said GuardAnswer, call *gate.Call, agent Guarded) (decision, error) {
	capability, ok, err := d.Approvals.Begin(ctx, a, said)
	if err == nil && !ok {
		err = errors.New("another attempt has used the approval")
	}
	if err != nil {
		return d.untold(ctx, g, err), nil
	}
	call.Caller.Holder, call.Released = said.Holder, true
	call.Presented = []gate.Presented{{Reference: capability}}
	v, answer := d.check(ctx, g, call, agent)
	if v.Record.ID == "" {
		return answer, nil
	}
	if err := d.Approvals.Made(context.WithoutCancel(ctx), said, v.Allowed, v.Record.ID, answer.Context.Text); err != nil {
		d.Log.ErrorContext(ctx, "that an approved attempt was decided is not noted", slog.String("question", said.Question), slog.Any("error", err))
	}
	return answer, nil
}

// untold denies where people's word cannot be had.
func (d *Decisions) untold(ctx context.Context, g *Guard, err error) decision {
	d.Log.ErrorContext(ctx, "what people say of an attempt cannot be told", slog.String("guard", g.Name), slog.Any("error", err))
	text := "Whether a person approves it cannot be told now; try again in a moment."
	return decision{Context: decisionContext{Text: text, Retryable: true, Reasons: []decisionReason{{Code: gate.CodeUnavailable, Message: text}}}}
}

// waits is the answer to an attempt that people have not answered yet.
func (d *Decisions) waits(call *gate.Call, answer decision, said GuardAnswer) decision {
	c := &answer.Context
	c.Text = fmt.Sprintf("A person has to approve this, at %s, until %s. Nothing was done. Try exactly the same again after that: it is then allowed once.",
		said.URL, said.Expires.UTC().Format(time.RFC3339))
	c.Reasons = []decisionReason{{Code: gate.CodeApproval, Operation: call.Attempts[0].Operation().String(), Message: "a person has to approve this attempt"}}
	c.Pending = &pendingApproval{said.Question, said.URL, said.Expires.UTC(), max(int(said.Interval/time.Second), 1)}
	c.requestable = d.requestable(said)
	return answer
}

// attemptOf is the attempt that a person is asked about.
func attemptOf(g *Guard, e evaluation, call *gate.Call) (GuardAttempt, error) {
	first := call.Attempts[0]
	a := GuardAttempt{
		Guard: g.Name, Agent: call.Target.ID, Tenant: call.Tenant, Operation: first.Operation(), Write: !call.Reads, Arguments: first.Arguments(),
		Who: GuardCaller{Holder: GuardHolder(g.Name), Name: call.Caller.Name}, Purpose: call.Record.Intent.Purpose, Trace: call.Record.Details.TraceID,
	}
	if e.Subject.Type == TypeUser {
		a.Who.Principal = TypeUser + ":" + e.Subject.ID
	}
	if e.Resource.Type != TypeAgent {
		a.Resource = [2]string{e.Resource.Type, e.Resource.ID}
	}
	var err error
	a.Digest, err = digestOf(g, e, call)
	return a, err
}

// digestOf names everything that an attempt is: the asking guard, the agent that it asks
// about, the operation, the arguments and the purpose. A proof is of one use and the
// trace is of one try, so neither counts.
func digestOf(g *Guard, e evaluation, call *gate.Call) (string, error) {
	shown, _ := e.Context.Get("capability")
	members, _ := shown.Members()
	var kept []powerbox.Member
	for _, m := range members {
		if m.Name != "proof" {
			kept = append(kept, m)
		}
	}
	parts := []any{
		"powerbox guard attempt/v1", g.Name, e.Subject.Type, e.Subject.ID, e.Subject.Properties, e.Action.ID, e.Action.Properties,
		e.Resource.Type, e.Resource.ID, e.Resource.Properties, call.Attempts[0].Operation().String(),
		call.Tenant, call.Task, call.Context, call.Record.Intent.Purpose, powerbox.Object(kept...),
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	// Read and written again, the members of every object are in one order.
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	if raw, err = json.Marshal(v); err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// neededBy is the part of a call's authority that the call needs. The arguments are not
// in it: the digest says which they are.
func neededBy(v gate.Verdict, call *gate.Call) (powerbox.Authority, error) {
	under := v.Under
	if v.Basis == gate.OnAmbient {
		under = call.Target.Caps // nothing bounds who relies on ambient authority
	}
	var clauses []powerbox.Clause
	for _, op := range v.Required() {
		if shape, ok := under.Shape(op); ok {
			clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
		}
	}
	return powerbox.NewAuthority(under.Window(), 0, clauses...)
}
