package gateway

import (
	"errors"
	"net/http"
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/identity"
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
	handed   []string // ids of other agents' capabilities, for the agent behind
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
	if x.verdict.Basis != gate.OnCapability {
		// A capability that was refused and only looked at speaks for nobody.
		x.verdict.Held = gate.Held{}
	}
	if err := g.handOver(x); err != nil {
		g.finish(x, evidence.Failed)
		g.refused(w, x, err)
		return
	}
	g.pass(w, x)
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
	g.config.Log.ErrorContext(x.request.Context(), "a call cannot be served", "agent", x.ID, "what", message, "error", err)
	code, reason := a2a.CodeInternal, gate.CodeUnavailable
	if errors.Is(err, evidence.ErrNotWritten) {
		code, reason = a2a.CodeUnauthorized, "evidence_unavailable"
	}
	g.deny(w, x, a2a.Denial{Code: code, Reason: reason, Message: message, Retryable: true})
}
