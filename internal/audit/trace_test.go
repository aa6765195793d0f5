package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
)

// log is records, the last one first.
type log []evidence.Record

func (l log) Each(_ context.Context, q Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		for _, r := range l {
			if q.Selects(r) && !yield(r, nil) {
				return
			}
		}
	}
}

func (l log) Record(ctx context.Context, id string) (evidence.Record, error) {
	for r, err := range l.Each(ctx, Query{ID: id}) {
		return r, err
	}
	return evidence.Record{}, ErrNotThere
}

// TestEXT28_WhatLedToWhat: a call stands under the last one that began at the agent that
// asked. A refused call began nothing, and another trace is another story.
func TestEXT28_WhatLedToWhat(t *testing.T) {
	const one, two = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"
	found := gathered{records: map[string]evidence.Record{}}
	for _, r := range []evidence.Record{
		asked(0, "a", "b", one, evidence.Allow),
		asked(1, "a", "b", one, evidence.Deny),
		asked(2, "b", "c", one, evidence.Allow),
		asked(3, "c", "d", one, evidence.Deny),
		asked(4, "d", "e", one, evidence.Allow), // at d, nothing began
		asked(5, "b", "c", two, evidence.Allow), // another trace
		asked(6, "b", "c", "", evidence.Allow),  // none
		asked(7, "a", "b", one, evidence.Abstain),
		asked(8, "b", "f", one, evidence.Allow),
	} {
		found.records[r.ID] = r
	}
	var tells func(hops []TraceHop) []string
	tells = func(hops []TraceHop) (out []string) {
		for _, h := range hops {
			out = append(out, h.Record+fmt.Sprint(tells(h.Hops)))
		}
		return out
	}
	want := []string{"rec_0[rec_2[rec_3[]]]", "rec_1[]", "rec_4[]", "rec_5[]", "rec_6[]", "rec_7[rec_8[]]"}
	got := found.tree(issuance{})
	if diff := cmp.Diff(want, tells(got)); diff != "" {
		t.Error(diff)
	}
	// Its result was never reported, and the trace shows that.
	if got[0].Outcome != outcomeUnknown || got[1].Outcome != "" {
		t.Errorf("outcomes %q and %q", got[0].Outcome, got[1].Outcome)
	}
}

// TestATK71_ATraceShowsTheOutcomeOfTheDecisionsChain and of several the first.
func TestATK71_ATraceShowsTheOutcomeOfTheDecisionsChain(t *testing.T) {
	decided := asked(0, "a", "b", "", evidence.Allow)
	found := gathered{records: map[string]evidence.Record{decided.ID: decided}}
	for n, told := range []struct {
		status evidence.OutcomeStatus
		chain  byte
	}{{evidence.Failed, 9}, {evidence.Achieved, 0}, {evidence.Partial, 0}} {
		r, err := evidence.Outcome(decided, fmt.Sprint("rec_told_", n), decided.Time, told.status, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Details.ChainID[0], r.Details.Sequence = told.chain, int64(n+1)
		found.records[r.ID] = r
	}
	if got := found.tree(issuance{}); len(got) != 1 || got[0].Outcome != string(evidence.Achieved) {
		t.Errorf("ATK-71 %+v", got)
	}
}

// TestLineage: each step says what it has less than the one before, as far as there
// are records.
func TestLineage(t *testing.T) {
	step := func(id, parent string, granted ...string) evidence.Record {
		r := evidence.Record{ID: "rec_of_" + id, ActionType: "capability.request", Decision: evidence.Allow, Details: evidence.Details{Requester: "a", Capability: id, Granted: granted}}
		if parent != "" {
			r.ActionType, r.Intent.Details = "capability.attenuate", json.RawMessage(`{"parent":"`+parent+`"}`)
		}
		return r
	}
	issued := map[string]evidence.Record{
		"cap_1": step("cap_1", "", "x", "y", "z"), "cap_2": step("cap_2", "cap_1", "x", "y"), "cap_3": step("cap_3", "cap_2", "x"),
		"cap_loop": step("cap_loop", "cap_loop", "x"),
	}
	var got []string
	for _, s := range (issuance{records: issued}).lineage("cap_3") {
		got = append(got, fmt.Sprint(s.Capability, s.Narrowed))
	}
	if diff := cmp.Diff([]string{"cap_1[]", "cap_2[z]", "cap_3[y]"}, got); diff != "" {
		t.Error(diff)
	}
	if got := (issuance{records: issued}).lineage("offline"); len(got) != 1 || got[0].Record != "" {
		t.Errorf("%+v", got)
	}
	if got := (issuance{records: issued}).lineage("cap_loop"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestEXT32_NarrowHasNoRefusal: the narrower grant has the used operations alone. It has
// none that was refused, let pass by mode observe, or never tried, and it names those
// that no scope can permit.
func TestEXT32_NarrowHasNoRefusal(t *testing.T) {
	outcome := asked(3, "a", "b", "", evidence.Allow)
	outcome.Details.OutcomeOf = "rec_0"
	refused := asked(2, "a", "c", "", evidence.Deny)
	refused.Details.Reasons = []evidence.Reason{{Code: "operation_not_granted"}}
	scoped := asked(5, "a", "trade", "", evidence.Allow)
	scoped.Details.Granted, scoped.Details.Exercised = []string{"trade.**", "mail.*"}, []string{"trade.execute"}
	u, err := UsageOf(t.Context(), log{
		scoped, asked(4, "key:x", "b", "", evidence.Allow), outcome, refused, asked(1, "a", "d", "", evidence.Abstain), asked(0, "a", "b", "", evidence.Allow),
	}, "a", Query{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string][]string{"a": {"b": {"g/op"}, "trade": {"g/op"}}}
	if diff := cmp.Diff(want, u.Narrowed().Grants().Scopes); diff != "" {
		t.Error(diff)
	}
	used := map[string]string{}
	for _, h := range u.Uses {
		used[h.Agent+" "+h.Operation] = fmt.Sprint(h.Granted, h.Exercised, h.Unused)
	}
	if diff := cmp.Diff(map[string]string{
		"b g/op": "true 1 false", "b g/other": "true 0 true", "c g/op": "true 0 true", "c g/other": "true 0 true", "d g/op": "true 0 true", "d g/other": "true 0 true",
		"trade trade.**": "true 0 false", "trade trade.execute": "false 1 false", "trade mail.*": "true 0 true",
	}, used); diff != "" {
		t.Error(diff)
	}
	// Of b, the agent: any caller.
	if u, err = UsageOf(t.Context(), log{asked(4, "key:x", "b", "", evidence.Allow)}, "b", Query{}); err != nil || len(u.Narrowed().Grants().Unnamed) != 1 {
		t.Errorf("%v %+v", err, u.Narrowed().Grants())
	}
}

// TestAAPZ4_TheAnswerMayBeNewerThanTheCapability that it completed: both are made in one change,
// and the capability first.
func TestAAPZ4_TheAnswerMayBeNewerThanTheCapability(t *testing.T) {
	issued := asked(1, "key:k", "mail", "", evidence.Allow)
	answered := asked(2, "user:alice", "mail", "", evidence.Allow)
	for r, of := range map[*evidence.Record]string{&issued: "capability.once", &answered: "approval.answer"} {
		r.ActionType, r.Intent = of, evidence.Intent{Operation: capabilityOperation, Details: json.RawMessage(`{"question":"ask_1"}`)}
	}
	said, err := Tracer{Source: log{answered, issued}}.approvers(t.Context(), map[string]evidence.Record{"cap_1": issued})
	if diff := cmp.Diff(map[string][]string{"ask_1": {"user:alice"}}, said); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
