package daemon_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/guard/clients"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

// town is a daemon with a project and its grant.
type town struct {
	t       *testing.T
	d       *daemon.Daemon
	config  daemon.Config
	project string
	now     time.Time
}

const townGrant = `version: 1
read: [.]
edit: [internal]
delete: [internal/old]
run: [go test, git diff, git status, ls, cat, rm, make build]
hosts: [pkg.go.dev]
tools: [docs/*, tickets/read, secret/word]
ask: {run: [git commit], edit: [cmd]}
agents:
  reviewer: {read: [.], run: [git diff]}
  writer: {read: [.], edit: [internal/a, cmd/a], run: [go test]}
  research: {read: [docs], tools: [docs/*], hosts: [pkg.go.dev]}
  wide: {read: [/], edit: [/], delete: [/], run: [go test, curl, git commit], hosts: [example.com], tools: ["*/*"]}
`

func newTown(t *testing.T, grant string) *town {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(base, "p")
	for _, dir := range []string{"p/.git", "p/internal/a", "p/cmd/a", "p/docs", "p/internal/old", "state", "home"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := &town{t: t, project: project, now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
	w.config = daemon.Config{State: filepath.Join(base, "state"), Home: filepath.Join(base, "home"), Now: func() time.Time { return w.now }, Random: rand.Reader}
	if grant != "" {
		if err := (daemon.Grants{State: w.config.State}).Give(project, []byte(grant)); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	t.Cleanup(func() { _ = w.d.Close() })
	return w
}

func (w *town) open() {
	w.t.Helper()
	var err error
	if w.d, err = daemon.New(w.config); err != nil {
		w.t.Fatal(err)
	}
}

// restart ends the daemon and starts another one.
func (w *town) restart() {
	w.t.Helper()
	if err := w.d.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// hook sends a hook's input and returns what the hook prints. PROJECT stands for the folder.
func (w *town) hook(client, input string) string {
	w.t.Helper()
	c, err := clients.Find(client)
	if err != nil {
		w.t.Fatal(err)
	}
	out := w.d.Hook(w.t.Context(), c, []byte(strings.ReplaceAll(input, "PROJECT", w.project)))
	return out.Stdout + out.Stderr
}

// decision is the decision in what a hook prints, "" for none.
func decision(out string) string {
	var v struct {
		Specific struct {
			Decision string `json:"permissionDecision"`
		} `json:"hookSpecificOutput"`
		Permission string `json:"permission"`
		Decision   string `json:"decision"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		return ""
	}
	return v.Specific.Decision + v.Permission + v.Decision
}

// claude sends a hook of Claude Code: name, then members.
func (w *town) claude(event string, pairs ...any) string {
	w.t.Helper()
	in := map[string]any{"hook_event_name": event, "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": w.project}
	for i := 0; i < len(pairs); i += 2 {
		in[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.hook("claude-code", string(b))
}

// bash is the decision about a command, by the main agent where agent is "".
func (w *town) bash(agent, command string) string {
	w.t.Helper()
	return decision(w.tool(agent, "Bash", map[string]any{"command": command}))
}

func (w *town) tool(agent, tool string, input map[string]any) string {
	w.t.Helper()
	pairs := []any{"tool_name", tool, "tool_input", input, "tool_use_id", "call-" + agent + tool}
	if agent != "" {
		pairs = append(pairs, "agent_id", agent)
	}
	return w.claude("PreToolUse", pairs...)
}

func (w *town) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// records returns the log, after the verifier has looked at it.
func (w *town) records() []evidence.Record {
	w.t.Helper()
	var bundle, trust bytes.Buffer
	if err := daemon.Export(w.config.State, rand.Reader, &bundle, &trust); err != nil {
		w.t.Fatal(err)
	}
	var pins evidence.Trust
	if err := json.Unmarshal(trust.Bytes(), &pins); err != nil {
		w.t.Fatal(err)
	}
	report, err := evidence.Verify(&bundle, pins)
	if err != nil || report.Verdict() != evidence.OK {
		w.t.Fatalf("the log does not verify: %v %+v", err, report.Problems)
	}
	out, err := daemon.Records(w.config.State)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// A session may do what the grant says; a sub-agent holds less, and nothing once it has ended.
func TestSubAgentHoldsLessThanItsSessionAndEndsWithItsTask(t *testing.T) {
	w := newTown(t, townGrant)
	w.claude("SessionStart", "source", "startup")
	w.want("go test", w.bash("", "go test ./..."), "allow")
	w.want("rm -rf", w.bash("", "rm -rf /"), "deny")
	w.want("git commit", w.bash("", "git commit -m x"), "ask")
	w.want("start", decision(w.tool("", "Agent", map[string]any{"subagent_type": "reviewer", "prompt": "review"})), "allow")
	if out := w.claude("SubagentStart", "agent_id", "a1", "agent_type", "reviewer"); !strings.Contains(out, "git diff") || strings.Contains(out, "go test") {
		t.Errorf("the sub-agent is told %s", out)
	}
	w.want("git diff of the sub-agent", w.bash("a1", "git diff"), "allow")
	w.want("go test of the sub-agent", w.bash("a1", "go test ./..."), "deny")
	w.want("edit of the sub-agent", decision(w.tool("a1", "Edit", map[string]any{"file_path": w.project + "/internal/x.go"})), "deny")
	w.claude("SubagentStop", "agent_id", "a1", "agent_type", "reviewer")
	w.want("git diff after the end", w.bash("a1", "git diff"), "deny")
	w.restart()
	w.want("git diff after the end and a restart", w.bash("a1", "git diff"), "deny")
	w.want("git diff of the session after a restart", w.bash("", "git diff"), "allow")
	w.claude("SessionEnd", "reason", "logout")
	w.want("git diff after the session", w.bash("", "git diff"), "deny")
	w.claude("SessionStart", "source", "resume")
	w.want("git diff of the resumed session", w.bash("", "git diff"), "allow")
	if n := len(w.records()); n < 13 {
		t.Errorf("the log has %d records", n)
	}
}

// A sub-agent whose type the grant does not name reads, and does nothing else.
func TestSubAgentOfAnUnnamedTypeReads(t *testing.T) {
	w := newTown(t, townGrant)
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "Explore")
	w.want("read", decision(w.tool("a1", "Read", map[string]any{"file_path": w.project + "/internal/x.go"})), "allow")
	w.want("git diff", w.bash("a1", "git diff"), "deny")
	w.want("edit", decision(w.tool("a1", "Write", map[string]any{"file_path": w.project + "/internal/x.go"})), "deny")
}

// A sub-agent cannot start one that holds more than itself, by whatever type. Where the client
// does not say who started it, it holds no more than anybody who may have.
func TestNestedSubAgentHoldsNoMoreThanTheOneThatStartedIt(t *testing.T) {
	w := newTown(t, townGrant)
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "reviewer")
	w.want("start", decision(w.tool("a1", "Agent", map[string]any{"subagent_type": "writer"})), "deny")
	w = newTown(t, townGrant+"start: [writer, reviewer]\n")
	w.tool("", "Agent", map[string]any{"subagent_type": "writer"})
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "writer")
	w.want("edit of the writer", decision(w.tool("a1", "Edit", map[string]any{"file_path": w.project + "/internal/a/x.go"})), "allow")
	w.want("edit elsewhere", decision(w.tool("a1", "Edit", map[string]any{"file_path": w.project + "/internal/x.go"})), "deny")
	w.claude("SubagentStart", "agent_id", "a2", "agent_type", "reviewer") // no call announced it
	w.want("git diff of the second", w.bash("a2", "git diff"), "deny")    // the writer has no git diff, and may have started it
}

// A sub-agent cannot be wider than its session, whatever its section says.
func TestSectionOfASubAgentCannotWiden(t *testing.T) {
	w := newTown(t, townGrant)
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "wide")
	w.want("its own part", w.bash("a1", "go test ./..."), "allow")
	w.want("a host", w.bash("a1", "curl https://example.com/"), "deny")
	w.want("a path", decision(w.tool("a1", "Edit", map[string]any{"file_path": "/etc/passwd"})), "deny")
	w.want("a tool", decision(w.tool("a1", "mcp__tickets__write", nil)), "deny")
	w.want("a question stays one", w.bash("a1", "git commit -m x"), "deny") // a sub-agent's client does not ask
}

// A person's answer lifts that one question, and only for the agent that asked.
func TestAnswersLiftQuestionsAndNothingElse(t *testing.T) {
	w := newTown(t, townGrant)
	edit := func(name string) string {
		return decision(w.tool("", "Edit", map[string]any{"file_path": w.project + "/" + name}))
	}
	w.want("edit", edit("cmd/a/x.go"), "ask")
	questions := w.d.Questions()
	if len(questions) != 1 || questions[0].Needs[0] != "files/edit "+w.project+"/cmd/a/x.go" {
		t.Fatalf("questions: %+v", questions)
	}
	say := func(a daemon.Answer) {
		t.Helper()
		a.ID = w.d.Questions()[0].ID
		if err := w.d.Say(a); err != nil {
			t.Fatal(err)
		}
	}
	say(daemon.Answer{Allow: "once"})
	w.want("edit once", edit("cmd/a/x.go"), "allow")
	w.want("edit twice", edit("cmd/a/x.go"), "ask")
	say(daemon.Answer{Allow: "task"})
	w.want("edit for the task", edit("cmd/a/x.go"), "allow")
	w.want("edit of another file", edit("cmd/a/y.go"), "ask")
	say(daemon.Answer{Allow: "task", Under: "cmd/a"})
	w.want("edit below the folder", edit("cmd/a/z.go"), "allow")
	w.want("edit beside the folder", edit("cmd/z.go"), "ask")
	say(daemon.Answer{Allow: "task", Under: "."}) // the ask part of the grant is cmd
	w.want("edit below cmd", edit("cmd/z.go"), "allow")
	w.want("edit beyond the ask part", edit("docs/x"), "deny")
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "writer")
	w.want("edit of a sub-agent", decision(w.tool("a1", "Edit", map[string]any{"file_path": w.project + "/cmd/a/x.go"})), "deny")
	if err := w.d.Say(daemon.Answer{ID: "99", Allow: "task"}); err == nil {
		t.Error("an answer to no question is taken")
	}
}

// Questions have the order in which they were asked, also those of one instant, and the oldest
// gives way to more than 64.
func TestQuestionsHaveAnOrderAndABound(t *testing.T) {
	w := newTown(t, townGrant)
	var ids []string
	for n := range 70 {
		w.want("edit", decision(w.tool("", "Edit", map[string]any{"file_path": fmt.Sprintf("%s/cmd/a/%d.go", w.project, n)})), "ask")
		ids = append(ids, strconv.Itoa(n+1))
	}
	var got []string
	for _, q := range w.d.Questions() {
		got = append(got, q.ID)
	}
	w.want("open questions", strings.Join(got, " "), strings.Join(ids[70-64:], " "))
}

// Records hold no words of commands, no prompts and no contents.
func TestRecordsHoldNoWordsOfTheAgent(t *testing.T) {
	w := newTown(t, townGrant)
	w.bash("", "curl -d hunter2 https://pkg.go.dev/hunter2?hunter2")
	w.bash("", "hunter2 --password=hunter2")
	w.bash("", "echo hunter2 > internal/x")
	w.bash("", "make build")
	w.tool("", "Agent", map[string]any{"subagent_type": "hunter2 hunter2", "prompt": "hunter2"})
	w.tool("", "WebFetch", map[string]any{"url": "https://pkg.go.dev/hunter2", "prompt": "hunter2"})
	w.tool("", "hunter2", map[string]any{"x": "hunter2"})
	w.claude("SubagentStart", "agent_id", "hunter2", "agent_type", "hunter2 ?")
	w.bash("hunter2", "ls")
	text, err := os.ReadFile(filepath.Join(w.config.State, "log", "journal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.records()) < 9 || bytes.Contains(text, []byte("password")) || bytes.Contains(text, []byte("?hunter2")) || bytes.Contains(text, []byte("prompt")) {
		t.Error("the log holds words of the agent")
	}
	if n := bytes.Count(text, []byte("hunter2")); n > 0 {
		t.Errorf("the log holds the agent's words %d times", n)
	}
}

// A cloned repository does not choose its own grant, and no session changes what guards it.
func TestProjectGivesItselfNothing(t *testing.T) {
	w := newTown(t, "")
	if err := os.MkdirAll(filepath.Join(w.project, ".powerbox"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"guard.yaml", ".powerbox/guard.yaml"} {
		if err := os.WriteFile(filepath.Join(w.project, name), []byte("version: 1\nrun: [rm]\ndelete: [/]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.want("rm", w.bash("", "rm -rf internal"), "deny")
	w.want("read", decision(w.tool("", "Read", map[string]any{"file_path": w.project + "/guard.yaml"})), "allow")
	if err := (daemon.Grants{State: w.config.State}).Give(filepath.Dir(w.config.State), []byte("version: 1\n")); err == nil {
		t.Error("a grant is given for a folder that holds the guard's own")
	}
	w = newTown(t, "version: 1\nread: [.]\nedit: [., ..]\n")
	for _, name := range []string{"/.claude/settings.json", "/.git/hooks/pre-commit", "/.cursor/hooks.json", "/.codex/hooks.json", "/.opencode/plugins/x.js", "/.MCP.json", "/../state/grants/x.json", "/sub/.git/config"} {
		w.want(name, decision(w.tool("", "Write", map[string]any{"file_path": w.project + name})), "deny")
	}
}

// Bad input of a hook denies.
func TestUnreadableHooksAreDenied(t *testing.T) {
	w := newTown(t, townGrant)
	for _, input := range []string{
		"", "{", "[]", "null", `{"hook_event_name":"PreToolUse"}`,
		`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/nonexistent","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		`{"hook_event_name":"PreToolUse","session_id":"s1","cwd":"PROJECT","tool_name":"Bash","tool_input":{"command":7}}`,
		`{"hook_event_name":"PreToolUse","session_id":"s1","cwd":"PROJECT","tool_name":"Edit","tool_input":{}}`,
		`{"hook_event_name":"PreToolUse","session_id":"s1","cwd":"PROJECT","tool_name":"Unheard","tool_input":{}}`,
		`{"hook_event_name":"PreToolUse","session_id":"s1","cwd":"PROJECT","tool_name":"mcp__a__b__c","tool_input":{}}`,
	} {
		switch out := w.hook("claude-code", input); {
		case input == "null" || input == "[]" || input == "{" || input == "":
			if decision(out) != "deny" && input != "null" {
				t.Errorf("%q is answered %q", input, out)
			}
		case decision(out) == "allow":
			t.Errorf("%q is answered %q", input, out)
		}
	}
	w.want("the right bash", w.bash("", "ls"), "allow")
}

// Outcomes that a client tells stand beside their decisions.
func TestOutcomesAreRecorded(t *testing.T) {
	w := newTown(t, townGrant)
	w.bash("", "go test ./...")
	w.claude("PostToolUse", "tool_name", "Bash", "tool_use_id", "call-Bash", "tool_input", map[string]any{"command": "go test ./..."})
	w.tool("", "Read", map[string]any{"file_path": w.project + "/x"})
	w.claude("PostToolUseFailure", "tool_name", "Read", "tool_use_id", "call-Read", "tool_input", map[string]any{})
	var got []string
	for _, r := range w.records() {
		got = append(got, string(r.OutcomeStatus))
	}
	w.want("outcomes", strings.Join(got, " "), "PENDING ACHIEVED PENDING FAILED")
}

// A lease ends after 24 hours, and a session that is used longer gets a further one.
func TestLeasesAreRenewedAndBoundInTime(t *testing.T) {
	w := newTown(t, strings.Replace(townGrant, "reviewer: {", "reviewer: {minutes: 30, ", 1))
	w.claude("SubagentStart", "agent_id", "a1", "agent_type", "reviewer")
	w.want("within", w.bash("a1", "git diff"), "allow")
	w.now = w.now.Add(31 * time.Minute)
	w.want("after 31 minutes", w.bash("a1", "git diff"), "deny")
	w.want("the session", w.bash("", "git diff"), "allow")
	w.now = w.now.Add(30 * time.Hour)
	w.want("the session the next day", w.bash("", "git diff"), "allow")
}
