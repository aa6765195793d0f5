package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// restoredOlder puts an older copy of the store in place of the one of a server that
// does not run.
func restoredOlder(t *testing.T, w *town, backup map[string][]byte) {
	t.Helper()
	for name := range stored(t, w) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range backup {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// readiness is what a process says of itself.
func readiness(url string) string {
	response, err := http.Get(url + "/readyz")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

// runs starts a gateway again without waiting until it is ready.
func (r *replica) runs(t *testing.T) {
	t.Helper()
	r.log = &programtest.Log{}
	r.process = exec.Command(binary, append([]string{"gateway", "--state", r.state, "--listen", r.address, "--dev"}, r.flags...)...)
	r.process.Stderr = r.log
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func(p *exec.Cmd) { exited <- p.Wait() }(r.process)
	t.Cleanup(func() { _ = r.process.Process.Signal(syscall.SIGKILL); <-exited })
}

// TestATK82_GatewayRefusesAnOlderServer restores the server from an older copy. No
// revocation was lost, but records were: a gateway whose records they are refuses that
// server, also after a restart, until an operator accepts it on record.
func TestATK82_GatewayRefusesAnOlderServer(t *testing.T) {
	aboutTheFile(t)
	w, all := startRemote(t, 1, options{})
	r := all[0]
	w.settledBundle(w.denials(3)[2])
	killed(t, w.process)
	backup := stored(t, w)
	w.boot()
	w.settledBundle(w.denials(5)[4])
	killed(t, r.process)
	killed(t, w.process)
	restoredOlder(t, w, backup)
	w.boot()
	for range 2 { // the second start has it from its own disk
		r.runs(t)
		eventually(t, patience, func() string { return "the older server is followed\n" + r.log.String() }, func() bool {
			return strings.Contains(readiness("http://"+r.address), "powerbox gateway accept-older")
		})
		alice := w.caller(aliceToken)
		if a := alice.looksUp(alice.reports()); a.reason() != "revocations_stale" {
			t.Errorf("a call under the older server: %s", a.Raw)
		}
		if !strings.Contains(r.log.String(), "restored from an older copy") {
			t.Errorf("the log does not say so\n%s", r.log)
		}
		killed(t, r.process)
	}
	if _, talk, code := ran(t, "gateway", "accept-older", "--state", r.state); code == 0 || !strings.Contains(talk, "--reason") {
		t.Errorf("without a reason: %d %s", code, talk)
	}
	if out, talk, code := ran(t, "gateway", "accept-older", "--state", r.state, "--reason", "the disk burnt"); code != 0 {
		t.Fatalf("%d %s%s", code, out, talk)
	}
	r.boot()
	alice := w.caller(aliceToken)
	allowed(t, alice.looksUp(alice.reports()))
	bundle, _ := w.settledBundle(w.denials(1)[0])
	if !strings.Contains(bundle, `"the disk burnt"`) || !strings.Contains(bundle, `"evidence.salvage"`) {
		t.Error("the acceptance is not on record")
	}
}

// TestATK82_RelayRefusesAnOlderServer restores the server from a copy without its last
// revocation. A relay that passed it on refuses that server after a restart, too.
func TestATK82_RelayRefusesAnOlderServer(t *testing.T) {
	aboutTheFile(t)
	w := start(t, withRelays())
	state := filepath.Join(t.TempDir(), "reached")
	alice := w.caller(aliceToken)
	held := alice.reports()
	killed(t, w.process)
	backup := stored(t, w)
	w.boot()
	r := w.startRelay(t, "", "--state", state)
	w.run("revoke", held.ID)
	eventually(t, patience, func() string { return "the relay does not follow\n" + r.log.String() }, func() bool {
		text, err := os.ReadFile(state)
		return err == nil && string(text) != "0" && len(text) > 0
	})
	killed(t, r.process)
	killed(t, w.process)
	restoredOlder(t, w, backup)
	w.boot()
	args := r.process.Args[1:]
	again := &programtest.Log{}
	process := exec.Command(binary, args...)
	process.Stderr = again
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- process.Wait() }()
	eventually(t, patience, func() string { return "the relay follows an older server\n" + again.String() }, func() bool {
		return strings.Contains(readiness(r.url), "the sequence has gone back") && strings.Contains(again.String(), "restored from an old backup")
	})
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-exited
	w.startRelay(t, "", "--state", state, "--accept-older")
}

// TestATK82_AWitnessIsProposed reads what init writes, and what doctor says without a
// witness and with one.
func TestATK82_AWitnessIsProposed(t *testing.T) {
	w := watched(t)
	if out, _, _ := ran(t, "doctor", "-c", filepath.Join(w.dir, "powerbox.yaml")); !strings.Contains(out, "no witness is configured") {
		t.Errorf("doctor: %s", out)
	}
	v := newWatcher(t, "one.example/w", w.logKey())
	w.again(func() { w.under("", v) })
	if out, _, _ := ran(t, "doctor", "-c", filepath.Join(w.dir, "powerbox.yaml")); strings.Contains(out, "no witness is configured") {
		t.Errorf("doctor, with a witness: %s", out)
	}
	file := filepath.Join(t.TempDir(), "powerbox.yaml")
	if out, talk, code := ran(t, "init", "--agent", w.documents.url, "--out", file); code != 0 {
		t.Fatalf("%d %s%s", code, out, talk)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "#   witnesses: [{url:") || !strings.Contains(string(text), "powerbox witness") {
		t.Errorf("init: %v\n%s", err, text)
	}
}
