package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/trust"
)

type fullDisk struct{}

func (fullDisk) Record(context.Context, evidence.Record) (evidence.Sealed, error) {
	return evidence.Sealed{}, errors.New("no space left on device")
}

type noTasks struct{ Tasks }

// afterDecision is a gateway with a recorder, and an allowed call that was not brought to
// the agent.
func afterDecision(r gate.Recorder) (*Gateway, *decided) {
	now := func() time.Time { return time.Unix(1e9, 0) }
	g := &Gateway{config: Config{
		Gate: &gate.Gate{Recorder: r, NewID: func() (string, error) { return "rec_2", nil }, Now: now}, Now: now,
		Log: slog.New(slog.DiscardHandler), Tasks: noTasks{},
	}}
	request := httptest.NewRequest(http.MethodPost, "/agents/documents", nil)
	return g, &decided{
		decoded: &decoded{identified: &identified{received: &received{agent: &agent{}, request: request, notes: &notes{}}}, call: a2a.Call{ID: []byte("1")}},
		learned: &learned{},
		verdict: gate.Verdict{Allowed: true, Record: evidence.Record{
			ID: "rec_1", AgentID: "documents", ActionType: "a2a", Intent: evidence.Intent{Operation: "delete"}, Time: now(), Decision: evidence.Allow, OutcomeStatus: evidence.Pending,
			Details: evidence.Details{Recorder: "serve", Requester: "a"},
		}},
	}
}

// The gateway finds that it cannot bring a call to the agent, and cannot record that. The
// caller hears both, and may repeat the call.
func TestATK75_DenialsAfterTheDecision(t *testing.T) {
	g, x := afterDecision(fullDisk{})
	w := httptest.NewRecorder()
	g.concludeDenied(w, x, notTheAgent(evidence.Failed), a2a.Denial{Reason: "task_over", Message: "this task is over"})
	body := w.Body.String()
	if strings.Contains(body, "task_over") || !strings.Contains(body, `"code":"outcome_unrecorded"`) || !strings.Contains(body, "did not bring the call to the agent") || !strings.Contains(body, `"retryable":"true"`) {
		t.Error(body)
	}
	if w.Header().Get("Retry-After") == "" || w.Header().Get(HeaderDecision) != "rec_1" {
		t.Error(w.Header())
	}
}

// ledger keeps the records that it is given.
type ledger struct{ records []evidence.Record }

func (k *ledger) Record(_ context.Context, r evidence.Record) (evidence.Sealed, error) {
	k.records = append(k.records, r)
	return evidence.Sealed{}, nil
}

// A call is allowed, and its caller is told in the end that revocations are stale: the
// outcome says so, and counts as a call that was not made.
func TestATK75_TheRecordSaysWhatTheCallerWasTold(t *testing.T) {
	k := &ledger{}
	g, x := afterDecision(k)
	w := httptest.NewRecorder()
	g.concludeDenied(w, x, notTheAgent(evidence.Failed), a2a.Denial{Reason: gate.CodeStale, Message: "stale", DecisionID: "rec_1"})
	if !strings.Contains(w.Body.String(), gate.CodeStale) || len(k.records) != 1 {
		t.Fatalf("%s %+v", w.Body, k.records)
	}
	if r := k.records[0]; r.OutcomeStatus != evidence.Failed || string(r.Outcome) != `{"cause":"`+trust.CauseGateway+`","told":"revocations_stale"}` {
		t.Errorf("%s %s", r.OutcomeStatus, r.Outcome)
	}
}
