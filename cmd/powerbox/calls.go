package main

import "github.com/powerbox-project/powerbox/evidence"

// isCall reports whether a record is the decision about a call: of A2A or MCP, an
// execution of the Agent Auth Protocol, or a call that another program asked about. Each
// gate says on record what it decided for, and nothing else does; so a new kind of call
// is counted in every verb without being named here. The outcome of a call is none.
func isCall(r evidence.Record) bool {
	return r.Details.Gate != nil && r.Details.OutcomeOf == ""
}

// freeTextCall is the operation, in what operators read, of a call that names no skill.
const freeTextCall = "free text"

// isFreeText reports whether a call names no skill. Its record lists every operation that
// the text could ask for, and none of them was called. A program that asks about a
// hand-off says itself what the hand-off needs.
func isFreeText(r evidence.Record) bool {
	return isCall(r) && r.Details.Attempt == "admission" && r.ActionType != "guard.call"
}
