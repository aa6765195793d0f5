package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onRecord reports whether the evidence says of a call what its caller was told: an answer has an
// allow and an outcome, and a denial has a deny, or an allow whose outcome has the code.
func (w *town) onRecord(id, told string) bool {
	w.t.Helper()
	if w.record(id).Decision == "DENY" {
		return told != ""
	}
	out := w.records("outcome_of=" + id)
	return len(out) == 1 && out[0].Outcome.Told == told && (told == "") == (out[0].Status == "ACHIEVED")
}

// TestATK75_CutOffGatewayNamesItsDecisions: every answer of a remote gateway without its server
// names a decision, within the lease and after it. Once the server is back, its evidence says of
// each call what the caller was told.
func TestATK75_CutOffGatewayNamesItsDecisions(t *testing.T) {
	w, all := startRemote(t, 1, options{}, "--lease", "1s")
	alice := w.caller(aliceToken)
	held := alice.reports()
	told := map[string]string{}
	call := func() string {
		a := alice.looksUp(held)
		id := a.Header.Get("Powerbox-Decision")
		if id == "" {
			t.Fatalf("ATK-75 an answer names no decision: %d %s", a.Status, a.Raw)
		}
		told[id] = a.reason()
		return a.reason()
	}
	if code := call(); code != "" {
		t.Fatalf("before: %s\n%s", code, all[0].log)
	}
	killed(t, w.process)
	if code := call(); code != "" {
		t.Errorf("within the lease: %s", code)
	}
	stale := 0
	eventually(t, atOnce, func() string { return "calls go on after the lease is over" }, func() bool {
		if call() == "revocations_stale" {
			stale++
		}
		return stale == 5
	})
	w.boot()
	for id, code := range told {
		eventually(t, 20*time.Second, func() string {
			return fmt.Sprintf("ATK-75 the caller of %s was told %q, and its records say %+v\n%s", id, code, w.records("outcome_of="+id), all[0].log)
		}, func() bool { return w.onRecord(id, code) })
	}
}

// TestATK75_CutStreamsHaveTheirOutcome cuts a stream of the agent and a subscription to a call that
// waits for a person, since the gateway does not know the revocations any more. The decision
// stands as an allow, and its outcome says what the caller was told.
func TestATK75_CutStreamsHaveTheirOutcome(t *testing.T) {
	for name, search := range map[string]string{"of the agent": "", "of the gateway": ", approval: true"} {
		t.Run(name, func(t *testing.T) {
			agent := newRawAgent(t)
			agent.quiet()
			w, all := startRemote(t, 1, options{upstream: agent.url, search: search}, "--lease", "2s", "--upstream", agent.url)
			alice := w.caller(aliceToken)
			held := alice.reports()
			body, operation, arguments, state := streaming(), opSearch, map[string]any(nil), "TASK_STATE_WORKING"
			if search != "" {
				a, _ := alice.asksToSearch(held, "figures")
				arguments = map[string]any{"task": heldIn(t, a).ID}
				body, operation, state = rpc("SubscribeToTask", map[string]any{"id": arguments["task"]}), "a2a.task.read", "AUTH_REQUIRED"
			}
			stream := w.opens("documents", body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: operation, arguments: arguments}), state)
			standStill(t, w.process.Process)
			last := ""
			for event := range stream.events {
				last = event
			}
			if err := w.process.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			var a answer
			if err := json.Unmarshal([]byte(last), &a); err != nil || a.reason() != "revocations_stale" {
				t.Fatalf("the stream ends with %s\n%s", last, all[0].log)
			}
			id := a.Error.Data[0].Metadata["decision"]
			if id == "" {
				t.Fatalf("ATK-75 the last event names no decision: %s", last)
			}
			eventually(t, 20*time.Second, func() string {
				return fmt.Sprintf("ATK-75 the caller was told revocations_stale, and the outcome is %+v\n%s", w.records("outcome_of="+id), strings.TrimSpace(all[0].log.String()))
			}, func() bool {
				out := w.records("outcome_of=" + id)
				return len(out) == 1 && out[0].Status == "PARTIAL" && out[0].Outcome.Told == "revocations_stale"
			})
		})
	}
}
