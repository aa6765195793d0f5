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
	"github.com/powerbox-project/powerbox/internal/a2a"
)

type fullDisk struct{}

func (fullDisk) Record(context.Context, evidence.Record) (evidence.Sealed, error) {
	return evidence.Sealed{}, errors.New("no space left on device")
}

type noTasks struct{ Tasks }

// The gateway finds that it cannot bring a call to the agent, and cannot record that. The
// caller hears both, and may repeat the call.
func TestATK75_DenialsAfterTheDecision(t *testing.T) {
	now := func() time.Time { return time.Unix(1e9, 0) }
	g := &Gateway{config: Config{
		Gate: &gate.Gate{Recorder: fullDisk{}, NewID: func() (string, error) { return "rec_2", nil }, Now: now}, Now: now,
		Log: slog.New(slog.DiscardHandler), Tasks: noTasks{},
	}}
	request := httptest.NewRequest(http.MethodPost, "/agents/documents", nil)
	x := &decided{
		decoded: &decoded{identified: &identified{received: &received{agent: &agent{}, request: request, notes: &notes{}}}, call: a2a.Call{ID: []byte("1")}},
		learned: &learned{},
		verdict: gate.Verdict{Allowed: true, Record: evidence.Record{
			ID: "rec_1", AgentID: "documents", ActionType: "a2a", Intent: evidence.Intent{Operation: "delete"}, Time: now(), Decision: evidence.Allow, OutcomeStatus: evidence.Pending,
			Details: evidence.Details{Recorder: "serve", Requester: "a"},
		}},
	}
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
