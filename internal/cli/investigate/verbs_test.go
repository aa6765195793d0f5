package investigate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli/verify"
)

// written is records, the last one first.
type written []evidence.Record

func (l written) Each(_ context.Context, q audit.Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		for _, r := range l {
			if q.Selects(r) && !yield(r, nil) {
				return
			}
		}
	}
}

func (l written) Record(ctx context.Context, id string) (evidence.Record, error) {
	for r, err := range l.Each(ctx, audit.Query{ID: id}) {
		return r, err
	}
	return evidence.Record{}, audit.ErrNotThere
}

// decidedOn is a decision n seconds after noon.
func decidedOn(n int, requester, agent, trace string, decision evidence.Decision) evidence.Record {
	r := evidence.Record{
		ID: fmt.Sprint("rec_", n), AgentID: agent, ActionType: "a2a.SendMessage", Decision: decision, Time: time.Date(2027, 1, 15, 12, 0, n, 0, time.UTC),
		Intent: evidence.Intent{Operation: agent + "/g/op"}, Details: evidence.Details{Requester: requester, TraceID: trace, Granted: []string{agent + "/g/op", agent + "/g/other"}},
	}
	if decision == evidence.Allow {
		r.OutcomeStatus, r.Details.Exercised = evidence.Pending, []string{agent + "/g/op"}
	}
	r.Details.Gate = &evidence.Gate{Required: []string{agent + "/g/op"}}
	return r
}

// onRecord is what a gate, or a use case, writes of an action of a type.
func onRecord(of string, class action.Class) evidence.Record {
	r := decidedOn(1, "a", "b", "", evidence.Allow)
	r.ActionType, r.Details.Recorder = of, "server"
	if class != action.Call {
		r.Details.Gate, r.Details.Exercised, r.Intent.Operation = nil, nil, "a2a.capability"
	}
	return r
}

// verbs are what the verbs of operators make of one record: whether they count it as a
// call, and whether they count it at all.
func verbs(t *testing.T, r evidence.Record) map[string][2]bool {
	t.Helper()
	ctx, out := t.Context(), map[string][2]bool{}
	since := r.Time.Add(-time.Minute)
	s, o := audit.Summary{}, audit.Others{}
	s.Add(r)
	o.Add(r)
	out["report"] = [2]bool{len(s) == 1, len(s)+len(o) == 1}
	g := audit.Report{Uses: s.List()}.Grants()
	out["report --grants"] = [2]bool{len(g.Scopes) == 1, len(g.Scopes)+len(o) == 1}
	u, err := audit.UsageOf(ctx, written{r}, "b", audit.Query{})
	if err != nil {
		t.Fatal(err)
	}
	used := len(u.Uses) > 0 && u.Uses[0].Exercised == 1
	out["usage"] = [2]bool{used, len(u.Uses) > 0}
	in := audit.Incident{Agent: "a", Since: since, Other: audit.Others{}}
	if err := in.Gather(ctx, written{r}); err != nil {
		t.Fatal(err)
	}
	out["trace --incident"] = [2]bool{len(in.Touched) == 1, len(in.Touched)+len(in.Other) == 1}
	tree, err := audit.Tracer{Source: written{r}}.Trace(ctx, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	traced := len(tree.Hops) == 1 && tree.Hops[0].Action == r.ActionType
	out["trace"] = [2]bool{audit.IsCall(r), traced}
	return out
}

// TestEveryVerbCountsEveryActionType: a record of any type on the list, and of one that
// another program wrote, is counted by every verb: as a call where a gate decided about
// one, and by its class otherwise.
func TestEveryVerbCountsEveryActionType(t *testing.T) {
	types := map[string]action.Class{"trade.execute": action.Call} // a gate's of another version
	for _, of := range action.All() {
		types[of.String()] = of.Class()
	}
	for of, class := range types {
		for verb, told := range verbs(t, onRecord(of, class)) {
			if want := [2]bool{class == action.Call, true}; told != want {
				t.Errorf("%s: %s counts it as a call: %t, at all: %t; want %v", of, verb, told[0], told[1], want)
			}
		}
	}
	for verb, told := range verbs(t, onRecord("trade.execute", action.Unlisted)) {
		if told[0] || !told[1] {
			t.Errorf("an unlisted action: %s counts it as a call: %t, at all: %t", verb, told[0], told[1])
		}
	}
}

// TestEveryVerbListsEveryActionType: lists, events for a SIEM and explanations name every
// action type.
func TestEveryVerbListsEveryActionType(t *testing.T) {
	for _, of := range action.All() {
		r := onRecord(of.String(), of.Class())
		var list bytes.Buffer
		if err := verify.WriteRecords(&list, func(yield func(evidence.Record, error) bool) { yield(r, nil) }); err != nil || !strings.Contains(list.String(), r.ID) {
			t.Errorf("%s: %v\n%s", of, err, &list)
		}
		var e explanation
		e.describe(&explainer{}, r)
		if said := fmt.Sprint(e.Facts); !strings.Contains(said, of.String()) {
			t.Errorf("%s: explain says %s", of, said)
		}
	}
}

// TestFreeTextIsNoSkillInEveryList: what lists, events and usage say of free text is that it
// names no skill, whether the record is of this version or names the first operation.
func TestFreeTextIsNoSkillInEveryList(t *testing.T) {
	for _, operation := range []string{"a2a.message", "b/g/op"} {
		r := onRecord("a2a.SendMessage", action.Call)
		r.Intent.Operation, r.Details.Attempt = operation, "admission"
		r.Details.Gate.Required = []string{"b/g/op", "b/g/other", "a2a.message"}
		r.Details.Exercised = []string{operation}
		var list bytes.Buffer
		if err := verify.WriteRecords(&list, func(yield func(evidence.Record, error) bool) { yield(r, nil) }); err != nil || !strings.Contains(list.String(), audit.FreeTextCall) || strings.Contains(list.String(), "b/g/op") {
			t.Errorf("evidence list: %v\n%s", err, &list)
		}
		u, err := audit.UsageOf(t.Context(), written{r}, "b", audit.Query{})
		if err != nil || len(u.Uses) != 3 || u.Uses[0].Operation != audit.FreeTextCall || u.Uses[0].Exercised != 1 || u.Uses[1].Exercised != 0 {
			t.Errorf("usage: %v %+v", err, u.Uses)
		}
		sealed, err := evidence.SealUnsafeUnsigned(evidence.Head{}, r)
		if err != nil {
			t.Fatal(err)
		}
		event, err := json.Marshal(audit.OCSFEvent(sealed))
		if err != nil || !strings.Contains(string(event), `"names_no_skill":true`) || !strings.Contains(string(event), `"operation":"free text"`) {
			t.Errorf("OCSF: %v %s", err, event)
		}
	}
}

// TestTraceTakesTheRecordOfAnOutcome: evidence list shows outcomes too, and each leads to the
// decision that it is the outcome of.
func TestTraceTakesTheRecordOfAnOutcome(t *testing.T) {
	decided := decidedOn(1, "a", "b", "", evidence.Allow)
	became, err := evidence.Outcome(decided, "rec_9", decided.Time, evidence.Achieved, nil)
	if err != nil {
		t.Fatal(err)
	}
	became.Details.Sequence = decided.Details.Sequence + 1 // in the same chain
	tree, err := audit.Tracer{Source: written{became, decided}}.Trace(t.Context(), "rec_9")
	if err != nil || len(tree.Hops) != 1 || tree.Hops[0].Record != decided.ID || tree.Hops[0].Outcome != string(evidence.Achieved) {
		t.Errorf("%v %+v", err, tree.Hops)
	}
}

// TestListsSayWhatWasDone: a record that is about no call is listed by its action.
func TestListsSayWhatWasDone(t *testing.T) {
	for of, want := range map[action.Type]string{action.ConfigReload: "config.reload", action.CapabilityRequest: "capability.request", action.GuardCall: "b/g/op"} {
		if got := verify.ListedAs(onRecord(of.String(), of.Class())); got != want {
			t.Errorf("%s is listed as %q, want %q", of, got, want)
		}
	}
}

// TestMCPSessionsHaveOneNameInEveryList: people read of an MCP session, whatever name the
// record has for the right to talk to a server.
func TestMCPSessionsHaveOneNameInEveryList(t *testing.T) {
	for of, want := range map[string]string{"mcp.initialize": audit.SessionCall, "mcp.tools.list": audit.SessionCall, "a2a.SendMessage": "a2a.message"} {
		r := onRecord(of, action.Call)
		r.Intent.Operation, r.Details.Gate.Required = "a2a.message", []string{"a2a.message"}
		if got := verify.ListedAs(r); got != want {
			t.Errorf("evidence list: %s is %q, want %q", of, got, want)
		}
		if got := audit.WhatOf(r); got != want {
			t.Errorf("the live page: %s is %q, want %q", of, got, want)
		}
		in := audit.Incident{Agent: "a", Since: r.Time.Add(-time.Minute), Other: audit.Others{}}
		if err := in.Gather(t.Context(), written{r}); err != nil || len(in.Touched) != 1 || in.Touched[0].Operation != want {
			t.Errorf("trace --incident: %s is %+v, want %q (%v)", of, in.Touched, want, err)
		}
	}
}

// TestScopesAreNamedByOperationsOfTheAgent: config check refuses A2A's own operations in a
// scope, so no advice names them.
func TestScopesAreNamedByOperationsOfTheAgent(t *testing.T) {
	r := onRecord("mcp.initialize", action.Call)
	r.Intent.Operation, r.Details.Granted = "a2a.message", []string{"a2a.message", "b/g/op"}
	for operation, want := range map[string]string{
		"a2a.message": `add an operation of b, such as "g/op", to scopes.a.b `,
		"b/g/other":   `add "g/other" to scopes.a.b `,
	} {
		if fix := (&explainer{}).decisionFix(r, evidence.Reason{Code: "outside_caller_scope", Operation: operation}); !strings.HasPrefix(fix, want) {
			t.Errorf("%s: %q, want %q", operation, fix, want)
		}
	}
}

// TestHeldCallsOfMCPAreNotSaidToWait: only clients that open URLs wait, and the record does not
// say which client called.
func TestHeldCallsOfMCPAreNotSaidToWait(t *testing.T) {
	for of, want := range map[string]string{"mcp.tools.call": "a person has to approve it", "a2a.SendMessage": "held until a person approves it"} {
		r := onRecord(of, action.Call)
		r.Decision, r.OutcomeStatus = evidence.Abstain, ""
		r.Details.Reasons = []evidence.Reason{{Code: "approval_required"}}
		if got := audit.Verdict(r); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", of, got, want)
		}
	}
}
