package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// twoProofs are two proofs of one call, of which one was used.
func twoProofs(t *testing.T, w *town, alice *caller) (body []byte, used, unused http.Header) {
	t.Helper()
	held := alice.reports()
	body = data("search_documents", map[string]any{})
	used = alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
	unused = alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
	allowed(t, w.post(w.agentURL("documents"), body, used.Clone()))
	return body, used, unused
}

// afterCleanRestart presents both: the memory is whole, so that the used one is known
// and the other is good, once.
func afterCleanRestart(t *testing.T, w *town, body []byte, used, unused http.Header) {
	t.Helper()
	if a := w.post(w.agentURL("documents"), body, used.Clone()); a.reason() != "proof_replayed" {
		t.Errorf("a used proof after a restart: %s", a.Raw)
	}
	allowed(t, w.post(w.agentURL("documents"), body, unused.Clone()))
	if a := w.post(w.agentURL("documents"), body, unused.Clone()); a.reason() != "proof_replayed" {
		t.Errorf("a proof that was used after a restart: %s", a.Raw)
	}
}

// TestATK83_ProofsOutliveACleanRestart restarts the server with SIGTERM.
func TestATK83_ProofsOutliveACleanRestart(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	body, used, unused := twoProofs(t, w, alice)
	w.again(func() {})
	afterCleanRestart(t, w, body, used, unused)
	w.again(func() {}) // proofs used before the first restart are known after the second
	if a := w.post(w.agentURL("documents"), body, used.Clone()); a.reason() != "proof_replayed" {
		t.Errorf("a used proof after two restarts: %s", a.Raw)
	}
}

// TestATK83_ProofsAfterAKill kills the server: the used proofs are then unknown. So
// all proofs from before are refused with their own reason, and nothing is
// executed for them.
func TestATK83_ProofsAfterAKill(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{})
	alice := w.caller(aliceToken)
	body, used, unused := twoProofs(t, w, alice)
	killed(t, w.process)
	w.boot()
	w.documents.forget()
	for name, h := range map[string]http.Header{"used": used, "unused": unused} {
		a := w.post(w.agentURL("documents"), body, h.Clone())
		if a.reason() != "proof_before_start" || a.Header.Get("Powerbox-Outcome") != "denied" || a.Header.Get("Powerbox-Reason") != "proof_before_start" {
			t.Errorf("%s: %v %s", name, a.Header, a.Raw)
		}
	}
	if n := len(w.documents.got()); n != 0 {
		t.Errorf("%d calls reached the agent", n)
	}
}

// TestATK83_ProofsAtAGatewayApart does both at a sidecar gateway.
func TestATK83_ProofsAtAGatewayApart(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	r := all[0]
	alice := w.caller(aliceToken)
	body, used, unused := twoProofs(t, w, alice)
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func() string { return "it does not end\n" + r.log.String() }, func() bool { return syscall.Kill(r.process.Process.Pid, 0) != nil })
	r.boot()
	afterCleanRestart(t, w, body, used, unused)
	late := alice.proof("documents", body, proven{chain: []string{alice.reports().Token}, operation: opSearch})
	killed(t, r.process)
	r.boot()
	if a := w.post(w.agentURL("documents"), body, late.Clone()); a.reason() != "proof_before_start" {
		t.Errorf("after a kill: %s", a.Raw)
	}
}

// TestATK83_AttachSignsAgainAfterAKill kills the server while a call of powerbox attach is
// under way. The call was signed before the server began again, and is signed anew once.
func TestATK83_AttachSignsAgainAfterAKill(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{})
	a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile())
	at, body := a.agentURL("documents"), data("search_documents", map[string]any{})
	allowed(t, a.post(at, body, http.Header{}))
	killed(t, w.process)
	for range 2 { // connections of before are noticed as dead
		if got := a.post(at, body, http.Header{}); got.Error == nil {
			t.Errorf("a call while the server is down: %s", got.Raw)
		}
	}
	w.documents.forget()
	answers := make(chan answer, 1)
	held := freeport.Hold(t, strings.TrimPrefix(w.url, "http://"), func() { answers <- a.post(at, body, http.Header{}) })
	w.boot()
	held.Pass()
	got := <-answers
	allowed(t, got)
	if n := len(w.documents.got()); n != 1 {
		t.Errorf("ATK-83 the agent was called %d times; want once: %s", n, got.Raw)
	}
	if !strings.Contains(w.run("evidence", "export", "--out", "-"), "proof_before_start") {
		t.Error("ATK-83 the call was not signed before the server began")
	}
}
