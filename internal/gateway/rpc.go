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
)

// serve returns the handler of one binding: decode, authenticate, decide,
// record, forward.
func (g *Gateway) serve(b a2a.Binding) func(http.ResponseWriter, *http.Request, *agent, string) {
	return func(w http.ResponseWriter, r *http.Request, a *agent, skill string) {
		x := &exchange{agent: a, request: r, skill: skill, call: a2a.Call{Binding: b}}
		if a.MCP != nil {
			if b != a2a.JSONRPC || skill != "" {
				http.Error(w, "there is nothing here; this MCP server is reached at "+a.URL, http.StatusNotFound)
				return
			}
			x.call.Binding = a2a.MCP
		}
		if b == a2a.HTTPJSON {
			x.path = pathBelow(r, skill)
		}
		g.observed(w, x)
	}
}

func (g *Gateway) handle(w http.ResponseWriter, x *exchange) {
	r := x.request
	body, status, err := g.readBody(r)
	if err != nil {
		g.unreadable(w, x, status, err)
		return
	}
	x.body, x.forward = body, body
	if x.mode, err = g.config.Mode(r.Context(), x.ID); err != nil {
		g.unavailable(w, x, "the mode of the agent cannot be told", err)
		return
	}
	if x.view, err = x.agent.view(r.Context()); err != nil {
		g.unavailable(w, x, "the agent behind cannot be reached", err)
		return
	}
	if b := x.call.Binding; b != a2a.JSONRPC && len(x.view.card.Speaks(b)) == 0 {
		g.unoffered(w, x)
		return
	}
	// In observe what HTTP can carry is carried; everywhere else what cannot be
	// read is refused with the protocol's own error.
	noCallStatus, noCall := x.noCall()
	call, decodeError := x.call, a2a.NoCall(noCall)
	if noCall == nil {
		call, decodeError = x.decode(powerbox.Limits{Bytes: g.config.BodyLimit, Depth: 64})
	}
	x.call = call
	caller, consumed, err := g.config.Identity.Authenticate(x.addressed(), x.URL, g.config.Now())
	_, scopes := scopeCredential(r.Header)
	x.caller, x.consumed = caller, consumed || scopes
	leave, admitted := g.admit(w, x)
	if !admitted {
		return
	}
	defer leave()
	mode, failed := g.modeNow(r.Context(), x, decodeError == nil)
	if failed != nil {
		g.unavailable(w, x, "the mode of the agent cannot be told", failed)
		return
	}
	x.mode = mode
	if err != nil && (x.mode != gate.Observe || call.Method.IsExtension()) {
		g.unauthenticated(w, x, err)
		return
	}
	if x.mode != gate.Observe {
		if noCall == nil {
			noCallStatus, noCall = http.StatusUnsupportedMediaType, checkContentType(x)
		}
		if noCall != nil {
			g.unreadable(w, x, noCallStatus, noCall)
			return
		}
	}
	// A path that servers read differently could lead out of the agent's URL.
	if decodeError != nil && (x.mode != gate.Observe || call.Method.IsExtension() || decodeError.Reason == a2a.ReasonPath) {
		g.malformed(w, x, decodeError)
		return
	}
	g.dispatch(w, x, decodeError)
}

// unauthenticated answers a caller of whom it cannot be told who it is.
func (g *Gateway) unauthenticated(w http.ResponseWriter, x *exchange, err error) {
	if errors.Is(err, identity.ErrUnavailable) {
		g.unavailable(w, x, "who calls cannot be told now", err)
		return
	}
	g.deny(w, x, a2a.Denial{Code: a2a.CodeUnauthenticated, Reason: "unauthenticated", Message: err.Error()})
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
// come as a query parameter; two versions are none that is supported.
func header(r *http.Request) a2a.Header {
	versions := append(r.Header.Values("A2A-Version"), r.URL.Query()["A2A-Version"]...)
	version := strings.Join(slices.Compact(versions), ", ")
	return a2a.Header{
		Version:    version,
		Extensions: append(r.Header.Values("A2A-Extensions"), r.Header.Values("X-A2A-Extensions")...),
	}
}

func (g *Gateway) dispatch(w http.ResponseWriter, x *exchange, decodeError *a2a.Error) {
	x.unread = decodeError != nil || x.unnamedTenant() || x.tenantIn03()
	switch x.call.Method {
	case a2a.CapabilitiesRequest, a2a.CapabilitiesAttenuate, a2a.CapabilitiesRevoke, a2a.CapabilitiesList:
		g.issue(w, x)
		return
	case a2a.Unknown:
		if decodeError == nil && x.mode != gate.Observe && !x.mayPass() {
			g.malformed(w, x, a2a.MethodNotFound(x.call.Wire))
			return
		}
	default:
	}
	if decodeError == nil && x.mode != gate.Observe {
		if wrong := x.unspoken(); wrong != nil {
			g.malformed(w, x, wrong)
			return
		}
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
	if x.verdict.Waits {
		g.hold(w, x)
		return
	}
	if !x.verdict.Allowed {
		g.deny(w, x, g.denial(x))
		return
	}
	if g.isHeld(w, x) || g.listsHeld(w, x) {
		return
	}
	g.pushes.count(x)
	if x.verdict.Basis != gate.OnCapability {
		// A capability that was refused and only looked at speaks for nobody.
		x.verdict.Held = gate.Held{}
	}
	if !g.prepared(w, x) || g.cancelled(w, x) {
		return
	}
	g.pass(w, x)
}

// unnamedTenant reports whether a method that only configuration knows is called so that
// nobody but the agent can tell in which tenant: it has no parameters with names.
func (x *exchange) unnamedTenant() bool {
	switch {
	case x.call.Method != a2a.Unknown || x.call.Binding == a2a.MCP:
		return false
	case x.call.Binding == a2a.JSONRPC:
		kind := x.call.Params.Kind()
		return kind != powerbox.KindObject && kind != powerbox.KindNull
	default:
		return true
	}
}

// mayPass reports whether a method that is in no table of A2A's goes on to be
// decided.
func (x *exchange) mayPass() bool {
	if x.call.Binding == a2a.MCP {
		return x.knownToMCP()
	}
	return slices.Contains(x.Methods, x.call.Wire)
}

// prepared does what a call that was allowed needs before it goes on. Where that
// fails the call is answered and has no effect.
func (g *Gateway) prepared(w http.ResponseWriter, x *exchange) bool {
	owned, err := g.claim(x)
	if err == nil && owned {
		err = g.handOver(x)
	}
	switch {
	case err != nil:
		g.finish(x, notTheAgent(evidence.Failed))
		g.refused(w, x, err)
		return false
	case !owned:
		g.finish(x, notTheAgent(evidence.Failed))
		g.deny(w, x, g.foreign(x))
		return false
	}
	// The record may have waited for the disk, or for another primary.
	if why, good := g.config.Gate.Recheck(x.verdict); !good && (x.mode != gate.Observe || why.Code == gate.CodeFrozen) {
		g.finish(x, notTheAgent(evidence.Failed))
		g.deny(w, x, a2a.Denial{Reason: why.Code, Message: why.Message, Retryable: passes(why.Code), DecisionID: x.verdict.Record.ID, At: g.config.Now()})
		return false
	}
	return true
}

// foreign words that a task or context is not the caller's as the agent behind
// words that there is none.
func (g *Gateway) foreign(x *exchange) a2a.Denial {
	d := a2a.TaskNotFound(x.call.Method, g.config.Now())
	if x.call.Binding == a2a.MCP {
		d.Message = "session not found; initialize again"
	}
	if x.call.Method.NamesTask() && !x.call.Streaming {
		d.Task = x.call.Task
	}
	d.DecisionID = x.verdict.Record.ID
	return d
}

// denial words a verdict for the caller.
func (g *Gateway) denial(x *exchange) a2a.Denial {
	v := x.verdict
	d := a2a.Denial{DecisionID: v.Record.ID, Missing: v.Missing, At: g.config.Now()}
	for _, r := range v.Reasons {
		if r.Code == gate.CodeForeignTask {
			return g.foreign(x)
		}
	}
	if len(v.Reasons) > 0 {
		d.Reason, d.Message = v.Reasons[0].Code, v.Reasons[0].Message
	}
	d.Retryable = passes(d.Reason)
	switch d.Reason {
	case gate.CodeCapabilityRequired:
		d.Fix = "request a capability with a2a/capabilities/request at " + x.URL
	case string(powerbox.CodeOperation):
		d.Fix = "if the user's task needs it, request a capability for it with a2a/capabilities/request at " + x.URL
	case gate.CodeReplay:
		d.Retryable, d.Fix = true, "sign a new proof"
	case gate.CodeMessageNotBound:
		d.Fix = "name the skill and its arguments in a data part {\"skill\", \"arguments\"}"
	}
	return d
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
		code, reason = a2a.CodeUnauthorized, codeNotRecorded
	}
	g.deny(w, x, a2a.Denial{Code: code, Reason: reason, Message: message, Retryable: true})
}
