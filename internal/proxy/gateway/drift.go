package gateway

import (
	"fmt"
	"slices"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Drift says what becomes of an agent's doing what its card does not declare
// (CARD-12).
type Drift string

// What becomes of it. The zero Drift is DriftIgnore.
const (
	DriftIgnore Drift = "ignore"
	DriftRecord Drift = "record" // it stands in the outcome of the call
	DriftBlock  Drift = "block"  // that, and the caller does not get it
)

// codeUndeclared is said where an answer is kept back because the agent's card
// does not declare what the agent does in it.
const codeUndeclared = "undeclared_behaviour"

// behaviour is something that an agent was seen to do, by the feature that its card must
// declare for it.
type behaviour string

const (
	streams            behaviour = "streaming"           // it answered with a stream
	streamsMessages    behaviour = "streaming_message"   // it streamed a Message with partial: true
	registersPush      behaviour = "push_notifications"  // it took a registration for push notifications
	servesExtendedCard behaviour = "extended_agent_card" // it answered GetExtendedAgentCard with a card
	pauses             behaviour = "pause_resume"        // it said that a task is paused
	// driftVersion is answering in a version that no interface of the card has.
	driftVersion behaviour = "protocol_version"
)

// driftsVersion reports whether a card has no interface of the binding for a version whose
// calls the agent answers (CARD-12). Binding "" is any.
func driftsVersion(c agentcard.Card, binding string, v agentcard.Version) bool {
	return !slices.ContainsFunc(c.Interfaces(), func(i agentcard.Interface) bool { return (binding == "" || i.Binding == binding) && i.Speaks(v) })
}

// driftError keeps an answer back.
type driftError struct {
	agent     string
	behaviour behaviour
}

func (e *driftError) Error() string {
	return fmt.Sprintf("the agent %s does what its card does not declare (%s), and its operator has that blocked", e.agent, e.behaviour)
}

// drift notes something that the agent behind was seen to do, and returns a
// *driftError where that is kept from the caller. Observe keeps nothing back.
func (g *Gateway) drift(x *decided, did behaviour) error {
	if x.Drift != DriftRecord && x.Drift != DriftBlock || x.view == nil || x.MCP != nil {
		return nil
	}
	if did != driftVersion && x.view.contract.Supports(string(did)) {
		return nil
	}
	if !slices.Contains(x.learned.drifted, string(did)) {
		x.learned.drifted = append(x.learned.drifted, string(did))
		g.config.Log.WarnContext(x.request.Context(), "an agent does what its card does not declare", "agent", x.ID, "behaviour", string(did), "record", x.verdict.Record.ID)
	}
	if x.Drift == DriftBlock && x.mode != gate.Observe {
		return &driftError{x.ID, did}
	}
	return nil
}

// behaved compares a good answer, or a good event of a stream, with the agent's
// card.
func (g *Gateway) behaved(x *decided, payload []byte, streamed bool) error {
	if x.Drift != DriftRecord && x.Drift != DriftBlock {
		return nil
	}
	var first error
	note := func(did behaviour) {
		if err := g.drift(x, did); err != nil && first == nil {
			first = err
		}
	}
	if streamed {
		note(streams)
	}
	shown := a2a.BehaviourOf(payload)
	if shown.Partial && streamed {
		note(streamsMessages)
	}
	if shown.Paused {
		note(pauses)
	}
	if x.call.Push != nil {
		note(registersPush)
	}
	if x.asksForCard() {
		note(servesExtendedCard)
	}
	if v, err := agentcard.HeaderVersion(x.call.Version); err == nil && x.asked() != "" && !x.call.Method.IsExtension() && driftsVersion(x.view.contract, x.call.Binding.String(), v) {
		note(driftVersion)
	}
	return first
}

// unserved notes that the agent behind refused, as something that it does not do, a
// feature that its card declares. The caller gets the refusal in any case.
func (g *Gateway) unserved(x *decided, code int64, refused bool) {
	if !refused || x.call.Method.IsExtension() {
		return
	}
	var of behaviour
	codes := []int64{a2a.CodeMethodNotFound}
	switch {
	case x.call.Push != nil && (code == a2a.CodePushNotSupported || !x.call.Method.IsMessage()):
		of, codes = registersPush, append(codes, a2a.CodePushNotSupported, a2a.CodeUnsupported)
	case x.call.Method.Streams():
		// An agent answers CodeUnsupported also for a task that has ended.
		if of = streams; x.call.Task == "" {
			codes = append(codes, a2a.CodeUnsupported)
		}
	case x.asksForCard():
		of, codes = servesExtendedCard, append(codes, a2a.CodeUnsupported, a2a.CodeNoExtendedCard)
	case x.call.Method == a2a.SendMessage && code == a2a.CodeMethodNotFound && x.call.Task == "":
		g.noInterface(x) // without this method there is no interface
		return
	default:
		return
	}
	if slices.Contains(codes, code) && x.view.contract.Supports(string(of)) {
		g.notServed(x, of)
	}
}

// noInterface notes that nothing answers where the card has an interface for HTTP+JSON or gRPC.
// Where JSON-RPC does not answer, the agent is away.
func (g *Gateway) noInterface(x *decided) {
	if b := x.call.Binding; x.Drift != DriftIgnore && x.view != nil && (b == a2a.HTTPJSON || b == a2a.GRPC) && len(x.view.card.Speaks(b)) > 0 {
		g.notServed(x, behaviour("interface "+b.String()))
	}
}

// notServed notes something that the card declares and the agent does not serve.
func (g *Gateway) notServed(x *decided, of behaviour) {
	told := string(of) + ":not_served"
	if x.Drift != DriftRecord && x.Drift != DriftBlock || x.view == nil || slices.Contains(x.learned.drifted, told) {
		return
	}
	x.learned.drifted = append(x.learned.drifted, told)
	g.config.Log.WarnContext(x.request.Context(), "an agent does not do what its card declares", "agent", x.ID, "behaviour", string(of), "record", x.verdict.Record.ID)
}

// undeclared is the refusal of an answer that is kept back.
func (g *Gateway) undeclared(x *decided, e *driftError) a2a.Denial {
	d := g.because(x, evidence.Reason{Code: codeUndeclared, Message: "the agent answered with something that its card does not declare: " + string(e.behaviour)})
	d.Fix = "have the agent declare it, or call the agent without relying on it"
	return d
}
