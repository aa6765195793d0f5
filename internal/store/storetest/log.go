package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// fillers is how many changes of fill wait at once. A change waits for those before it, and a
// store gives each a limited time.
const fillers = 256

// fill appends records of several agents, in their own changes.
func fill(t *testing.T, s Store, name string, n, agents int) {
	t.Helper()
	var wg sync.WaitGroup
	places := make(chan struct{}, fillers)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			r := record(fmt.Sprintf("rec_%s_%d", name, i))
			r.AgentID = fmt.Sprintf("agent-%d", i%agents)
			if err := appendOne(t, s, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func appendOne(t *testing.T, s Store, r evidence.Record) error {
	return s.Update(t.Context(), func(tx issuer.Tx) error { _, err := tx.Append(r); return err })
}

// The search looks for the record's own member, not an argument's.
func recordsAreSelectedByTheirMembers(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	own := record("rec_own")
	own.TaskID, own.Details.Requester, own.Details.OutcomeOf = `t"<ü>`, "planner", "rec_0"
	own.Details.Reasons = []evidence.Reason{{Code: "frozen"}, {Code: "replay"}}
	other := record("rec_other")
	other.Intent.Operation, other.Decision = "x", evidence.Deny
	other.Intent.Details = []byte(`{"agent_id":"documents","code":"frozen","decision":"ALLOW","operation":"documents/documents:read/retrieve","outcome_of":"rec_0","requester":"planner","task_id":"t\"<ü>"}`)
	other.AgentID = "mail"
	for _, r := range []evidence.Record{own, other} {
		if err := appendOne(t, s, r); err != nil {
			t.Fatal(err)
		}
	}
	for name, q := range map[string]issuer.RecordQuery{
		"agent": {Agent: "documents"}, "requester": {Requester: "planner"}, "task": {Task: `t"<ü>`}, "outcome": {OutcomeOf: "rec_0"}, "first reason": {Reason: "frozen"}, "second reason": {Reason: "replay"},
		"operation": {Operation: own.Intent.Operation}, "decision": {Decision: evidence.Allow}, "limit": {Agent: "documents", Limit: 1},
		"all": {Agent: "documents", Requester: "planner", Task: `t"<ü>`, OutcomeOf: "rec_0", Reason: "replay", Since: noon},
	} {
		if got := selected(t, s, q); !cmp.Equal(got, []string{"rec_own"}) {
			t.Errorf("by %s: %v", name, got)
		}
	}
	if got := selected(t, s, issuer.RecordQuery{Agent: "\xff"}); got != nil {
		t.Errorf("by broken UTF-8: %v", got)
	}
	if got := selected(t, s, issuer.RecordQuery{Since: noon.Add(time.Millisecond)}); got != nil {
		t.Errorf("later: %v", got)
	}
	err := s.View(t.Context(), func(r issuer.Reader) error {
		_, err := r.Records(issuer.RecordQuery{Agent: strings.Repeat("a", evidence.MaxRecord)})
		return err
	})
	if err == nil {
		t.Error("a name that no record can have is looked for")
	}
}

func selected(t *testing.T, s Store, q issuer.RecordQuery) (ids []string) {
	t.Helper()
	err := s.View(t.Context(), func(r issuer.Reader) error {
		page, err := r.Records(q)
		for _, one := range page.Records {
			ids = append(ids, one.Record().ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}
