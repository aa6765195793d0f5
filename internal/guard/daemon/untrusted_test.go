package daemon_test

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

const untrustedGrant = `version: 1
read: [.]
edit: [internal, docs]
run: [go test, git diff, curl, git commit]
hosts: [pkg.go.dev, "*.example.com"]
tools: [docs/*, tickets/read]
search: true
agents:
  research: {read: [docs], tools: [tickets/read], hosts: ["*.example.com"]}
untrusted:
  trusted: {hosts: [pkg.go.dev], tools: [docs/*]}
  ask: [edit, hosts]
  refuse: [run]
`

func TestATK113_ASessionIsHeldToWhatItRead(t *testing.T) {
	w := newTown(t, untrustedGrant)
	shell := func(line string) string { return w.tool("", "Bash", map[string]any{"command": line}) }
	write := func() string {
		return w.tool("", "Write", map[string]any{"file_path": w.project + "/internal/a.go", "content": "x"})
	}
	fetch := func(agent, url string) string {
		return w.tool(agent, "WebFetch", map[string]any{"url": url, "prompt": "p"})
	}
	is := func(what, out, want string) {
		t.Helper()
		if got := decision(out); got != want {
			t.Errorf("%s: %s; want %s\n%s", what, got, want, out)
		}
	}
	w.claude("SessionStart", "source", "startup")
	is("before reading", shell("go test ./..."), "allow")
	is("an edit before reading", write(), "allow")
	is("a trusted host", fetch("", "https://pkg.go.dev/x"), "allow")
	is("a trusted tool", w.tool("", "mcp__docs__find", map[string]any{}), "allow")
	is("after trusted reading", shell("go test ./..."), "allow")
	is("a page that flows into a file in one call", shell("curl https://a.example.com/x > internal/x"), "deny")

	is("a page of strangers", fetch("", "https://a.example.com/x"), "allow")
	out := shell("go test ./...")
	is("a command after the page", out, "deny")
	if !strings.Contains(out, "untrusted data (net/fetch a.example.com)") {
		t.Errorf("the denial says %s", out)
	}
	is("an edit after the page", write(), "ask")
	is("reading after the page", w.tool("", "Read", map[string]any{"file_path": w.project + "/internal/a.go"}), "allow")
	is("another page", fetch("", "https://b.example.com/?q=secret"), "ask")

	q := w.d.Questions()
	if len(q) != 2 {
		t.Fatalf("%d questions; want 2", len(q))
	}
	if err := w.d.Say(daemon.Answer{ID: q[0].ID, Allow: "task"}); err != nil {
		t.Fatal(err)
	}
	is("an edit after the approval", write(), "allow")
	is("a command after the approval", shell("git diff"), "deny")

	w.restart()
	is("a command after a restart", shell("go test ./..."), "deny")
	is("an edit after a restart", write(), "ask")
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "research")
	is("a sub-agent", fetch("a1", "https://a.example.com/"), "deny") // it cannot ask
}

// What a sub-agent reads counts for its session, and approvals from before count no more.
func TestATK114_ASubAgentReadsForItsSession(t *testing.T) {
	w := newTown(t, strings.Replace(untrustedGrant, "edit: [internal, docs]", "edit: [docs]\nask: {edit: [internal]}", 1))
	edit := func() string {
		return decision(w.tool("", "Write", map[string]any{"file_path": w.project + "/internal/a.go", "content": "x"}))
	}
	w.claude("SessionStart", "source", "startup")
	if got := edit(); got != "ask" {
		t.Fatalf("an edit: %s", got)
	}
	if err := w.d.Say(daemon.Answer{ID: w.d.Questions()[0].ID, Allow: "task"}); err != nil {
		t.Fatal(err)
	}
	if got := edit(); got != "allow" {
		t.Fatalf("an edit after the approval: %s", got)
	}
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "research")
	out := w.tool("a1", "mcp__tickets__read", map[string]any{})
	if got := decision(out); got != "allow" {
		t.Fatalf("the tool: %s", out)
	}
	w.claude("SubagentStop", "agent_id", "a1", "agent_type", "research")
	if got := edit(); got != "ask" {
		t.Errorf("an edit after the sub-agent read: %s", got)
	}
	if got := w.bash("", "git diff"); got != "deny" {
		t.Errorf("a command after the sub-agent read: %s", got)
	}
}

// A grant with rules that cannot be kept is refused.
func TestRulesAboutUntrustedDataAreChecked(t *testing.T) {
	for what, text := range map[string]string{
		"no kind of operations":   "untrusted: {ask: [shell]}",
		"hosts and tools alone":   "untrusted: {trusted: {read: [docs]}, ask: [run]}",
		"is not of the form":      "untrusted: {trusted: {tools: [docs]}, ask: [run]}",
		"field sources not found": "untrusted: {sources: [web]}",
		"the host":                "untrusted: {trusted: {hosts: [\"*\"]}, ask: [run]}",
	} {
		g, err := guard.ParseGrant([]byte("version: 1\n" + text + "\n"))
		if err == nil {
			err = g.Check(daemon.Place(t.TempDir(), ""))
		}
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
