package e2e

import (
	"encoding/json"
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
	asGiven(t)
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
	asGiven(t)
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

// A report of nothing, about a name that does not exist, would look like an answer.
func TestUnknownNamesAreNoAnswers(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	allowed(t, alice.byID(alice.reports(), searchBody(wire{})))
	before := len(w.records("limit=1000"))
	w.says(1, []string{`record "rec_none": not found`, "nothing was erased"}, "evidence", "erase", "--record", "rec_none", "--yes")
	w.says(1, []string{`record "rec_none": not found`}, "evidence", "erase", "--record", "rec_none", "--dry-run")
	w.says(1, []string{`no configured agent is named "nope"; configured are [`, "documents"}, "trace", "--incident", "nope")
	w.says(1, []string{`no configured agent is named "nope"; configured are [`, "documents"}, "report", "--agent", "nope")
	w.says(1, []string{`no configured agent is named "nope"; configured are [`, "documents"}, "usage", "nope")
	w.says(1, []string{"there is no closed period 9; powerbox evidence periods lists them"}, "evidence", "export", "--period", "9")
	w.says(1, []string{`no agent "nope" is protected here; there are [documents`}, "revoke", "--issued-by", "nope")
	w.must("report", "--agent", "documents")
	w.must("trace", "--incident", "documents")
	if after := len(w.records("limit=1000")); after != before {
		t.Errorf("a question or a refused erasure left %d records", after-before)
	}
	w.must("evidence", "erase", "--record", w.records("limit=1")[0].ID, "--yes") // it has no body
	w.must("keys", "new", "attach.jwk")
	w.says(1, []string{`agent "nope": card: there is no agent at that URL`, "powerbox.yaml configures [", "documents"}, "attach", "--card", w.agentURL("nope"), "--key", "attach.jwk", "--listen", "127.0.0.1:0")
}

func TestFlagsAndWordsThatCannotHelpAreRefused(t *testing.T) {
	w := start(t, options{})
	w.must("keys", "new", "own.jwk")
	w.says(4, []string{"own.jwk is a private key; want its public part: powerbox keys public own.jwk"}, "token", "issue", "--key", "own.jwk", "--issuer", "https://issuer.example", "--holder", "own.jwk", "--tools", "{}")
	w.says(4, []string{"powerbox.yaml is no capability file, chain or token", "want a file that powerbox request wrote"}, "explain", "powerbox.yaml", "--offline")
	w.says(2, []string{"want --agent URL of a running agent, --mcp URL of an MCP server, or --mcp -- COMMAND"}, "init")
	w.says(2, []string{`"nope" is no command of powerbox gateway`}, "gateway", "nope")
	w.says(2, []string{"write it without the agent: powerbox can planner documents:read/search on documents"}, "can", "planner", "documents/documents:read/search", "on", "documents")
	for _, principal := range []string{"dev", "user:", "agent:planner"} {
		w.says(2, []string{"no policy can match it; want a user, such as user:"}, "explain", "policy", "--principal", principal, "--operation", "documents/documents:read/search")
	}
	help := w.says(0, []string{"--period", "--seen", "--trust"}, "evidence", "archive", "--help")
	for _, other := range []string{"--proof", "--expect", "--honoured", "--under", "--revoked"} {
		if strings.Contains(help, other) {
			t.Errorf("the help of evidence archive has %s", other)
		}
	}
	if out := w.says(1, []string{"nope has no vectors", "algebra/admits.json", "token/*.json"}, "conformance", "run", "nope"); strings.Contains(out, "FAILED") {
		t.Errorf("a table of nothing: %s", out)
	}
}

func TestCanNamesADenialAsACallDoes(t *testing.T) {
	w, a := scopedTown(t, "scoped", "documents:read/retrieve")
	refused := a.send("documents", invoke("search_documents", map[string]any{"query": "x"}, ""))
	denied(t, refused, "outside_caller_scope")
	out := w.says(3, []string{`"allowed":false`, `"code":"outside_caller_scope"`}, "can", "orchestrator", "documents:read/search", "on", "documents", "--output", "json")
	var said struct{ Reasons []struct{ Message string } }
	if err := json.Unmarshal([]byte(out), &said); err != nil || len(said.Reasons) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if shown := string(refused.Raw) + refused.Error.Message; !strings.Contains(shown, said.Reasons[0].Message) {
		t.Errorf("can says %q; the call says %s", said.Reasons[0].Message, shown)
	}
	w.says(0, []string{`"allowed":true`}, "can", "orchestrator", "documents:read/retrieve", "on", "documents", "--arguments", `{"resourceHandle":"x"}`, "--output", "json")
}
