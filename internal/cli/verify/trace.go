package verify

import (
	"fmt"

	"github.com/powerbox-project/powerbox/agentcard"
)

// event is one step of a delegation as someone saw it, for conformance
// (CARD-17).
type event struct {
	Event string `json:"event"` // check, send, stream or status
	By    string `json:"by"`    // who does it
	To    string `json:"to,omitempty"`

	// Of a check: its question and its result.
	Needs      *agentcard.Needs `json:"needs,omitempty"`
	Compatible bool             `json:"compatible,omitempty"`

	// Of a send.
	Method  string `json:"method,omitempty"`
	Version string `json:"version,omitempty"`
	URL     string `json:"url,omitempty"`

	// Of a stream: its payload, message, statusUpdate or artifactUpdate.
	Payload string `json:"payload,omitempty"`
	Partial bool   `json:"partial,omitempty"`

	// Of a status.
	State string `json:"state,omitempty"`
	Text  string `json:"text,omitempty"`
}

// The invariants of a trace.
const (
	// invariantStreaming: an agent that does not declare streaming_message streams
	// no messages, and one that does not declare streaming streams nothing.
	invariantStreaming = "no_undeclared_streaming"
	// invariantBefore: anyone who sends has checked the card of the receiver before,
	// found it compatible, and sends in the version and to the place that the check
	// chose. What a check refuses is never sent.
	invariantBefore = "mismatch_found_before_delegation"
	// invariantAnswer: a check has the answer that its card and needs have.
	invariantAnswer = "same_cards_same_needs_same_answer"
)

// violation is one event that breaks an invariant.
type violation struct {
	Invariant string `json:"invariant"`
	Event     int    `json:"event"` // index in the trace
	Message   string `json:"message"`
}

// checkTrace holds a trace against the invariants. Cards are by the names of
// agents.
func checkTrace(cards map[string]agentcard.Card, trace []event) []violation {
	var out []violation
	fail := func(i int, invariant, format string, args ...any) {
		out = append(out, violation{invariant, i, fmt.Sprintf(format, args...)})
	}
	chosen := map[string]agentcard.Answer{} // by who checked whom
	for i, e := range trace {
		pair := e.By + " " + e.To
		switch e.Event {
		case "check":
			var needs agentcard.Needs
			if e.Needs != nil {
				needs = *e.Needs
			}
			a := agentcard.Compatible(cards[e.To], needs)
			if a.Compatible != e.Compatible {
				fail(i, invariantAnswer, "%s found %s compatible: %t; it is %t", e.By, e.To, e.Compatible, a.Compatible)
			}
			chosen[pair] = a
		case "send":
			a, checked := chosen[pair]
			switch {
			case !checked:
				fail(i, invariantBefore, "%s sends to %s without having checked its card", e.By, e.To)
			case !a.Compatible:
				fail(i, invariantBefore, "%s sends to %s, which is not compatible", e.By, e.To)
			case a.Version.String() != e.Version || a.Interface.URL != e.URL:
				fail(i, invariantBefore, "%s sends %s to %s; the check chose %s to %s", e.By, e.Version, e.URL, a.Version, a.Interface.URL)
			}
		case "stream":
			if !cards[e.By].Supports("streaming") {
				fail(i, invariantStreaming, "%s streams and does not declare streaming", e.By)
			}
			if e.Payload == "message" && e.Partial && !cards[e.By].Supports("streaming_message") {
				fail(i, invariantStreaming, "%s streams messages and does not declare streaming_message", e.By)
			}
		case "status":
		default:
			fail(i, invariantAnswer, "event %q; want check, send, stream or status", e.Event)
		}
	}
	return out
}
