package gateway

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/trust"
)

// malformed answers what nothing can be decided about with the protocol's own
// error. Where it is known who sent it, it is on record.
func (g *Gateway) malformed(w http.ResponseWriter, x *decoded, wrong *a2a.Error) {
	d := wrong.Denial()
	if x.caller.Holder.ID != "" {
		call, _, err := g.gateCall(x, wrong)
		if err != nil {
			g.refused(w, x, err)
			return
		}
		call.Mode = gate.Require // nothing of it is forwarded, whatever the agent's mode
		verdict, err := g.config.Gate.Check(x.request.Context(), call)
		if x.notes.verdict = verdict; g.turnedAway(w, x, err) {
			return
		}
		if err != nil {
			g.unavailable(w, x, "the refusal could not be recorded", err)
			return
		}
		d.DecisionID = verdict.Record.ID
	}
	g.deny(w, x, d)
}

// dispatch takes a call that was decoded on: to the issuer, or to the gate and, where it
// is allowed, to the agent.
func (g *Gateway) dispatch(w http.ResponseWriter, x *decoded) {
	switch x.call.Method {
	case a2a.CapabilitiesRequest, a2a.CapabilitiesAttenuate, a2a.CapabilitiesRevoke, a2a.CapabilitiesList:
		if x.carries != nil && !x.carries.Answers {
			g.deny(w, x, a2a.Denial{Reason: codeNoAnswer, Message: "the gateway answers this method itself, and the proxy that asks cannot carry the answer; call it at " + x.URL})
			return
		}
		g.issue(w, x)
		return
	case a2a.Unknown:
		if x.wrong == nil && x.mode != gate.Observe && !x.by().passes(x) {
			g.malformed(w, x, a2a.MethodNotFound(x.call.Binding, x.call.Wire))
			return
		}
	default:
	}
	if x.wrong == nil && x.mode != gate.Observe {
		if wrong := x.by().unspoken(x); wrong != nil {
			g.malformed(w, x, wrong)
			return
		}
	}
	d, err := g.decide(x)
	x.count.leave() // it is on record, and nothing turns it away from here on
	var denial interface{ Denial() a2a.Denial }
	switch {
	case g.turnedAway(w, x, err):
	case errors.As(err, &denial):
		g.refused(w, x, err)
	case err != nil:
		g.unavailable(w, x, undecided(err), err)
	case d.verdict.Waits:
		g.hold(w, d)
	case !d.verdict.Allowed:
		g.deny(w, denied(d), g.denial(d))
	default:
		g.allowed(w, d)
	}
}

// undecided says why a call does not continue that has no decision on record.
func undecided(err error) string {
	var late *evidence.LateError
	switch {
	case errors.As(err, &late):
		return "the decision could not be recorded in time, so the call was not made; the record that this answer names may still be written, and then it is followed by an outcome that says so"
	case errors.Is(err, evidence.ErrNotWritten):
		return "the decision could not be recorded, so the call was not made; there is no record of it, and this answer names none"
	}
	return "the call could not be decided, so it was not made; there is no record of it, and this answer names none"
}

// decide has the gate decide and record a call.
func (g *Gateway) decide(x *decoded) (*decided, error) {
	call, tried, err := g.gateCall(x, x.wrong)
	if err != nil {
		return nil, err
	}
	d := &decided{decoded: x, attempted: tried, learned: &learned{}}
	d.verdict, err = g.config.Gate.Check(x.request.Context(), call)
	x.notes.verdict = d.verdict
	if d.verdict.Allowed && d.verdict.Basis != gate.OnCapability {
		// A refused capability that was only looked at gives no authority.
		d.verdict.Held = gate.Held{}
	}
	return d, err
}

// allowed answers a call that may continue, or sends it on.
func (g *Gateway) allowed(w http.ResponseWriter, x *decided) {
	if g.isHeld(w, x) {
		return
	}
	list, answered := g.listsHeld(w, x)
	if answered {
		return
	}
	g.pushes.count(x.decoded)
	delegated, prepared := g.prepared(w, x)
	if !prepared || g.cancelled(w, x) {
		return
	}
	g.pass(w, x, extras{list: list, delegated: delegated})
}

// unnamedTenant reports whether a method that only configuration knows is called so that
// only the agent can tell the tenant: it has no parameters with names.
func (x *decoded) unnamedTenant() bool {
	return x.call.Method == a2a.Unknown && x.by().unnamed(x)
}

// prepared does what a call that was allowed needs before it continues. Where that
// fails the call is answered and has no effect.
func (g *Gateway) prepared(w http.ResponseWriter, x *decided) (delegated []Delegated, ok bool) {
	owned, err := g.claim(x)
	if err == nil && owned {
		err = g.noteRead(x)
	}
	if err == nil && owned {
		delegated, err = g.handOver(x)
	}
	switch {
	case err != nil:
		g.conclude(w, x, outcome{status: evidence.Failed, cause: trust.CauseGateway, told: reasonOf(err)}, func(x *concluded) { g.refused(w, x, err) })
		return nil, false
	case !owned:
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), g.foreign(x))
		return nil, false
	}
	// The record may have waited for the disk, or for another primary.
	if ended := (*endedError)(nil); errors.As(g.still(x), &ended) {
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), g.because(x, ended.why))
		return nil, false
	}
	return delegated, true
}

// endedError says why a call that was allowed is not sent.
type endedError struct{ why evidence.Reason }

// Error implements error.
func (e *endedError) Error() string { return e.why.Message }

// still returns an [endedError] if the verdict on a call no longer holds.
func (g *Gateway) still(x *decided) error {
	if why, good := g.config.Gate.Recheck(x.verdict); !good && (x.mode != gate.Observe || why.Code == gate.CodeFrozen) {
		return &endedError{why}
	}
	return nil
}

// foreign words that a task or context is not the caller's as the agent behind
// words that there is none.
func (g *Gateway) foreign(x *decided) a2a.Denial {
	d := a2a.TaskNotFound(x.call.Method, g.config.Now())
	if noTask, _ := x.by().gone(); noTask != "" {
		d.Message = noTask
	}
	if x.call.Method.NamesTask() && !x.call.Streaming {
		d.Task = x.call.Task
	}
	d.DecisionID = x.verdict.Record.ID
	return d
}

// denial words a verdict for the caller.
func (g *Gateway) denial(x *decided) a2a.Denial {
	v := x.verdict
	for _, r := range v.Reasons {
		if r.Code == gate.CodeForeignTask {
			return g.foreign(x)
		}
	}
	var why evidence.Reason
	if len(v.Reasons) > 0 {
		why = v.Reasons[0]
	}
	d := g.because(x, why)
	d.Missing, d.Fix = v.Missing, x.fixFor(d.Reason)
	d.Retryable = d.Retryable || d.Reason == gate.CodeReplay || d.Reason == gate.CodeProofBefore
	if x.namesNoSkill() && namingHelps(d.Reason) {
		d.Message += "; the message names no skill, so it needs every operation that free text can ask for"
		if d.Reason == gate.CodeCapabilityRequired {
			d.Fix += ", and " + x.howToName()
		} else {
			d.Fix = x.howToName()
		}
	}
	return d
}

// namesNoSkill reports whether the call is a message that could ask for anything.
func (x *decided) namesNoSkill() bool { return x.call.Method.IsMessage() && !x.isNamed }

// namingHelps reports whether a message that is denied for a reason may be allowed once it
// names its skill.
func namingHelps(reason string) bool {
	switch reason {
	case gate.CodeCapabilityRequired, gate.CodeScope, gate.CodeByPolicy, gate.CodeMessageNotBound, string(powerbox.CodeOperation), string(powerbox.CodeRequirementUnknown):
		return true
	}
	return false
}

// howToName says how a client names the skill that it means.
func (x *decided) howToName() string {
	return "name the skill: send the message to " + x.URL + "/skills/SKILL, put {\"skill\", \"arguments\"} into a data part, or use powerbox call --skill SKILL"
}

// reasonOf is the code that refused answers with.
func reasonOf(err error) string {
	var denial interface{ Denial() a2a.Denial }
	switch {
	case errors.As(err, &denial):
		return denial.Denial().Reason
	case errors.Is(err, evidence.ErrNotWritten):
		return codeNotRecorded
	}
	return gate.CodeUnavailable
}

// refused answers an error of the issuer: with its denial where it is one.
func (g *Gateway) refused(w http.ResponseWriter, at stage, err error) {
	x := at.readable()
	var denial interface{ Denial() a2a.Denial }
	if errors.As(err, &denial) {
		d := denial.Denial()
		d.DecisionID = cmp.Or(d.DecisionID, x.notes.verdict.Record.ID)
		g.deny(w, x, d)
		return
	}
	g.unavailable(w, x, "the call cannot be decided now", err)
}

// unavailable answers when we ourselves cannot do our part. The cause is
// logged and not told.
func (g *Gateway) unavailable(w http.ResponseWriter, at stage, message string, err error) {
	x := at.readable()
	g.config.Log.ErrorContext(x.request.Context(), "a call cannot be served", "agent", x.ID, "what", message, "error", err)
	code, reason := a2a.CodeInternal, gate.CodeUnavailable
	if errors.Is(err, evidence.ErrNotWritten) {
		code, reason = a2a.CodeUnauthorized, codeNotRecorded
	}
	w.Header().Set("Retry-After", strconv.Itoa(retryUnavailable))
	g.deny(w, x, a2a.Denial{Code: code, Reason: reason, Message: message, Retryable: true, Away: true, DecisionID: x.notes.verdict.Record.ID, At: g.config.Now()})
}
