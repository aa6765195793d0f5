package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// says checks that a verb ends with an exit code and says all the words.
func (w *town) says(code int, words []string, args ...string) string {
	w.t.Helper()
	out, got := w.cli(args...)
	if got != code {
		w.t.Errorf("powerbox %s: exit %d; want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, want := range words {
		if !strings.Contains(out, want) {
			w.t.Errorf("powerbox %s: does not say %q:\n%s", strings.Join(args, " "), want, out)
		}
	}
	return out
}

func TestALifetimeThatIsCutIsSaid(t *testing.T) {
	w := start(t, options{})
	at := w.agentURL("documents")
	w.must("keys", "new", "alice.jwk")
	request := func(expires string) []string {
		return []string{"request", at, "--grant", "documents:read", "--purpose", "Summarize", "--collection", "reports", "--filter", "quarter=2025-Q1", "--key", "alice.jwk", "--session-file", w.sessionFile(), "--expires", expires, "--out", "held.json"}
	}
	w.says(0, []string{"powerbox: warning: you asked for documents:read until ", ", and the agent allows it until "}, request("30h")...)
	if out := w.says(0, nil, request("5m")...); strings.Contains(out, "warning") {
		t.Errorf("a lifetime that was not cut: %s", out)
	}
	w.says(2, []string{`--expires is "2400h"`, "no capability lives longer than 90 days"}, request("2400h")...)
	w.says(3, []string{`--expires is "30h"; the capability that you narrow ends at `}, "narrow", "--capability", "held.json", "--key", "alice.jwk", "--expires", "30h", "--out", "small.json")
}

func TestConfigCheckReportsEveryKindOfProblem(t *testing.T) {
	w := &town{t: t, dir: t.TempDir()}
	w.write("empty.yaml", "# nothing\n")
	w.says(4, []string{"the file is empty", "agents is missing", "powerbox init"}, "config", "check", "-c", "empty.yaml")
	w.write("several.yaml", `agents:
  - {id: a, upstream: "nonsense", mode: wild}
  - {id: b, upstream: "http://127.0.0.1:1"}
skills: {c: [{skill: s}]}
policies: [missing.cedar, other.cedar]
resources: {a: {file: nope.yaml}}
`)
	w.says(4, []string{
		"several.yaml:2: agents[0].upstream: is not an absolute", `several.yaml:2: agents[0].mode: "wild"`, "several.yaml:4: skills.c[0]: grant is missing",
		`several.yaml:4: skills.c: there is no agent "c"`, "missing.cedar: no such file", "other.cedar: no such file", "nope.yaml: no such file",
	}, "config", "check", "-c", "several.yaml")
	// A name that is unknown only because another value cannot be read is no second problem.
	w.write("once.yaml", `agents:
  - {id: 7, upstream: "http://127.0.0.1:1"}
skills: {a: [{skill: s, grant: g, operation: o}]}
`)
	if out := w.says(4, []string{"agents[0].id"}, "config", "check", "-c", "once.yaml"); strings.Count(out, "\n") != 1 {
		t.Errorf("one mistake is told more than once:\n%s", out)
	}
}

func TestAnUnknownVariableStopsTheServer(t *testing.T) {
	w := &town{t: t, dir: t.TempDir()}
	w.write("powerbox.yaml", "agents: [{id: a, upstream: \"http://127.0.0.1:1\"}]\n")
	t.Setenv("POWERBOX_ISUER_URL", "http://secret.example")
	for _, verb := range [][]string{{"config", "check"}, {"serve"}} {
		code := 4
		if verb[0] == "serve" {
			code = 1
		}
		if out := w.says(code, []string{`POWERBOX_ISUER_URL: there is no such setting; did you mean "POWERBOX_ISSUER_URL"?`}, verb...); strings.Contains(out, "secret.example") {
			t.Errorf("%v repeats the value: %s", verb, out)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "powerbox-data")); err == nil {
		t.Error("serve made a folder before it refused its configuration")
	}
}
