package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestGATE3_StockClientsContinueAfterApproval has unmodified clients of both SDKs send a
// call that a person has to approve, and then follow its task by their own means: they
// ask for it, subscribe to it, or read on in the stream that they asked for. They stay
// connected while the person answers, and get the agent's answer, or the person's reason.
func TestGATE3_StockClientsContinueAfterApproval(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		w := &town{t: t, dir: t.TempDir(), documents: newPolyglot(t, on, nil), grpc: map[string]string{}}
		w.deletes = ", approval: true"
		w.guard("prefer", "identity: {dev: [{name: alice, token: "+aliceToken+"}]}")
		made := 0
		followed := func() int { // records of subscriptions
			return strings.Count(string(w.operator(http.MethodGet, "/v1/records?agent=documents&limit=200", nil)), `"a2a.SubscribeToTask"`)
		}
		for name, say := range map[string]stockClient{"JavaScript SDK": jsClient(on), "Go SDK": goClient} {
			for _, means := range []string{"wait", "subscribe", "stream"} {
				for _, deny := range []bool{false, true} {
					what := name + ", " + means + ", approved"
					if deny {
						what = name + ", " + means + ", denied"
					}
					t.Run(what, func(t *testing.T) {
						before, commands := followed(), [][]string{{"skill", "delete_document", `{"document": "d1"}`}, {means, "$task"}}
						if means == "stream" {
							commands = [][]string{{"stream", "please do delete_document with d1"}}
						}
						printed := make(chan []string, 1)
						go func() {
							printed <- say(t, w.agentURL("documents"), sent{bearer: aliceToken}, commands)
						}()
						var ids []string
						w.soon("GATE-3 a question", func() bool { ids = w.waiting("alice", "confirmations"); return len(ids) == 1 })
						if got := callsOf(w.documents, "delete_document"); got != made {
							t.Fatalf("GATE-3 %d calls reached the agent before the answer; want %d", got, made)
						}
						if means == "subscribe" { // a task that is over cannot be followed
							w.soon("GATE-3 the subscription", func() bool { return followed() > before })
						}
						w.answers("alice", ids[0], map[string]any{"deny": deny, "reason": "it is needed"})
						lines := <-printed
						first, last := lines[0], lines[len(lines)-1]
						state, words := "TASK_STATE_COMPLETED", "heard: "
						if deny {
							state, words = "TASK_STATE_FAILED", "it is needed"
							if on == (wire{overREST, "0.3"}) {
								words = state // neither kit shows the text of the message
							}
						} else {
							made++
						}
						if !strings.Contains(first, "TASK_STATE_AUTH_REQUIRED") || !strings.Contains(first, "/approve/"+ids[0]) {
							t.Errorf("GATE-3 the client first saw %s", first)
						}
						if len(lines) < 2 || !strings.Contains(last, state) || !strings.Contains(strings.Join(lines, "\n"), words) {
							t.Errorf("GATE-3 the client has\n%s\nwant %s and %q", strings.Join(lines, "\n"), state, words)
						}
						if got := callsOf(w.documents, "delete_document"); got != made {
							t.Errorf("GATE-3 %d calls reached the agent; want %d", got, made)
						}
					})
				}
			}
		}
	})
}

// callsOf is how many requests with these words an agent has received.
func callsOf(s *stock, words string) (n int) {
	for _, r := range s.got() {
		if strings.Contains(string(r.body), words) {
			n++
		}
	}
	return n
}
