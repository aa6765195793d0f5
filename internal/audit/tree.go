package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// tree puts every decision under the one at the agent that asked: the last one of the
// same trace that let it begin. A decision without one is at the top.
func (g gathered) tree(issued issuance) []TraceHop {
	outcomes := map[string]evidence.Record{}
	var decisions []evidence.Record
	for _, r := range g.records {
		if of := r.Details.OutcomeOf; of == "" {
			decisions = append(decisions, r)
		} else if before, ok := outcomes[of]; r.Follows(g.records[of]) == nil && (!ok || r.Details.Sequence < before.Details.Sequence) {
			outcomes[of] = r // the first one counts
		}
	}
	sorting.Sort(decisions, func(a, b evidence.Record) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
	children := map[string][]evidence.Record{}
	for i, r := range decisions {
		parent := ""
		for _, before := range slices.Backward(decisions[:i]) {
			if leadsTo(before, r) {
				parent = before.ID
				break
			}
		}
		children[parent] = append(children[parent], r)
	}
	var hops func(of string) []TraceHop
	hops = func(of string) []TraceHop {
		out := []TraceHop{}
		for _, r := range children[of] {
			h := hopOf(r, issued, outcomes)
			h.Hops = hops(r.ID)
			out = append(out, h)
		}
		return out
	}
	return hops("")
}

// leadsTo reports whether one call can have led to another: the agent that received it
// made the next one, in the same trace.
func leadsTo(before, next evidence.Record) bool {
	return before.AgentID == next.Details.Requester && before.Decision != evidence.Deny &&
		before.Details.TraceID == next.Details.TraceID && next.Details.TraceID != ""
}

func hopOf(r evidence.Record, issued issuance, outcomes map[string]evidence.Record) TraceHop {
	d := r.Details
	h := TraceHop{
		Record: r.ID, Time: r.Time, Requester: d.Requester, Agent: r.AgentID, Action: r.ActionType, Operation: SubjectOf(r),
		Purpose: r.Intent.Purpose, Principal: d.Principal, Task: r.TaskID, Tenant: d.Tenant, Trace: d.TraceID, Mode: d.Mode,
		Under: orEmpty(issued.lineage(d.Capability)), Narrowed: []string{}, Missing: []string{},
		Decision: r.Decision, Reasons: orEmpty(d.Reasons), Outcome: string(r.OutcomeStatus),
	}
	if g := d.Gate; g != nil {
		h.Missing = orEmpty(g.Missing)
		if r.Decision == evidence.Allow {
			h.Narrowed = without(d.Granted, g.Allowed)
		}
	}
	if r.OutcomeStatus == evidence.Pending {
		h.Outcome = outcomeUnknown
		if o, ok := outcomes[r.ID]; ok {
			h.Outcome = string(o.OutcomeStatus)
		}
	}
	return h
}

// Count counts the decisions of a tree.
func Count(hops []TraceHop, decided evidence.Decision) int {
	n := 0
	for _, h := range hops {
		n += Count(h.Hops, decided)
		if h.Decision == decided || decided == "" {
			n++
		}
	}
	return n
}

// capabilityOperation is the operation of records about capabilities themselves.
const capabilityOperation = "a2a.capability"

// What returns the operation of a hop, or the change of a capability.
func (h TraceHop) What() string { return what(h.Operation, h.Action) }

// WhatOf returns the subject of a record, or the change of a capability.
func WhatOf(r evidence.Record) string { return what(SubjectOf(r), r.ActionType) }

func what(operation, action string) string {
	if operation == capabilityOperation {
		return action
	}
	return operation
}

// Decided is the decision in a word.
func (h TraceHop) Decided() string {
	if h.Outcome == "" && Waits(h.Decision, h.Reasons) {
		return "waits"
	}
	return decidedAs(h.Decision)
}

// Waits reports whether a decision left a call, or a request, to a person.
func Waits(d evidence.Decision, reasons []evidence.Reason) bool {
	return d == evidence.Abstain && slices.ContainsFunc(reasons, func(r evidence.Reason) bool { return r.Code == gate.CodeApproval })
}

// decidedAs is a decision in a word.
func decidedAs(d evidence.Decision) string {
	switch d {
	case evidence.Allow:
		return "allowed"
	case evidence.Deny:
		return "refused"
	case evidence.Abstain:
		return "passed" // by mode observe alone
	}
	return string(d)
}

// Verdict says in words what a record decided.
func Verdict(r evidence.Record) string {
	switch {
	case r.Decision == evidence.Allow:
		return "allowed"
	case r.Decision == evidence.Deny:
		return "denied"
	case r.Decision != evidence.Abstain:
		return string(r.Decision)
	case Waits(r.Decision, r.Details.Reasons) && r.OutcomeStatus == "" && action.ToMCP(r.ActionType):
		return "a person has to approve it: a client that opens URLs was sent to the page, any other was denied"
	case Waits(r.Decision, r.Details.Reasons) && r.OutcomeStatus == "":
		return "held until a person approves it; powerbox trace shows what became of it"
	case len(r.Details.Reasons) > 0:
		return "let through, since the agent is only observed; otherwise denied"
	}
	return "let through, since the agent is only observed"
}
