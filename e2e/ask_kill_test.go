package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestGATE3_KilledWhileACallIsMade kills the server while an approved call is made:
// after the restart its outcome is said to be unknown, and it is not made again.
func TestGATE3_KilledWhileACallIsMade(t *testing.T) {
	aboutTheFile(t)
	w, alice, held := mailing(t, options{})
	var reached atomic.Int32
	stuck := make(chan struct{})
	w.mail.answers(func(_ http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	})
	defer close(stuck)
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	w.answers("alice", task.asked(), map[string]any{})
	w.soon("the call to reach the agent", func() bool { return reached.Load() == 1 })
	if got := heldIn(t, alice.aboutTask(held, "mail", "GetTask", task.ID)); got.State != "WORKING" {
		t.Errorf("GATE-3 while the call is made the task is %+v", got)
	}
	pid := w.process.Process.Pid
	if err := w.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.soon("the server to be gone", func() bool { return syscall.Kill(pid, 0) != nil })
	w.boot()
	got := heldIn(t, alice.aboutTask(held, "mail", "GetTask", task.ID))
	if got.State != "FAILED" || !strings.Contains(got.Text, "outcome is unknown") {
		t.Errorf("GATE-3 after the server was killed the task is %+v", got)
	}
	// A second approved call shows that those are looked for again.
	w.mail.answers(nil)
	second := heldIn(t, alice.mailsUnder(held, "carol@example.org"))
	w.answers("alice", second.asked(), map[string]any{})
	if done := w.polled(alice, held, "mail", second.ID); done.State != "COMPLETED" {
		t.Errorf("GATE-3 the next call: %+v", done)
	}
	if n := reached.Load(); n != 1 {
		t.Errorf("GATE-3 the call was made %d times; want once", n)
	}
	if status, q := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+task.asked(), map[string]any{}); status == http.StatusOK {
		t.Errorf("ATK-46 the approval was used again: %v", q)
	}
}
