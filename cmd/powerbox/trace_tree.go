package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// tree puts every decision under the one at the agent that asked: the last one of
// the same trace that let it begin. What belongs to none is at the top.
func (g gathered) tree(issued map[string]evidence.Record) []traceHop {
	outcomes := map[string]evidence.Record{}
	var decisions []evidence.Record
	for _, r := range g.records {
		if of := r.Details.OutcomeOf; of == "" {
			decisions = append(decisions, r)
		} else if before, ok := outcomes[of]; r.Follows(g.records[of]) == nil && (!ok || r.Details.Sequence < before.Details.Sequence) {
			outcomes[of] = r // the first one counts
		}
	}
	slices.SortFunc(decisions, func(a, b evidence.Record) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)) })
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
	var hops func(of string) []traceHop
	hops = func(of string) []traceHop {
		out := []traceHop{}
		for _, r := range children[of] {
			h := hopOf(r, issued, outcomes)
			h.Hops = hops(r.ID)
			out = append(out, h)
		}
		return out
	}
	return hops("")
}

// leadsTo reports whether one call can have led to another: the agent that it
// came to is who asked next, in the same trace.
func leadsTo(before, next evidence.Record) bool {
	return before.AgentID == next.Details.Requester && before.Decision != evidence.Deny &&
		before.Details.TraceID == next.Details.TraceID && next.Details.TraceID != ""
}

func hopOf(r evidence.Record, issued, outcomes map[string]evidence.Record) traceHop {
	d := r.Details
	h := traceHop{
		Record: r.ID, Time: r.Time, Requester: d.Requester, Agent: r.AgentID, Action: r.ActionType, Operation: subjectOf(r),
		Purpose: r.Intent.Purpose, Principal: d.Principal, Task: r.TaskID, Tenant: d.Tenant, Trace: d.TraceID, Mode: d.Mode,
		Under: orEmpty(lineage(d.Capability, issued)), Narrowed: []string{}, Missing: []string{},
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

// count counts the decisions of a tree.
func count(hops []traceHop, decided evidence.Decision) int {
	n := 0
	for _, h := range hops {
		n += count(h.Hops, decided)
		if h.Decision == decided || decided == "" {
			n++
		}
	}
	return n
}

func (p *program) printTrace(t traced) error {
	fmt.Fprintf(p.stdout, "%s: %s, %d allowed, %d refused\n", t.Thing, many(count(t.Hops, ""), "decision"),
		count(t.Hops, evidence.Allow), count(t.Hops, evidence.Deny))
	for _, h := range t.Hops {
		p.printTraceHop(h, "  ")
	}
	if t.Truncated {
		fmt.Fprintf(p.stderr, "powerbox: there are more than %d records; the tree has the newest of them\n", traceLimit)
	}
	return nil
}

// printTraceHop prints one decision, and under it what it led to.
func (p *program) printTraceHop(h traceHop, indent string) {
	fmt.Fprintf(p.stdout, "%s%-7s %s -> %s  %s  %s\n", indent, h.decided(), printable(h.Requester), h.Agent, unescaped(h.what()), h.Record)
	line := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(p.stdout, "%s        %-8s %s\n", indent, name, text)
		}
	}
	line("when", "%s%s%s%s", shortTime(h.Time), prefixed(", task ", printable(h.Task)), prefixed(" in tenant ", printable(h.Tenant)), prefixed(", for ", h.Principal))
	line("why", "%s", unescaped(h.Purpose))
	for _, s := range h.Under {
		line("under", "%s%s%s", s.Capability, prefixed(", asked for by ", printable(s.By)), prefixed(", without ", strings.Join(s.Narrowed, ", ")))
	}
	if len(h.Under) == 0 {
		line("under", "%s", prefixed("no capability; mode ", h.Mode))
	}
	line("less", "%s", strings.Join(h.Narrowed, ", "))
	line("missing", "%s", printable(strings.Join(h.Missing, ", ")))
	for _, r := range h.Reasons {
		line("reason", "%s%s", r.Code, prefixed(": ", unescaped(r.Message)))
	}
	line("outcome", "%s", h.Outcome)
	for _, next := range h.Hops {
		p.printTraceHop(next, indent+"    ")
	}
}

// what a hop is about: an operation, or what was done about a capability.
func (h traceHop) what() string {
	if h.Operation == issuer.OperationCapability {
		return h.Action
	}
	return h.Operation
}

// decided is the decision in a word.
func (h traceHop) decided() string {
	if h.Outcome == "" && waits(h.Decision, h.Reasons) {
		return "waits"
	}
	return decidedAs(h.Decision)
}

// waits reports whether a decision left a call, or a request, to a person.
func waits(d evidence.Decision, reasons []evidence.Reason) bool {
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
