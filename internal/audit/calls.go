package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
)

// IsCall reports whether a record is the decision about a call: of A2A or MCP, an
// execution of the Agent Auth Protocol, or a call that another program asked about. The
// list of action types says so, and of a type that is not on it the gate's own words do:
// other programs and other versions write such. The outcome of a call is none.
func IsCall(r evidence.Record) bool {
	return r.Details.OutcomeOf == "" && DecidesCall(r)
}

// DecidesCall reports whether a record is about a call: its decision, or its outcome.
func DecidesCall(r evidence.Record) bool {
	class := action.ClassOf(r.ActionType)
	return class == action.Call || class == action.Unlisted && r.Details.Gate != nil
}

// Others counts the records that decide about no call, by the class of their action.
type Others map[string]int

// Add counts a record, unless it decides about a call.
func (o Others) Add(r evidence.Record) {
	if r.Details.OutcomeOf != "" || IsCall(r) {
		return
	}
	o[cmp.Or(string(action.ClassOf(r.ActionType)), "unlisted")]++
}

func (o Others) String() string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(o)) {
		parts = append(parts, fmt.Sprintf("%d %s", o[class], class))
	}
	return strings.Join(parts, ", ")
}

// FreeTextCall is the operation, in words for operators, of a call that names no skill.
const FreeTextCall = "free text"

// IsFreeText reports whether a call names no skill. Its record lists every operation that
// the text could ask for, and none of them was called. A program that asks about a
// hand-off says itself what the hand-off needs.
func IsFreeText(r evidence.Record) bool {
	return DecidesCall(r) && r.Details.Attempt == "admission" && !action.Handoff.Is(r.ActionType)
}

// SessionCall is the operation, in words for operators, of a request of MCP that is about
// the session, or lists tools.
const SessionCall = "MCP session"

// isSession reports whether a call needs no more than the right to talk to an MCP server.
func isSession(r evidence.Record) bool {
	return action.OfSession(r.ActionType) && r.Intent.Operation == messageOperation
}

// messageOperation is the right to talk to an agent, whatever is asked of it.
const messageOperation = "a2a.message"

// SubjectOf returns the subject of a record, in words for operators.
func SubjectOf(r evidence.Record) string {
	if IsFreeText(r) {
		return FreeTextCall
	}
	if isSession(r) {
		return SessionCall
	}
	return r.Intent.Operation
}
