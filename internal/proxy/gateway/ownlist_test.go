package gateway

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// heldTasks has one task that waits, unless it cannot be read.
type heldTasks struct {
	Holds
	err error
}

func (h heldTasks) Task(_ context.Context, _, task string) (HeldTask, bool, error) {
	return HeldTask{Task: task, Context: "c1", State: a2a.OwnAuthRequired, Text: "waits for alice"}, true, h.err
}

// TestListThatCannotBeWrittenIsAnError: a list of held tasks that cannot be read is answered
// with an error, and recorded as failed. It is never an empty list.
func TestListThatCannotBeWrittenIsAnError(t *testing.T) {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err  error
		want evidence.OutcomeStatus
		says string
	}{
		"readable":   {nil, evidence.Achieved, `"id":"task-1"`},
		"unreadable": {errors.New("no such table"), evidence.Failed, "the list cannot be written as the caller reads it"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &ledger{}
			g, x := afterDecision(k)
			g.config.Holds = heldTasks{err: c.err}
			g.config.Pseudonym = func(string, string) string { return "pw_1" }
			if g.config.Pages, err = cipher.NewGCMWithRandomNonce(block); err != nil {
				t.Fatal(err)
			}
			x.call.Binding, x.call.Version, x.call.Method = a2a.JSONRPC, a2a.Version1, a2a.ListTasks
			w := httptest.NewRecorder()
			g.answerHeld(w, x, []HeldTask{{Task: "task-1"}}, a2a.TaskFilter{Artifacts: true}, "next")
			body := w.Body.String()
			if !strings.Contains(body, c.says) || strings.Contains(body, `"error"`) != (c.err != nil) || strings.Contains(body, "no such table") {
				t.Error(body)
			}
			if len(k.records) != 1 || k.records[0].OutcomeStatus != c.want {
				t.Errorf("records %+v; want the outcome %s", k.records, c.want)
			}
		})
	}
}
