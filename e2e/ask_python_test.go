package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// waiter is what the client in Python prints.
type waiter struct {
	Task, State, Said string
	Listed            map[string]string
	Made              []any
}

// TestGATE3_PythonClientWaits has a client of Python's standard library alone send
// what a person has to approve, over JSON-RPC and over HTTP+JSON: it sees
// AUTH_REQUIRED and where the person answers, finds the task in its list, and then
// sees the answer; or, where the person refuses, that it failed.
func TestGATE3_PythonClientWaits(t *testing.T) {
	asGiven(t)
	for _, on := range []wire{{}, {overREST, "1.0"}} {
		for _, deny := range []bool{false, true} {
			name := on.String() + " approved"
			if deny {
				name = on.String() + " denied"
			}
			t.Run(name, func(t *testing.T) {
				w := &town{t: t, dir: t.TempDir(), documents: newPolyglot(t, on, nil), grpc: map[string]string{}}
				w.deletes = ", approval: true"
				w.guard("prefer", "identity: {dev: [{name: alice, token: "+aliceToken+"}]}")
				waitsInPython(t, w, on, deny)
			})
		}
	}
}

func waitsInPython(t *testing.T, w *town, on wire, deny bool) {
	binding := "JSONRPC"
	if on.binding == overREST {
		binding = overREST
	}
	client := exec.CommandContext(t.Context(), python, "testdata/waits/client.py", binding, w.agentURL("documents")+cardPath, aliceToken, "delete_document", `{"document": "d1"}`)
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wrong := &programtest.Log{}
	client.Stderr = wrong
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() (one waiter) {
		t.Helper()
		if !lines.Scan() {
			_ = client.Wait()
			t.Fatalf("GATE-3 the client ended\n%s\n%s", wrong, w.log)
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		return one
	}
	first := next()
	if first.State != "TASK_STATE_AUTH_REQUIRED" || !strings.Contains(first.Said, w.url+"/approve/ask_") {
		t.Fatalf("GATE-3 the client saw %+v", first)
	}
	if l := next(); l.Listed[first.Task] != first.State {
		t.Errorf("GATE-3 its list says %v", l.Listed)
	}
	ids := w.waiting("alice", "confirmations")
	if len(ids) != 1 || !strings.Contains(first.Said, ids[0]) {
		t.Fatalf("GATE-3 %v wait for alice; the client was told %s", ids, first.Said)
	}
	want := "TASK_STATE_COMPLETED"
	if deny {
		want = "TASK_STATE_FAILED"
	}
	w.answers("alice", ids[0], map[string]any{"deny": deny, "reason": "it is needed"})
	var last waiter
	for last.State != want {
		if last = next(); last.State == "TASK_STATE_AUTH_REQUIRED" || last.Made != nil {
			t.Fatalf("GATE-3 after the answer the client saw %+v", last)
		}
	}
	if deny && !strings.Contains(last.Said, "it is needed") {
		t.Errorf("GATE-3 the client is not told why: %s", last.Said)
	}
	if l := next(); l.Listed[first.Task] != want {
		t.Errorf("GATE-3 its list says %v", l.Listed)
	}
	made, _ := json.Marshal(next().Made)
	if got := strings.Contains(string(made), "heard: "); got == deny {
		t.Errorf("GATE-3 in the end the client has %s", made)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := client.Wait(); err != nil {
		t.Errorf("the client: %v\n%s", err, wrong)
	}
	calls := 0
	for _, r := range w.documents.got() {
		if strings.Contains(string(r.body), "delete_document") {
			calls++
		}
	}
	if calls != map[bool]int{true: 0, false: 1}[deny] {
		t.Errorf("GATE-3 %d calls reached the agent", calls)
	}
}
