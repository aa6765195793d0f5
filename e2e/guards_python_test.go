package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Functions of Swarm, hand-offs of the Agents SDK and tools in Python, by the one
// file that has no dependencies: a call outside the scope raises (GATE-8), is on
// record (GATE-10), and never runs.
func TestGATE8_PythonFunctions(t *testing.T) {
	asGiven(t)
	w := guardTown(t, "scoped")
	module, err := filepath.Abs("../integrations/python")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(module, "powerbox.py"), "testdata/guards.py"} {
		if _, err := os.ReadFile(file); err != nil { // or a cached result would stand for what python reads
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-B", "testdata/guards.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "GATE="+w.url, "TOKEN="+guardToken, "http_proxy=http://127.0.0.1:9")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "ok\n" {
		t.Fatalf("%v\n%s\n%s", err, out, w.log)
	}
	handed := w.records("agent=mailer")
	if len(handed) < 3 {
		t.Fatalf("%d records of attempts at the mailer", len(handed))
	}
	for _, r := range handed {
		if g := r.Powerbox.Gate; r.Decision != "DENY" || g.Origin != "triage" || g.Target != "mailer" || len(g.Missing) != 2 || r.Action != "guard.handoff" {
			t.Errorf("%+v", r)
		}
	}
	failed := 0
	for _, r := range w.records("agent=files") {
		if r.Status == "FAILED" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d outcomes are FAILED; want the one of the tool that failed", failed)
	}
}
