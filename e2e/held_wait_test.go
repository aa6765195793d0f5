package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// heldCall runs powerbox call --wait in front of a person who answers.
func (w *town) heldCall(answer map[string]any, queue string, args ...string) (out string, code int) {
	w.t.Helper()
	type ended struct {
		out  string
		code int
	}
	end := make(chan ended, 1)
	go func() {
		out, code := w.cli(append(args, "--wait", "--timeout", "60s")...)
		end <- ended{out, code}
	}()
	var ids []string
	w.soon("a question", func() bool { ids = w.waiting("alice", queue); return len(ids) == 1 })
	w.answers("alice", ids[0], answer)
	e := <-end
	return e.out, e.code
}

// TestGATE3_CallWaitsOnEveryBinding has powerbox call wait for a person at agents of every
// binding: it prints the agent's answer, or the words of the no. Its records have its task.
func TestGATE3_CallWaitsOnEveryBinding(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w, _, _ := mailing(t, options{on: on})
		w.must("keys", "new", "holder.jwk")
		w.must("request", w.agentURL("mail"), "--grant", "mail:send", "--purpose", "x", "--key", "holder.jwk", "--session-file", w.sessionFile(), "--out", "c.json")
		call := []string{"call", w.agentURL("mail"), "--skill", "send_mail", "--arguments", `{"to": "bob@example.org", "body": "hello"}`, "--capability", "c.json", "--key", "holder.jwk"}
		out, code := w.heldCall(map[string]any{}, "confirmations", call...)
		if code != 0 || !strings.Contains(out, "echo: ") || strings.Contains(out, "task_pb_") {
			t.Errorf("GATE-3 after a yes: exit %d\n%s", code, out)
		}
		if out, code := w.heldCall(map[string]any{"deny": true, "reason": "not today"}, "confirmations", call...); code != 3 || !strings.Contains(out, "not today") || !strings.Contains(out, "approval_denied") {
			t.Errorf("GATE-3 after a no: exit %d\n%s", code, out)
		}
		if n := len(w.mail.got()); n != 1 {
			t.Errorf("GATE-3 %d calls reached the agent; want 1", n)
		}
		for _, r := range w.records("agent=mail&decision=ALLOW&limit=50") {
			if r.Action != "approval.ask" {
				continue
			}
			if found := string(w.operator(http.MethodGet, "/v1/records?task="+r.TaskID, nil)); r.TaskID == "" || !strings.Contains(found, `"approval.answer"`) {
				t.Errorf("GATE-3 the records of task %q are %s", r.TaskID, found)
			}
		}
	})
}

// TestGATE9_CallOfAToolWaits has powerbox call wait for a person at an MCP server.
func TestGATE9_CallOfAToolWaits(t *testing.T) {
	for name, stateless := range map[string]bool{"with sessions": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			upstream, calls := searching(t, stateless)
			w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, search: ", approval: true"})
			w.must("keys", "new", "holder.jwk")
			w.must("request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "x", "--key", "holder.jwk", "--session-file", w.sessionFile(), "--out", "c.json")
			call := []string{"call", w.agentURL("documents"), "--skill", "search_documents", "--arguments", `{"query": "q1"}`, "--capability", "c.json", "--key", "holder.jwk"}
			if out, code := w.cli(call...); code != 3 || !strings.Contains(out, "approval_required") || len(w.waiting("alice", "confirmations")) != 0 {
				t.Errorf("GATE-9 without --wait: exit %d\n%s", code, out)
			}
			if out, code := w.heldCall(map[string]any{}, "confirmations", call...); code != 0 || !strings.Contains(out, "done ") || calls.Load() != 1 {
				t.Errorf("GATE-9 after a yes: exit %d, the tool ran %d times\n%s", code, calls.Load(), out)
			}
			if out, code := w.heldCall(map[string]any{"deny": true}, "confirmations", call...); code != 3 || !strings.Contains(out, "a person has refused this call") || calls.Load() != 1 {
				t.Errorf("GATE-9 after a no: exit %d, the tool ran %d times\n%s", code, calls.Load(), out)
			}
		})
	}
}
