package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Backend executes capabilities.
type Backend interface {
	// Execute does it. A refusal by the backend is an [*agentauth.Error]; every other error
	// means that the result is unknown.
	Execute(ctx context.Context, e Execution) (Result, error)
	// Poll asks for the state of a job.
	Poll(ctx context.Context, e Execution, url string) (Result, error)
}

// Execution is one call that was allowed.
type Execution struct {
	Capability *Capability
	Arguments  powerbox.Value
	Agent      string
	Host       string
	User       string // "" for none
	Decision   string // id of the record
	Grant      string // id of the capability on record that admitted it
	Under      powerbox.Authority
}

// Result is a backend's answer: exactly one of the members is set.
type Result struct {
	Data   powerbox.Value // of a synchronous answer; HasData tells null from none
	Stream Stream
	Job    string // status URL of the backend, for a job that continues
	Failed *agentauth.Error

	HasData bool
	Retry   int // seconds until a job is worth asking about, 0 for no idea
}

// Stream is a stream of events. Next returns io.EOF after the last.
type Stream interface {
	Next() (event string, data []byte, err error)
	Close() error
}

// Executed is a result with its decision.
type Executed struct {
	Result
	Job     string // our id of it
	verdict gate.Verdict
	session Session
}

func asError(err error, e **agentauth.Error) bool { return errors.As(err, e) }

// Call is one execution as it is asked for.
type Call struct {
	Capability string // by its name
	Arguments  powerbox.Value
	// Received are the arguments as they came, byte for byte; nil where none did. The
	// record has their digest.
	Received []byte
	Task     string // that the call is part of, for values that were read; "" for none
	// Decided is called when the decision is on record, or there is none; may be nil.
	Decided func()
}

// Execute executes a capability (section 5.11): the gate decides and records the call,
// then its arguments are checked against the schema, then it is done, and its outcome
// is recorded before it is answered.
func (p *Provider) Execute(ctx context.Context, s Session, asked Call) (Executed, error) {
	name, arguments := asked.Capability, asked.Arguments
	c := p.capabilities[name]
	if c == nil {
		return Executed{}, p.missing(s, name)
	}
	if c.Location != "" {
		return Executed{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability %q is executed at %s", name, c.Location)
	}
	if arguments.Kind() == powerbox.KindNull {
		arguments = powerbox.Object()
	}
	v, err := p.check(ctx, s, c, arguments, asked)
	if asked.Decided != nil {
		asked.Decided() // a slow service takes no place of other calls
	}
	if err != nil {
		return Executed{}, err
	}
	out := Executed{verdict: v, session: s}
	// Only anyone who may make the call learns of its schema.
	if wrong := c.validate(arguments); wrong != nil {
		wrong.Decision = v.Record.ID
		return out, cmp.Or(p.outcome(ctx, v, evidence.Failed, string(wrong.Code)), error(wrong))
	}
	if err := p.noteRead(ctx, v.Data, c); err != nil {
		return out, cmp.Or(p.outcome(ctx, v, evidence.Failed, string(agentauth.CodeUnavailable)), p.failure(err, v.Record.ID))
	}
	e := Execution{Capability: c, Arguments: arguments, Agent: s.Agent.ID, Host: s.Host.ID, User: s.Agent.User, Decision: v.Record.ID, Grant: v.Held.Capability, Under: v.Under}
	resume := shed.Pause(ctx) // a service has a limit of its own
	out.Result, err = p.config.Backend.Execute(ctx, e)
	resume()
	if err != nil {
		return out, cmp.Or(p.outcome(ctx, v, evidence.Failed, causeBackend), p.failure(err, v.Record.ID))
	}
	if broken := c.holds(out.Result); broken != nil {
		broken.Decision = v.Record.ID
		return Executed{verdict: v, session: s}, errors.Join(broken, p.outcome(ctx, v, evidence.Failed, causeOutput))
	}
	switch {
	case out.Failed != nil:
		return out, p.outcome(ctx, v, evidence.Failed, string(out.Failed.Code))
	case out.Stream != nil:
		return out, nil // its outcome is known at its end
	case out.Result.Job != "":
		if err := p.startJob(ctx, &out, name); err != nil {
			e := agentauth.Errorf(agentauth.CodeUnrecorded, "the capability's service began the call, and the server could not note that; record %s stands without an outcome. Find out at the service what became of the call before you repeat it", v.Record.ID)
			e.Decision = v.Record.ID
			return out, e
		}
		return out, nil
	}
	if err := p.earn(ctx, v, c, out.Data); err != nil {
		return Executed{verdict: v, session: s}, errors.Join(p.failure(err, v.Record.ID), p.outcome(ctx, v, evidence.Failed, causeOutput))
	}
	return out, p.outcome(ctx, v, evidence.Achieved, "")
}

// missing is the refusal of a name that is no capability: one that the agent has a
// grant for has been removed (AAP-P12, AAP-C8).
func (p *Provider) missing(s Session, name string) error {
	for _, g := range s.Grants {
		if g.Capability == name {
			return agentauth.Errorf(agentauth.CodeNotGranted, "the capability %q has been removed", name)
		}
	}
	return agentauth.Errorf(agentauth.CodeCapabilityNotFound, "there is no capability %q", clipped(name))
}

func (p *Provider) failure(err error, decision string) error {
	var e *agentauth.Error
	if !asError(err, &e) {
		e = agentauth.Errorf(agentauth.CodeInternal, "the capability's service did not answer; what became of the call is not known")
	}
	e.Decision = decision
	return e
}

// check has the gate decide and record one execution. Each grant is decided alone,
// and one that admits it suffices (AAP-G7).
func (p *Provider) check(ctx context.Context, s Session, c *Capability, arguments powerbox.Value, asked Call) (gate.Verdict, error) {
	op, err := p.operation(c.Name)
	if err != nil {
		return gate.Verdict{}, err
	}
	attempted := arguments
	if attempted.Kind() != powerbox.KindObject {
		attempted = powerbox.Object() // the schema comes after authority, and so does the type
	}
	attempt, err := powerbox.Invocation(op, attempted)
	if err != nil {
		return gate.Verdict{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "arguments: %v", err)
	}
	call := &gate.Call{
		Target: p.target, Mode: gate.Require, Attempts: []powerbox.Attempt{attempt}, Action: action.Execute.String(),
		Caller: gate.Caller{Holder: holder(s.Agent.ID), Principal: p.config.Issuer.Pseudonym(p.config.Agent, s.Agent.User)},
		Origin: func(string) string { return "" }, Reads: c.Sensitivity == Read,
	}
	if p.config.Redact != nil {
		call.Record.Details.Arguments = p.config.Redact(arguments)
	}
	held := p.inForce(s, c.Name)
	call.Ask.Details = p.told(s, held, asked.Received)
	p.labelled(call, s, c, asked.Task)
	for _, g := range held {
		if _, err := p.shape(g); err != nil {
			return gate.Verdict{}, err // a constraint that is not understood denies the call (AAP-E7)
		}
		call.Presented = append(call.Presented, gate.Presented{Reference: g.Record})
	}
	if !s.token.Allows(c.Name) {
		call.Refused = []evidence.Reason{{Code: string(agentauth.CodeNotGranted), Message: "the token is restricted to other capabilities"}}
	}
	if c.Proof && !s.token.Bound {
		call.Refused = []evidence.Reason{{Code: proofRequired, Message: "the token is not bound to a key or a certificate"}}
	}
	v, err := p.decide(ctx, call, c, held, arguments)
	var refused *agentauth.Error
	if asError(err, &refused) {
		return v, refused
	}
	if err != nil {
		e := agentauth.Errorf(agentauth.CodeUnavailable, "the call cannot be recorded now, and so is not made; try again in a moment")
		e.RetryAfter = 1
		return v, e
	}
	if v.Allowed {
		return v, nil
	}
	return v, p.denied(v, call, held, c.Name, arguments)
}

// proofRequired is the reason of a refusal for want of a proof of possession.
const proofRequired = "proof_required"

func (p *Provider) decide(ctx context.Context, call *gate.Call, c *Capability, held []Grant, arguments powerbox.Value) (gate.Verdict, error) {
	if len(call.Presented) == 0 || len(call.Refused) > 0 || c.Budgets.Uses == 0 && len(c.Budgets.Sum) == 0 {
		return p.config.Gate.Check(ctx, call)
	}
	return p.checkBudgeted(ctx, call, c, held, arguments)
}

// inForce are the grants of a session that can be presented for a capability.
func (p *Provider) inForce(s Session, name string) []Grant {
	var out []Grant
	for _, g := range s.Grants {
		if g.Capability == name && g.Effective(p.config.Now()) {
			out = append(out, g)
		}
	}
	return out
}

// denied words a denial of the gate (AAP-E6, AAP-E8).
func (p *Provider) denied(v gate.Verdict, call *gate.Call, held []Grant, name string, arguments powerbox.Value) error {
	e := agentauth.Errorf(agentauth.CodeNotGranted, "the agent has no grant in force for %q; ask for it with request-capability", name)
	e.Decision = v.Record.ID
	if len(call.Refused) > 0 && call.Refused[0].Code == string(agentauth.CodeLimit) {
		e.Code, e.Message = agentauth.CodeLimit, fmt.Sprintf("what was granted of %q is used up; ask for more with request-capability", name)
		return e
	}
	if len(call.Refused) > 0 && call.Refused[0].Code == proofRequired {
		e.Code, e.Message = agentauth.CodeUnauthorized, fmt.Sprintf("%q is executed with a proof of possession alone: sign a cnf.jkt into the token, and send it with a DPoP proof", name)
		return e
	}
	if len(call.Refused) > 0 && call.Refused[0].Code == string(agentauth.CodeInvalidRequest) {
		e.Code, e.Message = agentauth.CodeInvalidRequest, call.Refused[0].Message
		return e
	}
	if len(call.Refused) > 0 {
		e.Message = fmt.Sprintf("the token is restricted to other capabilities than %q", name)
		return e
	}
	// The rules about data are told to an agent that has the authority alone.
	if len(v.Reasons) > 0 && !slices.ContainsFunc(v.Reasons, func(r evidence.Reason) bool { return r.Code != gate.CodeDataOrigin }) {
		e.Code, e.Message = agentauth.CodeConstraint, v.Reasons[0].Message
		return e
	}
	for _, r := range v.Reasons {
		switch r.Code {
		case gate.CodeArgumentNumber:
			if len(held) == 0 {
				return e
			}
			e.Code, e.Message = agentauth.CodeInvalidRequest, r.Message
			if d, err := p.judge(held, name, arguments, p.config.Now()); err == nil && !d.Allowed {
				e.Code, e.Message = agentauth.CodeConstraint, "the arguments are outside of what was granted"
			}
		case string(powerbox.CodeArgumentConstraint), string(powerbox.CodeArgumentMissing):
			e.Code, e.Message = agentauth.CodeConstraint, "the arguments are outside of what was granted"
		case gate.CodeCaps:
			if len(held) > 0 {
				e.Code, e.Message = agentauth.CodeConstraint, "the arguments are outside of what the operator admits by now, whatever was granted"
			}
		case gate.CodeFrozen, gate.CodeCardWidened:
			e.Message = "an operator has stopped this for now"
			return e
		case gate.CodeStale, gate.CodeUnavailable:
			e.Code, e.Message = agentauth.CodeUnavailable, "whether the grant holds cannot be told now; try again in a moment"
			return e
		}
	}
	if e.Code != agentauth.CodeConstraint {
		return e
	}
	for _, g := range held {
		if shape, _, err := p.within(g); err == nil {
			e.Violations = append(e.Violations, agentauth.Violations(shape, arguments)...)
		}
	}
	return e
}

// judge decides an attempt under grants without recording it: the answer to a
// service that decides itself.
func (p *Provider) judge(held []Grant, name string, arguments powerbox.Value, now time.Time) (powerbox.Decision, error) {
	op, err := p.operation(name)
	if err != nil {
		return powerbox.Decision{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability: %v", err)
	}
	if arguments.Kind() == powerbox.KindNull {
		arguments = powerbox.Object()
	}
	attempt, err := powerbox.Invocation(op, arguments)
	if err != nil {
		return powerbox.Decision{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "arguments: %v", err)
	}
	if d := powerbox.Decide(attempt, p.caps, now); !d.Allowed {
		return d, nil // the server's own constraints, as they are by now (AAP-P6)
	}
	var last powerbox.Decision
	for _, g := range held {
		if g.Capability != name {
			continue
		}
		shape, err := p.shape(g)
		if err != nil {
			return powerbox.Decision{}, err
		}
		a, err := powerbox.NewAuthority(powerbox.Window{Until: always}, 0, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
		if err != nil {
			return powerbox.Decision{}, err
		}
		if last = powerbox.Decide(attempt, a, now); last.Allowed {
			return last, nil
		}
	}
	return last, nil
}

// Causes of a FAILED outcome, besides the codes that a service says no with.
const (
	CauseService = "service" // a stream in which the service said no, and nothing else
	CauseMidway  = "midway"  // one in which it said no, and told something besides: that was had
	causeBackend = "backend" // it did not answer, and the result of the call is unknown
	causeOutput  = "output"  // it did as asked, and answered against the output schema
)

func (p *Provider) outcome(ctx context.Context, v gate.Verdict, status evidence.OutcomeStatus, cause string) error {
	err := p.config.Gate.Outcome(context.WithoutCancel(ctx), v, status, causeOf(cause))
	if err == nil && p.budgeted(v) {
		err = p.settle(ctx, v.Record.ID, status == evidence.Failed && !slices.Contains([]string{causeBackend, CauseMidway, causeOutput}, cause))
	}
	if err != nil {
		return unrecorded(v.Record.ID)
	}
	return nil
}

// budgeted reports whether a decision can have taken from a budget.
func (p *Provider) budgeted(v gate.Verdict) bool {
	name := strings.TrimPrefix(v.Record.Intent.Operation, issuer.Qualify(p.config.Agent, label, ""))
	c := p.capabilities[name]
	return c != nil && (c.Budgets.Uses > 0 || len(c.Budgets.Sum) > 0)
}

// GoesOn reports whether a stream may continue: neither agent nor host nor grant has
// been taken back (AAP-E5, ATK-24).
func (p *Provider) GoesOn(ctx context.Context, e *Executed) bool {
	if _, holds := p.config.Gate.Recheck(e.verdict); !holds {
		return false
	}
	s, err := p.reload(ctx, e.session)
	return err == nil && s.live(p.config.Now()) == nil
}

// Ended records the outcome of a stream. It is asked before the reader can know that the
// stream is over; an error is told to the reader (ATK-75).
func (p *Provider) Ended(ctx context.Context, e *Executed, status evidence.OutcomeStatus, cause string) error {
	return p.outcome(ctx, e.verdict, status, cause)
}

func (p *Provider) reload(ctx context.Context, s Session) (Session, error) {
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		var err error
		s, err = p.latest(r, s)
		return err
	})
	return s, err
}

// latest is a session as things are now.
func (p *Provider) latest(r Reader, s Session) (Session, error) {
	var err error
	if s.Agent, err = r.HostAgent(s.Agent.ID); err != nil {
		return s, err
	}
	p.merge(&s.Agent)
	if s.Host, err = r.Host(s.Agent.Host); err != nil {
		return s, err
	}
	s.Grants, err = p.grants(r, s.Agent.ID)
	return s, err
}

// startJob notes a job that continues behind.
func (p *Provider) startJob(ctx context.Context, e *Executed, capability string) error {
	id, err := p.config.Issuer.NewID("job_")
	if err != nil {
		return err
	}
	e.Job = id
	j := Job{ID: id, Agent: e.session.Agent.ID, Capability: capability, Decided: e.verdict.Record, StatusURL: e.Result.Job, Created: p.config.Now()}
	return p.update(ctx, func(tx Tx, _ *unit) error { return tx.PutJob(j) })
}

// Poll returns the state of a job of this agent; another agent's does not exist
// (AAP-E4).
func (p *Provider) Poll(ctx context.Context, s Session, id string) (Result, error) {
	var j Job
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		var err error
		j, err = r.Job(id)
		return err
	})
	if notFound(err) || err == nil && j.Agent != s.Agent.ID {
		return Result{}, agentauth.Errorf(agentauth.CodeNotFound, "there is no execution of that id for this agent")
	}
	if err != nil {
		return Result{}, err
	}
	c := p.capabilities[j.Capability]
	held, err := p.standingGrants(ctx, s)
	if err != nil {
		return Result{}, err
	}
	if c == nil || !slices.ContainsFunc(held, func(g Grant) bool { return g.Capability == j.Capability }) || !s.token.Allows(j.Capability) {
		return Result{}, agentauth.Errorf(agentauth.CodeNotGranted, "the grant that it was executed under is not in force any more")
	}
	by := &gate.Read{By: gate.Reading{Holders: []string{holder(s.Agent.ID)}, Principal: s.Agent.User}}
	if err := p.noteRead(ctx, by, c); err != nil {
		return Result{}, p.failure(err, j.Decided.ID)
	}
	e := Execution{Capability: c, Agent: s.Agent.ID, Host: s.Host.ID, User: s.Agent.User, Decision: j.Decided.ID}
	resume := shed.Pause(ctx)
	r, err := p.config.Backend.Poll(ctx, e, j.StatusURL)
	resume()
	if err != nil {
		return Result{}, p.failure(err, j.Decided.ID)
	}
	if r.Job != "" {
		return r, nil
	}
	if j.Done {
		if broken := c.holds(r); broken != nil {
			broken.Decision = j.Decided.ID
			return Result{}, broken
		}
		return r, nil
	}
	if broken := c.holds(r); broken != nil {
		broken.Decision = j.Decided.ID
		return Result{}, errors.Join(broken, p.finish(ctx, j, evidence.Failed, causeOutput))
	}
	if r.Failed != nil {
		return r, p.finish(ctx, j, evidence.Failed, string(r.Failed.Code))
	}
	return r, p.finish(ctx, j, evidence.Achieved, "")
}

// finish records the outcome of a job once, even with several pollers at the same time,
// at this node or another: the record comes in the transaction in which the job is over.
func (p *Provider) finish(ctx context.Context, j Job, status evidence.OutcomeStatus, cause string) error {
	id, err := p.config.Gate.NewID()
	if err != nil {
		return err
	}
	err = p.update(context.WithoutCancel(ctx), func(tx Tx, _ *unit) error {
		latest, err := tx.Job(j.ID)
		if err != nil || latest.Done {
			return err
		}
		if latest.Decided.OutcomeStatus == evidence.Pending {
			record, err := evidence.Outcome(latest.Decided, id, p.config.Now(), status, causeOf(cause))
			if err != nil {
				return err
			}
			if _, err := tx.Append(record); err != nil {
				return err
			}
		}
		if p.budgeted(gate.Verdict{Record: latest.Decided}) {
			if err := tx.Settle(latest.Decided.ID, status == evidence.Failed && cause != causeOutput); err != nil {
				return err
			}
		}
		latest.Done = true
		return tx.PutJob(latest)
	})
	if err != nil {
		return unrecorded(j.Decided.ID)
	}
	return nil
}

// causeOf is the detail of an outcome with a cause, nil for none.
func causeOf(cause string) []byte {
	if cause == "" {
		return nil
	}
	return powerbox.Object(powerbox.Member{Name: "cause", Value: powerbox.String(cause)}).AppendJSON(nil)
}

// unrecorded is the answer where the result of a call is not on record.
func unrecorded(decision string) error {
	e := agentauth.Errorf(agentauth.CodeUnrecorded, "the outcome of the call could not be recorded, so the answer is kept back; record %s stands without an outcome. Find out whether the call took effect before you repeat it", decision)
	e.Decision = decision
	return e
}

// Decision returns the id of the record that allowed it.
func (e *Executed) Decision() string { return e.verdict.Record.ID }

// Holder is the agent's name as a holder of capabilities.
func (e Execution) Holder() string { return holder(e.Agent) }
