package api

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
)

// logOf is a log of sealed records of one chain.
type logOf []evidence.Sealed

func (l logOf) From(_ context.Context, place int64) ([]evidence.Sealed, error) {
	return l[min(place, int64(len(l))):], nil
}
func (l logOf) Begins(context.Context) (int64, error) { return 0, nil }

// add seals a call at a time, or the outcome of one.
func (l *logOf) add(t *testing.T, head evidence.Head, r evidence.Record) evidence.Head {
	t.Helper()
	r.ID, r.AgentID, r.ActionType = fmt.Sprintf("r%d", len(*l)), "mail", "a2a.SendMessage"
	r.Intent.Operation, r.Details.Recorder = "mail:send/send", "test"
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := evidence.Seal(head, r, signer)
	if err != nil {
		t.Fatal(err)
	}
	*l = append(*l, sealed)
	return sealed.Head()
}

// TestActivityCountsTheLastHour counts calls by minute and outcome, and forgets them after
// an hour.
func TestActivityCountsTheLastHour(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 30, 0, time.UTC)
	log := &logOf{}
	head := evidence.Genesis(evidence.ChainID{1})
	head = log.add(t, head, evidence.Record{Decision: evidence.Allow, Time: now.Add(-2 * time.Minute), Details: evidence.Details{Requester: "desk"}})
	head = log.add(t, head, evidence.Record{Decision: evidence.Allow, Time: now.Add(-2*time.Minute + 40*time.Millisecond), OutcomeStatus: evidence.Achieved, Outcome: []byte(`{"drift":["streams"]}`), Details: evidence.Details{OutcomeOf: "r0"}})
	observed := evidence.Record{Decision: evidence.Abstain, Time: now.Add(-time.Minute), Details: evidence.Details{Requester: "desk", Reasons: []evidence.Reason{{Code: "capability_missing", Message: "none"}}}}
	head = log.add(t, head, observed)
	observed.Details.Reasons = []evidence.Reason{{Code: gate.CodeApproval, Message: "a person decides"}} // and it is decided again
	head = log.add(t, head, observed)
	log.add(t, head, evidence.Record{Decision: evidence.Deny, Time: now.Add(-time.Minute), Details: evidence.Details{Requester: "clerk", Reasons: []evidence.Reason{{Code: "constraint_violated", Message: "amount"}}}})
	a := &Activity{Log: log, Now: func() time.Time { return now }, Head: func(context.Context) ([]byte, error) {
		return fmt.Appendf(nil, "log.example\n%d\nAAAA\n\n\u2014 log.example abc\n\u2014 witness.example def\n", len(*log)), nil
	}}
	got, err := a.Report(t.Context(), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Minutes) != 61 {
		t.Fatalf("%d minutes; want 61, without gaps", len(got.Minutes))
	}
	then, last := got.Minutes[58], got.Minutes[59]
	if then.Allowed != 1 || then.P99 != 40 || last.Denied != 1 || last.Observed != 1 || last.Allowed != 0 {
		t.Errorf("the minutes are %+v and %+v; want 1 allowed in 40 ms, then 1 denied and 1 observed", then, last)
	}
	if len(got.Reasons) != 1 || got.Reasons[0].Code != "constraint_violated" || len(got.Agents) != 1 || got.Agents[0].Denied != 1 {
		t.Errorf("agents %+v, reasons %+v", got.Agents, got.Reasons)
	}
	if one := got.Agents[0]; one.Drift != 1 || !slices.Equal(one.Callers, []string{"clerk", "desk"}) {
		t.Errorf("callers %v, drift %d; want clerk and desk, 1", one.Callers, one.Drift)
	}
	if got.Head.Size != 5 || got.Head.Witnesses != 1 || !got.Since.Equal(now.Add(-time.Hour).Truncate(time.Minute)) {
		t.Errorf("head %+v since %s; want 5 records, 1 witness, the whole hour", got.Head, got.Since)
	}
	now = now.Add(2 * time.Hour)
	if got, err = a.Report(t.Context(), func(string) bool { return true }); err != nil || len(got.Agents) != 0 {
		t.Errorf("two hours later: %+v %v; want no agent", got.Agents, err)
	}
}

// longLog is a log of one record that is there many times.
type longLog struct {
	one          evidence.Sealed
	size, lowest int64 // records, and the first place that was read
}

func (l *longLog) Begins(context.Context) (int64, error) { return 0, nil }

func (l *longLog) From(_ context.Context, place int64) ([]evidence.Sealed, error) {
	l.lowest = min(l.lowest, place)
	return slices.Repeat([]evidence.Sealed{l.one}, int(min(1000, l.size-place))), nil
}

// TestActivityReadsABoundedPartOfTheLog follows the log, and begins anew near its end after a long
// time without a look.
func TestActivityReadsABoundedPartOfTheLog(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 30, 0, time.UTC)
	one := &logOf{}
	one.add(t, evidence.Genesis(evidence.ChainID{1}), evidence.Record{Decision: evidence.Allow, Time: now.Add(-time.Minute), Details: evidence.Details{Requester: "desk"}})
	log := &longLog{one: (*one)[0], size: 10}
	a := &Activity{Log: log, Now: func() time.Time { return now }, Head: func(context.Context) ([]byte, error) {
		return fmt.Appendf(nil, "log.example\n%d\nAAAA\n\n\u2014 log.example abc\n", log.size), nil
	}}
	for _, step := range []struct {
		more, lowest int64
		allowed      int
		partly       bool
	}{
		{0, 0, 10, false},
		{activityBehind, 10, 10 + activityBehind, false},
		{activityBehind + 1, 10 + 2*activityBehind + 1 - activityBack, activityBack, true},
		{5, 10 + 2*activityBehind + 1, activityBack + 5, true},
	} {
		log.size += step.more
		log.lowest = log.size
		got, err := a.Report(t.Context(), func(string) bool { return true })
		if err != nil || len(got.Agents) != 1 || got.Agents[0].Allowed != step.allowed || log.lowest != step.lowest || got.Since.Equal(now.Add(-time.Minute)) != step.partly {
			t.Errorf("%d more records: %+v since %s, read from %d: %v; want %d calls, read from %d", step.more, got.Agents, got.Since, log.lowest, err, step.allowed, step.lowest)
		}
	}
}
