package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// exchange is one request on its way through the gateway.
type exchange struct {
	*agent
	view     *view
	mode     gate.Mode
	request  *http.Request
	skill    string // named by the URL, "" for none
	body     []byte // as received
	caller   identity.Caller
	consumed bool // the Authorization header is ours
	call     a2a.Call
	named    a2a.Named
	mapped   Skill // zero where no skill is named
	isNamed  bool
	forward  []byte // what the agent gets
	verdict  gate.Verdict
	// delegated are capabilities of other agents that the task was given.
	delegated []Delegated
	ended     []string // tasks that the answer says have ended
}

// rpc handles one JSON-RPC request: decode, authenticate, decide, record,
// forward.
func (g *Gateway) rpc(w http.ResponseWriter, r *http.Request, a *agent, skill string) {
	x := &exchange{agent: a, request: r, skill: skill}
	body, status, err := g.readBody(r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	x.body, x.forward = body, body
	if x.mode, err = g.config.Mode(r.Context(), a.ID); err != nil {
		g.unavailable(w, x, "the mode of the agent cannot be told", err)
		return
	}
	if x.view, err = a.view(r.Context()); err != nil {
		g.unavailable(w, x, "the agent behind cannot be reached", err)
		return
	}
	// In observe what HTTP can carry is carried; everywhere else what cannot be
	// read is refused with the protocol's own error.
	call, decodeError := a2a.Decode(body, header(r), powerbox.Limits{Bytes: g.config.BodyLimit, Depth: 64})
	x.call = call
	caller, consumed, err := g.config.Identity.Authenticate(r, a.URL, g.config.Now())
	x.caller, x.consumed = caller, consumed
	if g.limit(w, x) {
		return
	}
	x.mode = a.share(x.mode, caller)
	if err != nil && (x.mode != gate.Observe || call.Method.IsExtension()) {
		g.deny(w, x, a2a.Denial{Code: a2a.CodeUnauthenticated, Reason: "unauthenticated", Message: err.Error()})
		return
	}
	if x.mode != gate.Observe {
		if err := checkContentType(r.Header); err != nil {
			http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
			return
		}
	}
	if decodeError != nil && (x.mode != gate.Observe || call.Method.IsExtension()) {
		g.malformed(w, x, decodeError)
		return
	}
	g.dispatch(w, x, decodeError)
}

// malformed answers what nothing can be decided about with the protocol's own
// error. Where it is known who sent it, it is on record.
func (g *Gateway) malformed(w http.ResponseWriter, x *exchange, wrong *a2a.Error) {
	d := wrong.Denial()
	if x.caller.Holder.ID != "" {
		call, err := g.gateCall(x, wrong)
		if err != nil {
			g.refused(w, x, err)
			return
		}
		call.Mode = gate.Require // nothing of it goes on, whatever the agent's mode
		if x.verdict, err = g.config.Gate.Check(x.request.Context(), call); err != nil {
			g.unavailable(w, x, "the refusal could not be recorded", err)
			return
		}
		d.DecisionID = x.verdict.Record.ID
	}
	g.deny(w, x, d)
}

// header collects what an A2A client says beside the body. The version may
// come as a query parameter.
func header(r *http.Request) a2a.Header {
	version := r.Header.Get("A2A-Version")
	if version == "" {
		version = r.URL.Query().Get("A2A-Version")
	}
	return a2a.Header{
		Version:    version,
		Extensions: append(r.Header.Values("A2A-Extensions"), r.Header.Values("X-A2A-Extensions")...),
	}
}

func (g *Gateway) dispatch(w http.ResponseWriter, x *exchange, decodeError *a2a.Error) {
	switch x.call.Method {
	case a2a.CapabilitiesRequest, a2a.CapabilitiesAttenuate, a2a.CapabilitiesRevoke, a2a.CapabilitiesList:
		g.issue(w, x)
		return
	case a2a.Unknown:
		if decodeError == nil && x.mode != gate.Observe && !slices.Contains(x.Methods, x.call.Wire) {
			g.malformed(w, x, a2a.MethodNotFound(x.call.Wire))
			return
		}
	default:
	}
	call, err := g.gateCall(x, decodeError)
	if err != nil {
		g.refused(w, x, err)
		return
	}
	x.verdict, err = g.config.Gate.Check(x.request.Context(), call)
	if err != nil {
		g.unavailable(w, x, "the decision could not be recorded, so the call does not go on", err)
		return
	}
	if !x.verdict.Allowed {
		g.deny(w, x, g.denial(x))
		return
	}
	g.pass(w, x)
}

// gateCall words the exchange as the gate's call.
func (g *Gateway) gateCall(x *exchange, decodeError *a2a.Error) (*gate.Call, error) {
	c := &gate.Call{
		Target: &x.view.target, Mode: x.mode, Origin: g.config.Origin,
		Caller: gate.Caller{Name: x.caller.Agent, Principal: g.config.Pseudonym(x.ID, x.caller.Principal), Holder: x.caller.Holder.ID},
		Task:   x.call.Task, Context: x.call.Context, Action: action(x.call), TraceID: traceID(x.request),
		Request: token.Request{Method: x.request.Method, URL: x.target(), Digest: token.DigestOf(x.body)},
		Ambient: x.request.Header.Get(HeaderAmbient) != "",
	}
	if g.config.Scope != nil {
		c.Scope = func(origin string) powerbox.Authority { return g.config.Scope(origin, x.ID) }
	}
	if decodeError != nil {
		c.Refused = []gate.Reason{{Code: decodeError.Reason, Link: -1, Message: decodeError.Message}}
		return c, nil
	}
	if err := g.attempts(x, c); err != nil {
		return nil, err
	}
	if err := g.presented(x, c); err != nil {
		return nil, err
	}
	return c, g.owns(x, c)
}

// action names what a record is about: a2a.SendMessage, a2a.skill.invoke.
func action(call a2a.Call) string {
	if call.Method.IsExtension() {
		return strings.ReplaceAll(call.Method.String(), "/", ".")
	}
	return "a2a." + call.Method.String()
}

// target is the URL that a proof must name: the agent's public URL, with the
// skill where the URL names one.
func (x *exchange) target() string {
	if x.skill != "" {
		return x.URL + "/skills/" + x.skill
	}
	return x.URL
}

// traceID returns the trace of a W3C traceparent header.
func traceID(r *http.Request) string {
	parts := strings.Split(r.Header.Get("traceparent"), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// attempts works out what the call tries.
func (g *Gateway) attempts(x *exchange, c *gate.Call) error {
	if m := x.call.Members; m != nil {
		c.Purpose, c.Ambient = m.Purpose, c.Ambient || m.Ambient
	}
	task := taskArguments(x.call)
	switch x.call.Method {
	case a2a.SendMessage, a2a.SendStreamingMessage, a2a.SkillInvoke, a2a.TaskSend:
		return g.messageAttempts(x, c, task)
	case a2a.GetTask, a2a.SubscribeToTask, a2a.ListTasks:
		return try(c, opRead, task)
	case a2a.CancelTask:
		c.Write = true
		return try(c, opCancel, task)
	case a2a.CreatePushConfig, a2a.GetPushConfig, a2a.ListPushConfigs, a2a.DeletePushConfig:
		return try(c, opPush, task)
	case a2a.GetExtendedCard:
		return try(c, opCard, powerbox.Object())
	default:
		// A method that only configuration knows: what it needs is what a
		// message needs.
		c.Attempts = append(c.Attempts, powerbox.Admission(x.Required...))
		c.Free = true
		return try(c, opMessage, task)
	}
}

// taskArguments are the arguments of the reserved operations, by which a
// capability can be bound to a task.
func taskArguments(call a2a.Call) powerbox.Value {
	var ms []powerbox.Member
	if call.Task != "" {
		ms = append(ms, powerbox.Member{Name: "task", Value: powerbox.String(call.Task)})
	}
	if call.Context != "" {
		ms = append(ms, powerbox.Member{Name: "context", Value: powerbox.String(call.Context)})
	}
	return powerbox.Object(ms...)
}

// messageAttempts tries the named skill with its arguments, or, where nothing
// is named, the admission of free text; both need the right to send messages.
func (g *Gateway) messageAttempts(x *exchange, c *gate.Call, task powerbox.Value) error {
	named, found, ambiguous := x.call.Naming(x.skill)
	if ambiguous != nil {
		c.Refused = append(c.Refused, gate.Reason{Code: ambiguous.Reason, Link: -1, Message: ambiguous.Message})
		return nil
	}
	// Content beside a named skill could ask for anything else. A stock client
	// at the URL of a skill can send nothing but content: it is about that skill
	// (level L1), whose arguments it must not be able to choose.
	atSkill := found && x.skill != ""
	c.Free = x.call.Message.Loose
	if found {
		mapped, ok := x.Skills[named.Skill]
		if !ok || !slices.Contains(x.view.card.Skills, named.Skill) {
			c.Refused = append(c.Refused, gate.Reason{Code: "skill_unmapped", Link: -1, Message: "skill " + named.Skill + " maps to no operation here"})
			return nil
		}
		x.named, x.mapped, x.isNamed = named, mapped, true
		if atSkill {
			c.FreeOf = mapped.Operation
		}
		c.Write, c.Handle, c.Arguments = mapped.Write, mapped.Handle, g.config.Redact(named.Arguments)
		if err := try(c, mapped.Operation, named.Arguments); err != nil {
			return err
		}
	}
	if c.Free && !atSkill || !found {
		c.Free = true
		c.Attempts = append(c.Attempts, powerbox.Admission(x.Required...))
	}
	if x.call.Push != nil {
		if err := try(c, opPush, task); err != nil {
			return err
		}
	}
	return try(c, opMessage, task)
}

// presented collects the capabilities that the call shows: by header, by
// members of the request metadata, by reference.
func (g *Gateway) presented(x *exchange, c *gate.Call) error {
	h := x.request.Header
	if values := h.Values(HeaderCapability); len(values) > 0 {
		c.Presented = append(c.Presented, gate.Presented{Chain: token.SplitChain(strings.Join(values, ",")), Proof: h.Get(HeaderProof)})
	}
	m := x.call.Members
	if m == nil {
		return nil
	}
	if len(m.Chain) > 0 {
		proof := m.Proof
		if proof == "" {
			proof = h.Get(HeaderProof)
		}
		c.Presented = append(c.Presented, gate.Presented{Chain: m.Chain, Proof: proof})
	}
	if m.CapabilityID != "" {
		c.Presented = append(c.Presented, gate.Presented{Reference: m.CapabilityID})
	}
	return g.attenuated(x, c, m)
}

// attenuated narrows the capabilities that a task is sent with (SEP-13): those
// of this agent are what the task runs under, those of others are handed to
// the agent behind, which becomes their holder.
func (g *Gateway) attenuated(x *exchange, c *gate.Call, m *a2a.Members) error {
	for _, id := range m.Capabilities {
		d, err := g.config.Issuing.Delegate(x.request.Context(), x.caller, id, m.Attenuations[id], x.ID)
		if err != nil {
			return err
		}
		if d.Agent == x.ID {
			c.Presented = append(c.Presented, gate.Presented{Reference: d.ID})
			continue
		}
		x.delegated = append(x.delegated, d)
	}
	return nil
}

// owns answers whether the tasks and contexts that a call names are the
// caller's (ATK-18). In observe an unknown one is nobody's and may pass.
func (g *Gateway) owns(x *exchange, c *gate.Call) error {
	names := slices.DeleteFunc(append([]string{x.call.Task, x.call.Context}, x.call.ReferenceTasks...), func(s string) bool { return s == "" })
	if len(names) == 0 {
		return nil
	}
	owners := make([]Owner, 0, len(names))
	for _, name := range names {
		o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, name)
		if err != nil {
			return err
		}
		if !known {
			c.Owns = func(gate.Held) bool { return false }
			return nil
		}
		owners = append(owners, o)
	}
	c.Owns = func(held gate.Held) bool {
		mine := g.ownerOf(x, held)
		if mine == (Owner{}) {
			return false // two callers of whom nothing is known are not the same one
		}
		for n, o := range owners {
			// A capability that was issued for the very task was issued to its
			// owner.
			if o != mine && (held.Task != names[n] || o.Principal != held.Principal) {
				return false
			}
		}
		return true
	}
	return nil
}

// ownerOf is to whom what a call makes belongs: the root of the capability
// that allowed it, and otherwise the caller.
func (g *Gateway) ownerOf(x *exchange, held gate.Held) Owner {
	if held.Root != "" {
		return Owner{Root: held.Root, Principal: held.Principal}
	}
	return Owner{Principal: g.config.Pseudonym(x.ID, x.caller.Principal), Holder: x.caller.Holder.ID}
}

// denial words a verdict for the caller.
func (g *Gateway) denial(x *exchange) a2a.Denial {
	v := x.verdict
	d := a2a.Denial{DecisionID: v.Record.ID, Missing: v.Missing, At: g.config.Now()}
	for _, r := range v.Reasons {
		if r.Code == gate.CodeForeignTask {
			d = a2a.TaskNotFound(x.call.Method, g.config.Now())
			d.DecisionID = v.Record.ID
			return d
		}
	}
	if len(v.Reasons) > 0 {
		d.Reason, d.Message = v.Reasons[0].Code, v.Reasons[0].Message
	}
	switch d.Reason {
	case gate.CodeCapabilityRequired:
		d.Fix = "request a capability with a2a/capabilities/request at " + x.URL
	case string(powerbox.CodeOperation):
		d.Fix = "if the user's task needs it, request a capability for it with a2a/capabilities/request at " + x.URL
	case gate.CodeReplay:
		d.Retryable, d.Fix = true, "sign a new proof"
	case gate.CodeMessageNotBound:
		d.Fix = "name the skill and its arguments in a data part {\"skill\", \"arguments\"}"
	case gate.CodeUnavailable:
		d.Retryable = true
	}
	return d
}

// deny answers with a denial, in the form that the binding's clients read.
func (g *Gateway) deny(w http.ResponseWriter, x *exchange, d a2a.Denial) {
	h := w.Header()
	if d.DecisionID != "" {
		h.Set(HeaderDecision, d.DecisionID)
	}
	h.Set(HeaderOutcome, "denied")
	status := http.StatusOK
	if x.DenyStatus == http.StatusForbidden && (d.Code == 0 || d.Code == a2a.CodeUnauthorized) {
		status = http.StatusForbidden
	}
	if x.call.Streaming && status == http.StatusOK {
		h.Set("Content-Type", "text/event-stream")
		w.WriteHeader(status)
		_, _ = w.Write(d.Event(x.call.ID)) // the client has gone: nobody is left to tell
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(d.JSONRPC(x.call.ID)) // as above
}

// refused answers an error of the issuer: with its denial where it is one.
func (g *Gateway) refused(w http.ResponseWriter, x *exchange, err error) {
	var denial interface{ Denial() a2a.Denial }
	if errors.As(err, &denial) {
		g.deny(w, x, denial.Denial())
		return
	}
	g.unavailable(w, x, "the call cannot be decided now", err)
}

// unavailable answers when we ourselves cannot do our part. The cause is
// logged and not told.
func (g *Gateway) unavailable(w http.ResponseWriter, x *exchange, message string, err error) {
	g.config.Log.ErrorContext(x.request.Context(), message, "agent", x.ID, "error", err)
	code, reason := a2a.CodeInternal, gate.CodeUnavailable
	if errors.Is(err, evidence.ErrNotWritten) {
		code, reason = a2a.CodeUnauthorized, "evidence_unavailable"
	}
	g.deny(w, x, a2a.Denial{Code: code, Reason: reason, Message: message, Retryable: true})
}

// try adds an invocation to what the call tries.
func try(c *gate.Call, op powerbox.Operation, args powerbox.Value) error {
	attempt, err := powerbox.Invocation(op, args)
	if err != nil {
		return err
	}
	c.Attempts = append(c.Attempts, attempt)
	return nil
}
