package main

import "github.com/powerbox-project/powerbox/evidence"

// isCall reports whether a record is the decision about a call: of A2A or MCP, an
// execution of the Agent Auth Protocol, or a call that another program asked about. Each
// gate says on record what it decided for, and nothing else does; so a new kind of call
// is counted in every verb without being named here. The outcome of a call is none.
func isCall(r evidence.Record) bool {
	return r.Details.Gate != nil && r.Details.OutcomeOf == ""
}
