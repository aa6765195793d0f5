package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// movable is the program whose clock a file moves (internal/cli/clock_faults.go).
func movable() (string, error) {
	return built("powerbox-faults", "..", "-tags", "faults", "./cmd/powerbox")
}

// moves starts the processes of a town again as programs whose clock the returned function
// sets ahead.
func (w *town) moves(gateways []*replica) (ahead func(by string)) {
	w.t.Helper()
	program, err := movable()
	if err != nil {
		w.t.Fatal(err)
	}
	file := filepath.Join(w.t.TempDir(), "clock")
	ahead = func(by string) {
		w.t.Helper()
		if err := os.WriteFile(file+".new", []byte(by), 0o600); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			w.t.Fatal(err)
		}
	}
	ahead("0s")
	w.program, w.env = program, append(w.env, "POWERBOX_FAULT_CLOCK="+file)
	w.again(func() {})
	for _, r := range gateways {
		if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
			w.t.Fatal(err)
		}
		eventually(w.t, patience, func() string { return "the gateway does not end" }, func() bool { return syscall.Kill(r.process.Process.Pid, 0) != nil })
		r.boot()
	}
	return ahead
}

// TestATK73_TheClockOfARunningProgramJumps moves the clock of the running binary ahead by
// 3,700 s, beyond the end of every capability, has 70 capabilities revoked meanwhile, and
// moves it back. Anything that was revoked, frozen or used before is as it was.
func TestATK73_TheClockOfARunningProgramJumps(t *testing.T) {
	for _, gateways := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d remote gateways", gateways), func(t *testing.T) {
			var w *town
			var all []*replica
			if gateways == 0 {
				w = start(t, options{})
			} else {
				w, all = startRemote(t, gateways, options{})
			}
			ahead := w.moves(all)
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			revoked, held, frozen := alice.reports(), alice.reports(), bob.request("documents", map[string]any{
				"grants": []string{"documents:read"}, "purpose": "Read what is mine", "resourceQuery": map[string]any{"collection": "reports"},
			})[0]
			search := data("search_documents", map[string]any{})
			used := alice.proof("documents", search, proven{chain: []string{held.Token}, operation: opSearch})
			allowed(t, w.post(w.agentURL("documents"), search, used.Clone()))
			w.must("revoke", revoked.ID, "--wait")
			w.must("freeze", "user:bob", "--reason", "a test")
			as := func(c *caller, g granted) answer {
				return w.post(w.agentURL("documents"), search, c.proof("documents", search, proven{chain: []string{g.Token}, operation: opSearch}))
			}
			if a := as(alice, revoked); a.reason() != "revoked" {
				t.Fatalf("before the jump: %s", a.Raw)
			}
			before := as(bob, frozen).reason()

			ahead("3700s")
			for n := range 70 {
				w.operator(http.MethodPost, "/v1/revocations", map[string]string{"target": fmt.Sprintf("tok_of_nothing_%d", n)})
			}
			w.must("revoke", "tok_of_nothing_70", "--unrecorded", "--wait")
			if a := as(alice, held); a.Status == http.StatusOK && a.reason() == "" {
				t.Error("ATK-73 the clock was not moved: a capability that has ended is good")
			}
			ahead("0s")

			if a := as(alice, revoked); a.reason() != "revoked" {
				t.Errorf("ATK-73 a revoked capability after the jump: %s", a.Raw)
			}
			if a := as(bob, frozen); before == "" || a.reason() != before {
				t.Errorf("ATK-73 a frozen user after the jump: %q, before it %q: %s", a.reason(), before, a.Raw)
			}
			if a := w.post(w.agentURL("documents"), search, used.Clone()); a.reason() != "proof_replayed" {
				t.Errorf("ATK-73 a used proof after the jump: %s", a.Raw)
			}
			allowed(t, as(alice, held))
			// Statements of the time when the clock was ahead do not shut out later ones.
			if out, code := w.cli("revoke", held.ID, "--wait"); code != 0 {
				t.Errorf("ATK-89 a gateway does not follow the server after the jump: exit %d %s", code, out)
			}
			if a := as(alice, held); a.reason() != "revoked" {
				t.Errorf("ATK-89 revoked after the jump: %s", a.Raw)
			}
			if !strings.Contains(w.log.String(), "the clock of this machine jumped") {
				t.Error("ATK-73 the server does not say that its clock jumped")
			}
		})
	}
}
