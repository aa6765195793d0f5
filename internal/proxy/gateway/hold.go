package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// HeldPrefix begins the id of every task that stands for a call which waits for a
// person. No other task is looked for among those.
const HeldPrefix = "task_pb_"

// HeldCall is a call that a person has to approve (design, section 4).
type HeldCall struct {
	Agent, Tenant, Context string
	Owner                  Owner
	Caller                 identity.Caller
	Purpose                string
	HeldSubject
	Request []byte // what the call is made from again
	Digest  string // of the call, as of [gate.Call.Bound]
	HeldUnder
	Key      string // by which a call is found that its caller keeps, "" for one that is kept here
	Decision string // id of the record
	Trace    string
}

// HeldSubject is what a held call is about.
type HeldSubject struct {
	Operation    string // qualified
	Operations   []HeldOperation
	Handle       string // resource handle among the arguments, "" for none
	Resource     string // id of the resource behind it
	ResourceName string
	Arguments    powerbox.Value // of the skill, or {message} for free text
}

// HeldUnder is what a held call came under.
type HeldUnder struct {
	Parent         string // capability on record, "" for none
	Under, Through []string
	Authority      powerbox.Authority // what it may do
}

// HeldOperation is one operation that a held call is, or could be, about.
type HeldOperation struct {
	Name  string // qualified
	Write bool
}

// HeldTask is what has become of a held call.
type HeldTask struct {
	Question, Task, Context string
	State                   a2a.OwnState
	Text                    string
	URL                     string    // of the page on which it is answered, "" once it was
	Expires                 time.Time // of the question
	Updated                 time.Time
	Decision                string
	Denied                  string // code of a no, "" for none
	Answer                  []byte // of the agent behind
}

// Released is a held call that was approved, and is made now, once.
type Released struct {
	Question, Agent, Capability string
	Task                        string // that stands for the call; "" for none
	Request                     []byte
	Owner                       Owner
}

// Holds keeps calls that wait for a person. A refusal has a method Denial()
// a2a.Denial.
type Holds interface {
	// Hold keeps a call, durably, and asks.
	Hold(ctx context.Context, c HeldCall) (HeldTask, error)
	// Task returns what has become of a call, and false where there is none of that
	// task.
	Task(ctx context.Context, agent, task string) (HeldTask, bool, error)
	// Of returns the calls of an owner in a tenant that are held or were lately, 256 of
	// the newest at the most. Instead of an answer it has only the state.
	Of(ctx context.Context, agent, tenant string, owner Owner) ([]HeldTask, error)
	// Cancel withdraws a call without an answer.
	Cancel(ctx context.Context, agent, task string) (HeldTask, error)
}

// Releases are the held calls that were approved, which are made now.
type Releases interface {
	// Take returns an approved call to the first caller of this method, and false if there is
	// none.
	Take(ctx context.Context) (Released, bool, error)
	// Made tells what became of it.
	Made(ctx context.Context, question string, failed bool, decision, text string, answer []byte) error
	// Changed is closed when there may be one to take.
	Changed() <-chan struct{}
}

// storedCall is a call as it is kept: what it can be made from again, without
// anything that is secret.
type storedCall struct {
	Binding a2a.Binding
	Method  string
	URL     string // path and query, as they came
	Skill   string `json:",omitempty"`
	Header  http.Header
	Body    []byte
	Holder  string
	Name    string `json:",omitempty"`
	User    string `json:",omitempty"`
	Groups  []string
	Roles   []string
	Trace   string `json:",omitempty"`
	Purpose string `json:",omitempty"`
}

// kept are the headers that a call is made with again.
var kept = []string{"Content-Type", "Accept", "A2a-Version", "A2a-Extensions", "X-A2a-Extensions", HeaderPurpose, "Te"}

// approving reports whether a person has to approve the call: it names a skill
// that is configured so, or its words could ask for one.
func (x *decoded) approving(tried *attempted) bool {
	if tried.isNamed && tried.mapped.Approval {
		return true
	}
	if !x.call.Method.IsMessage() && x.call.Method != a2a.SkillInvoke {
		return false
	}
	return (x.call.Message.Loose || !tried.isNamed) && !x.EnforcesContext && slices.ContainsFunc(x.approvals(), func(HeldOperation) bool { return x.skill == "" })
}

// approvals are the operations of the agent that a person has to approve.
func (a *agent) approvals() []HeldOperation {
	return a.subjects(func(s Skill) bool { return s.Approval })
}

// subjects are the operations of the skills about which people are asked.
func (a *agent) subjects(about func(Skill) bool) []HeldOperation {
	var out []HeldOperation
	for _, s := range a.Skills {
		if about(s) {
			out = append(out, HeldOperation{s.Operation.String(), s.Write})
		}
	}
	sorting.Sort(out, func(a, b HeldOperation) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// hold keeps a call that waits for a person and answers with our own task.
func (g *Gateway) hold(w http.ResponseWriter, x *decided) {
	d := g.because(x, gate.Worded(powerbox.Reason{Code: gate.CodeApproval}))
	switch {
	case strings.HasPrefix(x.call.Task, HeldPrefix):
		d = g.heldAlready(x)
	case x.carries != nil && g.keepable(x) && !g.elicits(x):
		// The gateway would make the held call itself. A proxy makes its calls, so its caller
		// keeps this one.
		g.elicit(w, x, g.sendAway)
		return
	case x.by().waits(g, w, x, &d):
		return
	case x.carries != nil:
		d.Fix = "prove who calls, so that the call can come again after the approval, or call the agent at " + x.URL
	case g.config.Holds == nil:
		d.Fix = "call the agent where a person can be asked; this gateway cannot ask anybody"
	case !x.consumed && x.request.Header.Get("Authorization") != "":
		d.Fix = "leave out the credential for the agent behind: it is a secret, and is not kept"
	case x.call.Push != nil || len(x.handed) > 0:
		d.Fix = "leave out push notifications and capabilities for others; ask for the task"
	default:
		g.ask(w, x)
		return
	}
	g.deny(w, denied(x), d)
}

func (g *Gateway) ask(w http.ResponseWriter, x *decided) {
	c, err := g.heldCall(x)
	if err == nil {
		c.Request, err = x.parked(c.Caller)
	}
	var task HeldTask
	if err == nil {
		task, err = g.config.Holds.Hold(x.request.Context(), c)
	}
	if err != nil {
		g.refused(w, denied(x), err)
		return
	}
	if x.call.Streaming && x.released == nil {
		g.stay(w, x, task, outcomeHeld)
		return
	}
	g.tell(w, denied(x), task, true)
}

// outcomeHeld is the outcome that the caller of a held call is told.
const outcomeHeld = "held"

// heldCall is the stored form of a call.
func (g *Gateway) heldCall(x *decided) (HeldCall, error) {
	v, caller := x.verdict, x.caller
	if v.Held.Holder != "" {
		caller.Holder.ID, caller.Agent = v.Held.Holder, v.Held.Origin
	}
	c := HeldCall{
		Agent: x.ID, Tenant: x.call.Tenant, Context: x.call.Context, Owner: g.ownerOf(x.decoded, v.Held), Caller: caller, Purpose: v.Record.Intent.Purpose,
		Digest: v.Digest(), Decision: v.Record.ID, Trace: x.attempted.trace,
		HeldUnder:   HeldUnder{Parent: v.Held.OnRecord, Under: v.Held.Links, Through: v.Held.Through},
		HeldSubject: HeldSubject{Operations: x.subjects(func(s Skill) bool { return s.Approval || s.Flow.Sink.Asks() }), Arguments: powerbox.Object(powerbox.Member{Name: "message", Value: powerbox.String(words(x.call.Params))})},
	}
	if x.isNamed {
		c.Operations, c.Arguments = []HeldOperation{{x.mapped.Operation.String(), x.mapped.Write}}, x.named.Arguments
		if h, ok := x.named.Arguments.Get(x.mapped.Handle); ok && x.mapped.Handle != "" {
			c.Handle, _ = h.Text()
			c.Resource, c.ResourceName, _ = g.config.Resources.Open(x.ID, v.Held.Root, c.Handle)
		}
	}
	var err error
	c.Authority, err = x.needed(v.Under)
	return c, err
}

// storedCall is what the call can be made from again.
func (x *decided) parked(caller identity.Caller) ([]byte, error) {
	p := storedCall{
		Binding: x.call.Binding, Method: x.request.Method, URL: x.request.URL.RequestURI(), Skill: x.skill, Header: http.Header{}, Body: x.decoded.body,
		Holder: caller.Holder.ID, Name: caller.Agent, User: caller.Principal, Groups: caller.Groups, Roles: caller.Roles, Trace: x.attempted.trace,
	}
	for _, name := range kept {
		if values := x.request.Header.Values(name); len(values) > 0 {
			p.Header[name] = values
		}
	}
	return json.Marshal(p)
}

// maxWords is how much of a message people are shown.
const maxWords = 2000

// words are the texts of the message in the parameters of a call.
func words(params powerbox.Value) string {
	var out []string
	message, _ := params.Get("message")
	for _, name := range []string{"parts", "content"} {
		parts, _ := message.Get(name)
		elements, _ := parts.Elements()
		for _, e := range elements {
			if v, ok := e.Get("text"); ok {
				text, _ := v.Text()
				out = append(out, text)
			}
		}
	}
	all := strings.Join(out, "\n")
	if len(all) > maxWords {
		all = strings.ToValidUTF8(all[:maxWords], "") + "..."
	}
	return all
}

// needed is the part of an authority that the call needs. The arguments are not in
// it: it is stored, and the digest of the request says which they are.
func (x *decided) needed(under powerbox.Authority) (powerbox.Authority, error) {
	if x.verdict.Basis == gate.OnAmbient {
		under = x.view.target.Caps // nothing bounds who relies on ambient authority
	}
	var clauses []powerbox.Clause
	for _, op := range x.verdict.Required() {
		if shape, ok := under.Shape(op); ok {
			clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
		}
	}
	return powerbox.NewAuthority(under.Window(), 0, clauses...)
}

// exactly narrows what the agent behind may do to what a person has approved: the
// named operation with these arguments.
func (x *decided) exactly(under powerbox.Authority) (powerbox.Authority, error) {
	if !x.isNamed {
		return under, nil
	}
	clauses := slices.Clone(under.Clauses())
	for i, c := range clauses {
		if !c.Pattern.Matches(x.mapped.Operation) {
			continue
		}
		members, _ := x.named.Arguments.Members()
		fields := make([]powerbox.Field, len(members))
		for n, m := range members {
			fields[n] = powerbox.Field{Name: m.Name, Constraint: powerbox.ExactValue{Value: m.Value}, Required: true}
		}
		var err error
		if clauses[i].Shape, err = powerbox.NewShape(powerbox.RestNone, fields...); err != nil {
			return powerbox.Authority{}, err
		}
	}
	return powerbox.NewAuthority(under.Window(), under.Depth(), clauses...)
}

// isHeld reports whether a call is about a task that stands for a held call, and
// answers it: the agent behind has never heard of that task.
func (g *Gateway) isHeld(w http.ResponseWriter, x *decided) bool {
	if g.config.Holds == nil || !strings.HasPrefix(x.call.Task, HeldPrefix) {
		return false
	}
	if x.carries != nil && x.beyond() != nil { // observe let it through
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), g.heldAlready(x))
		return true
	}
	ctx := x.request.Context()
	failed := func(what string, err error) {
		g.conclude(w, x, notTheAgent(evidence.Failed), func(x *concluded) { g.unavailable(w, x, what, err) })
	}
	task, known, err := g.config.Holds.Task(ctx, x.ID, x.call.Task)
	switch {
	case err != nil:
		failed("what has become of the call cannot be told", err)
		return true
	case !known:
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), g.foreign(x))
		return true
	}
	switch x.call.Method {
	case a2a.GetTask:
	case a2a.SubscribeToTask:
		g.follow(w, x, task)
		return true
	case a2a.CancelTask:
		if task, err = g.config.Holds.Cancel(ctx, x.ID, x.call.Task); err != nil {
			failed("the call cannot be withdrawn", err)
			return true
		}
	default:
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), g.heldAlready(x))
		return true
	}
	g.conclude(w, x, outcome{status: evidence.Achieved}, func(x *concluded) {
		w.Header().Set(HeaderDecision, x.verdict.Record.ID)
		g.tell(w, x, task, false)
	})
	return true
}

// heldAlready says what our own task cannot do.
func (g *Gateway) heldAlready(x *decided) a2a.Denial {
	return a2a.Denial{
		Code: a2a.CodeInvalidParams, Reason: codeHeld, DecisionID: x.verdict.Record.ID, At: g.config.Now(),
		Message: "this task stands for a call that a person has to approve; it can be asked for with GetTask, followed with SubscribeToTask and withdrawn with CancelTask, and nothing else",
	}
}

// codeHeld is the denial of what our own task cannot do.
const codeHeld = "task_waits_for_approval"

// own is a held call as a task.
func (held HeldTask) own() a2a.OwnTask {
	t := a2a.OwnTask{
		ID: held.Task, Context: held.Context, State: held.State, Text: held.Text, At: held.Updated, Decision: held.Decision, Denied: held.Denied,
	}
	if held.State == a2a.OwnAuthRequired {
		t.ApprovalURL, t.Expires = held.URL, held.Expires
	}
	if held.Answer != nil {
		answer, _ := a2a.ReadAnswer(held.Answer)
		if t.Answer = answer; t.Text == "" {
			t.Text = answer.Text
		}
		if t.State == a2a.OwnCompleted {
			t.State = answer.State
		}
	}
	return t
}

// Light is a held call without the answer of the agent behind, in the state that
// the answer has.
func (held HeldTask) Light() HeldTask {
	t := held.own()
	held.State, held.Text, held.Answer = t.State, t.Text, nil
	return held
}

// tell answers with our own task, as the answer to its message or alone.
func (g *Gateway) tell(w http.ResponseWriter, x *concluded, held HeldTask, sent bool) {
	t := held.own()
	h := w.Header()
	h.Set(HeaderOutcome, "answered")
	if held.State == a2a.OwnAuthRequired {
		h.Set(HeaderOutcome, outcomeHeld)
		h.Set(HeaderDecision, x.verdict.Record.ID)
	}
	h.Set("Cache-Control", "no-store")
	g.activate(h, x.decoded)
	kind, body, err := g.written(x.decided, t, sent)
	if err != nil {
		g.unavailable(w, x, "the task cannot be written as the caller reads it", err)
		return
	}
	if x.call.Binding == a2a.GRPC {
		h.Set("Trailer", "Grpc-Status")
	} else if x.call.Streaming {
		// The call is made without its caller, who follows the task elsewhere.
		kind, body = typeEvents, slices.Concat([]byte("data: "), body, []byte("\n\n"))
	}
	g.write(w, http.StatusOK, kind, body)
	if x.call.Binding == a2a.GRPC {
		h.Set("Grpc-Status", "0")
	}
}

// written is a task in the form of the binding, with its type.
func (g *Gateway) written(x *decided, t a2a.OwnTask, sent bool) (kind string, body []byte, err error) {
	version := x.call.Version
	if x.call.Method.IsExtension() {
		version = x.version()
	}
	form := a2a.FormOf(x.call.Binding, version)
	body = t.JSON(form)
	method := "GetTask"
	if sent {
		body, method = t.AsSent(form), "SendMessage"
	}
	switch {
	case x.call.Binding == a2a.GRPC:
		message, err := a2apb.Encode(x.call.Wire, body)
		return typeGRPC, a2apb.Frame(message), err
	case x.call.Binding == a2a.HTTPJSON && form == a2a.FormProto03:
		body, err = a2apb.Normal(method, body)
		return typeJSON, body, err
	case x.call.Binding == a2a.HTTPJSON:
		return typeJSON, body, nil
	}
	body, err = a2a.Result(x.call.ID, json.RawMessage(body))
	return typeJSON, body, err
}
