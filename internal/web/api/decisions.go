package api

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// The actions that are no skill of an agent.
const (
	// ActionHandoff hands a task over: its requirements must be within Caps(B) meet
	// Scope(A) (GATE-1).
	ActionHandoff = "powerbox.handoff"
	// ActionMessage is the right to talk to an agent at all, as lists need it.
	ActionMessage = "a2a.message"
)

// propertyAuthority, true, asks for the authority under which the right to talk to an
// agent is held, for lists whose entries are decided on one by one.
const propertyAuthority = "authority"

// TypeAgent is the type of a subject that is a calling agent and of a resource
// that is a protected one, TypeCapability that of a subject who shows a
// capability, TypeUser that of a user.
const (
	TypeAgent      = "agent"
	TypeCapability = "capability"
	TypeUser       = "user"
)

const codeUnknown, codeNotSpokenFor, codeMapped = "agent_unknown", "caller_not_spoken_for", "skill_unmapped"

// Guard is a program that enforces in its own process and asks here first.
type Guard struct {
	Name   string
	Token  string   // at least 32 bytes
	Agents []string // calling agents that it speaks for
	Users  bool     // it may ask about users, and its word about them is believed
}

// GuardedSkill is the operation that a skill of an agent maps to.
type GuardedSkill struct {
	Operation       powerbox.Operation
	Handle          string
	Write, Approval bool
	Flow            gate.Flow
}

// Guarded is an agent as decisions are made about it.
type Guarded struct {
	Target gate.Target
	Mode   gate.Mode
	Skills map[string]GuardedSkill
	Yields gate.Label // of answers that are of no skill
}

// Decisions answers programs that enforce in their own process, in the form of
// the OpenID Authorization API 1.0 (AuthZEN). Every question is a call that
// [gate.Gate.Check] decides and records (GATE-10).
type Decisions struct {
	Gate   *gate.Gate
	Guards []Guard
	// Agent returns a protected agent; false where there is none of that id.
	Agent  func(ctx context.Context, id string) (Guarded, bool, error)
	Origin func(holder string) string
	// Scope returns Scope(A) at an agent as it is configured now. It returns nil where no
	// scopes are configured.
	Scope func() func(origin, agent string) powerbox.Authority
	// URL is the server's public URL, and Known lists what searches go through.
	URL   string
	Known SearchKnown
	// Collections are the agents of collections, by the type of their resources.
	Collections map[string]string
	// Policy returns the authority that policy gives a user: that operation of that
	// resource, or nothing.
	Policy func(user identity.Caller, agent string, op powerbox.Operation, r *catalogue.Item) powerbox.Authority
	// Item returns the attributes of a resource in the catalogue, nil where it is not
	// there. A guard's own attributes override them.
	Item func(agent, collection, id string) map[string]powerbox.Value
	// Pseudonym is the name of a principal at an agent.
	Pseudonym func(agent, principal string) string
	// Nowhere is the id under which attempts at agents that are not known are
	// recorded.
	Nowhere string
	Redact  func(powerbox.Value) []byte
	Now     func() time.Time
	Log     *slog.Logger

	Beside

	// Queue is where questions wait to be decided; nil for none. Outcomes do not wait.
	Queue *shed.Queue

	// Keeper keeps the attempts that wait for their outcome for all nodes, and Recorded
	// reads a record; nil for a process that is alone.
	Keeper   Keeper
	Recorded func(ctx context.Context, id string) (evidence.Record, error)

	mu      sync.Mutex
	pending map[string]pendingOutcome
}

// Beside is what decisions about attempts also depend on.
type Beside struct {
	// Approvals asks people about attempts that they have to approve; nil where no person
	// can be asked.
	Approvals Approvals
	// Data labels what attempts read; nil where nothing is labelled.
	Data *GuardData
}

// pendingOutcome is a verdict whose outcome is awaited.
type pendingOutcome struct {
	verdict gate.Verdict
	guard   string
	until   time.Time
}

// Bounds of the attempts that wait for an outcome. Anything that is not told in time has
// none, as after a crash.
const (
	maxPending  = 1 << 14
	outcomeTime = time.Hour
)

// maxRequestID bounds the X-Request-ID that is returned.
const maxRequestID = 256

// Handler returns the interface: everything under /access/v1, and the document that says
// the places of the interfaces.
func (d *Decisions) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, do := range map[string]func(context.Context, *Guard, powerbox.Value) (any, error){
		"evaluation": d.one, "evaluations": d.many, "outcome": d.outcome,
		"search/subject": d.searchSubject, "search/resource": d.searchResource, "search/action": d.searchAction,
	} {
		mux.HandleFunc("POST /access/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			queue := d.Queue
			if path == "outcome" {
				queue = nil
			}
			answer, err := d.serve(w, r, queue, do)
			reply(w, r, d.Log, answer, err)
		})
	}
	mux.HandleFunc("POST "+pathRequests, d.requested)
	mux.HandleFunc("GET "+pathRequests+"/{id}", d.requestStatus)
	mux.HandleFunc("GET "+PathAuthZEN, d.discovery)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("X-Request-ID"); id != "" && len(id) <= maxRequestID {
			w.Header().Set("X-Request-ID", id)
		}
		mux.ServeHTTP(w, r)
	})
}

func (d *Decisions) serve(w http.ResponseWriter, r *http.Request, queue *shed.Queue, do func(context.Context, *Guard, powerbox.Value) (any, error)) (any, error) {
	guard := d.guard(r)
	if guard == nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return nil, status{http.StatusUnauthorized, "want the token of one of identity.guards"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, status{http.StatusBadRequest, "Content-Type: want application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return nil, status{http.StatusRequestEntityTooLarge, "the body cannot be read, or has more than 1 MiB"}
	}
	leave, ok := queue.Enter(r.Context(), shed.Known)
	if !ok {
		w.Header().Set("Retry-After", "1")
		return nil, status{http.StatusServiceUnavailable, "this server has more questions than it can decide in time, so it did nothing with this one; send it again after the time that Retry-After says"}
	}
	defer leave()
	v, err := powerbox.ParseValue(body)
	if err == nil && v.Kind() != powerbox.KindObject {
		err = errors.New("want an object")
	}
	// The calling program reads the same value itself after this decision (ATK-27).
	if err == nil {
		err = v.CheckNames()
	}
	if err != nil {
		return nil, status{http.StatusBadRequest, "body: " + err.Error()}
	}
	return do(r.Context(), guard, v)
}

// guard returns the calling guard, or nil for a caller that is none.
func (d *Decisions) guard(r *http.Request) *Guard {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	var found *Guard
	for i := range d.Guards {
		if g := &d.Guards[i]; ok && len(g.Token) >= 32 && subtle.ConstantTimeCompare([]byte(given), []byte(g.Token)) == 1 {
			found = g
		}
	}
	return found
}

// decision is the answer to one question (section 6.2).
type decision struct {
	Decision bool            `json:"decision"`
	Context  decisionContext `json:"context"`
}

// decisionContext says why, in our words.
type decisionContext struct {
	ID string `json:"id,omitempty"` // of the record
	// Text is one sentence for the one who was refused; of a scope that is exceeded, the
	// text of GATE-3.
	Text     string           `json:"text,omitempty"`
	Origin   string           `json:"origin,omitempty"`
	Target   string           `json:"target,omitempty"`
	Required []string         `json:"required,omitempty"`
	Allowed  []string         `json:"allowed,omitempty"`
	Missing  []string         `json:"missing,omitempty"`
	Reasons  []decisionReason `json:"reasons,omitempty"`
	// Skills are those that the call's authority names, and Authority is that itself, for a
	// question that wants it. Ambient says that the call continues without one, under
	// everything that the target permits.
	Skills     []string        `json:"skills,omitempty"`
	Authority  json.RawMessage `json:"authority,omitempty"`
	Ambient    bool            `json:"ambient,omitempty"`
	Capability string          `json:"capability,omitempty"`
	Retryable  bool            `json:"retryable,omitempty"`
	Error      string          `json:"error,omitempty"` // of a question that could not be asked so
	// Pending says that a person is asked, and where.
	Pending *pendingApproval `json:"pending,omitempty"`
	requestable
}

type decisionReason struct {
	Code       string `json:"code"`
	Operation  string `json:"operation,omitempty"`
	Argument   string `json:"argument,omitempty"`
	Constraint string `json:"constraint,omitempty"`
	Message    string `json:"message"`
}

func (d *Decisions) one(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
	e, err := evaluationOf(v, powerbox.Object())
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	return d.decide(ctx, g, e)
}

// many answers a batch in its order. A question that cannot be asked so is
// answered with no.
func (d *Decisions) many(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
	questions, semantic, alone, err := batch(v)
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	if alone {
		return d.one(ctx, g, v)
	}
	answers := []decision{}
	for _, q := range questions {
		var answer decision
		e, err := evaluationOf(q, v)
		if err == nil {
			answer, err = d.decide(ctx, g, e)
		}
		var wrong status
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case errors.As(err, &wrong):
			answer = decision{Context: decisionContext{Error: wrong.message}}
		case err != nil:
			answer = decision{Context: decisionContext{Error: err.Error()}}
		}
		answers = append(answers, answer)
		if semantic == untilADenial && !answer.Decision || semantic == untilAnAllow && answer.Decision {
			break
		}
	}
	return map[string]any{"evaluations": answers}, nil
}

// decide answers one question.
func (d *Decisions) decide(ctx context.Context, g *Guard, e evaluation) (decision, error) {
	call, agent, err := d.call(ctx, g, e)
	if err != nil {
		return decision{}, err
	}
	if d.asks(call) {
		return d.withPeople(ctx, g, e, call, agent)
	}
	v, answer := d.check(ctx, g, call, agent)
	if wants, _ := e.Action.Properties.Get(propertyAuthority); v.Allowed && e.Action.ID == ActionMessage && wants.Equal(powerbox.Bool(true)) {
		answer.Context.Authority = v.Under.AppendJSON(nil)
	}
	return answer, nil
}

// check has the gate decide and record a call, and words the answer. The verdict is the
// zero one where it cannot be recorded.
func (d *Decisions) check(ctx context.Context, g *Guard, call *gate.Call, agent Guarded) (gate.Verdict, decision) {
	v, err := d.Gate.Check(ctx, call)
	if err != nil {
		d.Log.ErrorContext(ctx, "a decision could not be recorded", "guard", g.Name, "error", err)
		return gate.Verdict{}, decision{Context: decisionContext{
			Text: "Whether it is allowed cannot be recorded now; try again in a moment.", Retryable: true,
			Reasons: []decisionReason{{Code: gate.CodeUnavailable, Message: "the decision cannot be recorded now"}},
		}}
	}
	if !d.noteRead(ctx, g, call, v) {
		text := "What the attempt would read cannot be noted now; try again in a moment."
		return gate.Verdict{}, decision{Context: decisionContext{
			ID: v.Record.ID, Target: call.Target.ID, Text: text, Retryable: true, Reasons: []decisionReason{{Code: gate.CodeUnavailable, Message: text}},
		}}
	}
	d.await(g, v)
	return v, answered(call, v, agent)
}

// answered words a verdict.
func answered(call *gate.Call, v gate.Verdict, agent Guarded) decision {
	out := decision{Decision: v.Allowed, Context: decisionContext{
		ID: v.Record.ID, Target: call.Target.ID, Allowed: v.Under.Names(), Missing: v.Missing, Capability: v.Held.Capability,
		Ambient: v.Allowed && (v.Basis == gate.OnAmbient || call.Mode == gate.Observe),
	}}
	c := &out.Context
	if recorded := v.Record.Details.Gate; recorded != nil {
		c.Origin, c.Required = recorded.Origin, recorded.Required
	}
	for _, r := range v.Reasons {
		if r.Code == gate.CodeCapabilityRequired {
			r.Message += a2a.HowToRequest
		}
		c.Reasons = append(c.Reasons, decisionReason{r.Code, r.Operation, r.Argument, r.Constraint, r.Message})
		c.Retryable = c.Retryable || r.Code == gate.CodeUnavailable
	}
	for name, s := range agent.Skills {
		if _, ok := v.Under.Shape(s.Operation); ok && v.Allowed {
			c.Skills = append(c.Skills, name)
		}
	}
	slices.Sort(c.Skills)
	switch {
	case v.Allowed:
	case len(v.Missing) > 0:
		c.Text = powerbox.Violation(v.Missing)
	case len(v.Reasons) > 0:
		c.Text = c.Reasons[0].Message
	}
	return out
}

// call words a question as a call of the gate.
func (d *Decisions) call(ctx context.Context, g *Guard, e evaluation) (*gate.Call, Guarded, error) {
	id := e.Resource.ID
	if e.Resource.Type != TypeAgent {
		id = d.Collections[e.Resource.Type]
	}
	agent, known, err := d.Agent(ctx, id)
	if err != nil {
		return nil, agent, err
	}
	if !known {
		agent = Guarded{Target: gate.Target{ID: d.Nowhere}, Mode: gate.Require}
	}
	call := &gate.Call{
		Target: &agent.Target, Mode: agent.Mode, Origin: d.Origin, Action: action.GuardCall.String(),
		Tenant: textOf(e.Context, "tenant"), Task: textOf(e.Context, "task"), Context: textOf(e.Context, "context"),
		Record: evidence.Record{Intent: evidence.Intent{Purpose: textOf(e.Context, "purpose")}, Details: evidence.Details{TraceID: textOf(e.Context, "trace")}},
	}
	if d.Scope != nil {
		if scope := d.Scope(); scope != nil {
			call.Scope = func(origin string) powerbox.Authority { return scope(origin, id) }
		}
	}
	if !known {
		call.Refused = []evidence.Reason{{Code: codeUnknown, Message: fmt.Sprintf("there is no agent %.128q here", e.Resource.ID)}}
		if e.Subject.Type == TypeAgent && slices.Contains(g.Agents, e.Subject.ID) {
			call.Caller.Name = e.Subject.ID
		}
		return call, agent, nil
	}
	if err := d.attempts(call, agent, e); err != nil {
		return nil, agent, status{http.StatusBadRequest, err.Error()}
	}
	err = d.by(call, g, agent, e)
	d.labelled(call, agent, e)
	return call, agent, err
}

// attempts derives the attempts of a call. Unknown needs are a denial (GATE-5).
func (d *Decisions) attempts(call *gate.Call, agent Guarded, e evaluation) error {
	message, err := powerbox.ParseOperation(ActionMessage)
	if err != nil {
		return err
	}
	switch e.Action.ID {
	case ActionHandoff:
		return d.handoff(call, agent, e, message)
	case ActionMessage:
		call.Action, call.Reads = action.GuardMessage.String(), true
		return try(call, message, powerbox.Object())
	}
	s, ok := agent.mapped(e.Action.ID)
	if !ok {
		call.Refused = append(call.Refused, evidence.Reason{Code: codeMapped, Message: fmt.Sprintf("%.128q maps to no operation of %s", e.Action.ID, agent.Target.ID)})
		return nil
	}
	arguments := e.Action.Properties
	if e.Resource.Type == TypeAgent {
		if given, ok := arguments.Get("arguments"); ok {
			arguments = given
		} else {
			arguments = powerbox.Object()
		}
	}
	if arguments.Kind() != powerbox.KindObject {
		return fmt.Errorf("action.properties.arguments is JSON %s; want an object", arguments.Kind())
	}
	call.Handle, call.Record.Details.Arguments, call.Reads, call.Approval = s.Handle, d.Redact(arguments), !s.Write, s.Approval
	if err := try(call, s.Operation, arguments); err != nil || e.Resource.Type != TypeAgent {
		return err
	}
	return try(call, message, powerbox.Object())
}

// handoff tries the requirements of the task, by skill or operation, and otherwise the
// agent's requirements of every task.
func (d *Decisions) handoff(call *gate.Call, agent Guarded, e evaluation, message powerbox.Operation) error {
	call.Action, call.Free.Any = action.Handoff.String(), true
	names, err := textsOf(e.Action.Properties, "requires")
	if err != nil {
		return fmt.Errorf("action.properties.%w", err)
	}
	required := agent.Target.Required
	if len(names) > 0 {
		required = nil
	}
	for _, name := range names {
		s, ok := agent.mapped(name)
		if !ok {
			call.Refused = append(call.Refused, evidence.Reason{Code: codeMapped, Operation: name, Message: fmt.Sprintf("%.128q maps to no operation of %s", name, agent.Target.ID)})
		}
		required = append(required, s.Operation)
	}
	if len(call.Refused) == 0 {
		call.Attempts = append(call.Attempts, powerbox.Admission(required...))
	}
	return try(call, message, powerbox.Object())
}

// mapped returns the skill of the agent that a name of a skill, or of an operation
// (grant/operation), stands for. Several skills that are one operation cannot be told
// apart, so the requirements of all of them hold.
func (a Guarded) mapped(name string) (GuardedSkill, bool) {
	if s, ok := a.Skills[name]; ok {
		return s, true
	}
	var out GuardedSkill
	found := false
	for _, skill := range slices.Sorted(maps.Keys(a.Skills)) {
		s := a.Skills[skill]
		if op := s.Operation.String(); op != name && op != a.Target.ID+"/"+name {
			continue
		}
		if !found {
			out, found = s, true
		}
		out.Handle, out.Write, out.Approval = cmp.Or(out.Handle, s.Handle), out.Write || s.Write, out.Approval || s.Approval
	}
	return out, found
}

func try(call *gate.Call, op powerbox.Operation, arguments powerbox.Value) error {
	a, err := powerbox.Invocation(op, arguments)
	if err == nil {
		call.Attempts = append(call.Attempts, a)
	}
	return err
}

// by says whose attempt it is: a calling agent that the guard speaks for, a user,
// or anyone who holds the capability that is shown.
func (d *Decisions) by(call *gate.Call, g *Guard, agent Guarded, e evaluation) error {
	refuse := func() error {
		call.Refused = append(call.Refused, evidence.Reason{Code: codeNotSpokenFor, Message: fmt.Sprintf("guard %s may not ask about %s %.128q", g.Name, e.Subject.Type, e.Subject.ID)})
		return nil
	}
	shown, ok := e.Context.Get("capability")
	switch {
	case e.Subject.Type == TypeCapability:
		if ok {
			return present(call, shown)
		}
		return nil // nothing is shown: the agent's mode decides then
	case ok:
		return status{http.StatusBadRequest, "context.capability is shown by a subject of another type than " + TypeCapability}
	case e.Subject.Type == TypeAgent:
		if !slices.Contains(g.Agents, e.Subject.ID) {
			return refuse()
		}
		call.Caller.Name = e.Subject.ID
	case e.Subject.Type == TypeUser && e.Resource.Type != TypeAgent:
		if !g.Users {
			return refuse()
		}
		return d.byUser(call, agent, e)
	default:
		return refuse()
	}
	return nil
}

// byUser asks policy, with the guard's attributes of user and resource.
func (d *Decisions) byUser(call *gate.Call, agent Guarded, e evaluation) error {
	user := identity.Caller{Principal: TypeUser + ":" + e.Subject.ID, Attributes: map[string]powerbox.Value{}}
	members, _ := e.Subject.Properties.Members()
	for _, m := range members {
		user.Attributes[m.Name] = m.Value
	}
	if role := textOf(e.Subject.Properties, "role"); role != "" {
		user.Roles = []string{role}
	}
	roles, err := textsOf(e.Subject.Properties, "roles")
	if err == nil {
		user.Roles = append(user.Roles, roles...)
		user.Groups, err = textsOf(e.Subject.Properties, "groups")
	}
	if err != nil {
		return status{http.StatusBadRequest, "subject.properties." + err.Error()}
	}
	item := catalogue.Item{Agent: agent.Target.ID, Collection: e.Resource.Type, ID: e.Resource.ID, Attributes: map[string]powerbox.Value{}}
	maps.Copy(item.Attributes, d.Item(agent.Target.ID, e.Resource.Type, e.Resource.ID))
	members, _ = e.Resource.Properties.Members()
	for _, m := range members {
		item.Attributes[m.Name] = m.Value
	}
	call.Caller.Principal, call.Scope, call.Mode = d.Pseudonym(agent.Target.ID, user.Principal), nil, gate.Require
	if len(call.Attempts) > 0 {
		op := call.Attempts[0].Operation()
		call.ByPolicy = func() (powerbox.Authority, error) { return d.Policy(user, agent.Target.ID, op, &item), nil }
	}
	return nil
}

// present takes in the capability that was shown to the guard, and the subject that its
// proof must name.
func present(call *gate.Call, shown powerbox.Value) error {
	chainName, proofName := "chain", "proof"
	if _, ok := shown.Get(a2a.MemberChain); ok { // a presentation as the token draft has it
		chainName, proofName = a2a.MemberChain, a2a.MemberProof
		if _, both := shown.Get("chain"); both {
			return status{http.StatusBadRequest, "context.capability has chain and aat_chain; send one of them"}
		}
	}
	chain, err := textsOf(shown, chainName)
	if err != nil || len(chain) == 0 {
		return status{http.StatusBadRequest, "context.capability." + chainName + ": want the compact tokens, root first"}
	}
	call.Presented = []gate.Presented{{Chain: chain, Proof: textOf(shown, proofName)}}
	call.Request = token.Request{Method: textOf(shown, "method"), URL: textOf(shown, "url"), Digest: textOf(shown, "digest")}
	return nil
}
