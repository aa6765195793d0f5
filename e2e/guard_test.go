package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// codingAgent is a scripted client: it speaks the hooks of Claude Code and the protocol of MCP.
type codingAgent struct {
	t       *testing.T
	project string
	env     []string
	runtime string
}

func newCodingAgent(t *testing.T, more ...string) *codingAgent {
	t.Helper()
	base, err := os.MkdirTemp("", "pb") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	a := &codingAgent{t: t, project: filepath.Join(base, "p"), runtime: filepath.Join(base, "run")}
	a.env = append(os.Environ(), "HOME="+base, "POWERBOX_GUARD_STATE="+filepath.Join(base, "state"), "POWERBOX_GUARD_RUNTIME="+a.runtime)
	a.env = append(a.env, more...)
	if err := os.MkdirAll(filepath.Join(a.project, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = a.run("", "guard", "daemon", "--stop") // it may not run
		_ = os.RemoveAll(base)
	})
	return a
}

// run runs the program in the project, and returns both outputs.
func (a *codingAgent) run(stdin string, args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = a.project, a.env, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (a *codingAgent) must(stdin string, args ...string) string {
	a.t.Helper()
	out, err := a.run(stdin, args...)
	if err != nil {
		a.t.Fatalf("powerbox %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// bash asks by the hook command that install wrote, as the client does: with a shell.
func (a *codingAgent) bash(hook, command string) string {
	a.t.Helper()
	in, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": a.project, "tool_name": "Bash", "tool_use_id": "t", "tool_input": map[string]any{"command": command}})
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", hook)
	cmd.Dir, cmd.Env, cmd.Stdin = a.project, a.env, strings.NewReader(string(in))
	var out, talk strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return "exit " + err.Error()
	}
	var v struct {
		Output struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
		a.t.Fatalf("the hook says %q %q", out.String(), talk.String())
	}
	return v.Output.Decision + ": " + v.Output.Reason
}

// installed is the hook command in the settings.
func (a *codingAgent) installed() string {
	a.t.Helper()
	text, err := os.ReadFile(filepath.Join(a.project, ".claude/settings.json"))
	if err != nil {
		a.t.Fatal(err)
	}
	var settings struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Command string `json:"command"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		a.t.Fatal(err)
	}
	return settings.Hooks["PreToolUse"][0].Hooks[0].Command
}

// A scripted client installs the guard, is decided by its hooks, and looks up its grant over MCP.
func TestCodingAgentIsGuardedThroughHooksAndMCP(t *testing.T) {
	asGiven(t)
	a := newCodingAgent(t)
	a.must("version: 1\nread: [.]\nrun: [git diff, ls]\n", "guard", "grant", "-", "--yes")
	if out, err := a.run("n\n", "guard", "install", "claude-code"); err == nil || !strings.Contains(out, "+++") {
		t.Errorf("without a yes: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(a.project, ".claude")); err == nil {
		t.Error("something was written without a yes")
	}
	a.must("y\n", "guard", "install", "claude-code")
	hook := a.installed()

	// Several hooks at once start one daemon, and each gets its answer.
	var all sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		all.Go(func() { answers[i] = a.bash(hook, []string{"ls", "rm -rf /"}[i%2]) })
	}
	all.Wait()
	for i, got := range answers {
		if want := []string{"allow: ", "deny: "}[i%2]; !strings.HasPrefix(got, want) {
			t.Errorf("hook %d: %s", i, got)
		}
	}
	info, err := os.Stat(filepath.Join(a.runtime, "guard.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info, err)
	}

	cmd := exec.Command(binary, "guard", "mcp")
	cmd.Dir, cmd.Env = a.project, a.env
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "permitted"})
	if err != nil || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "git diff") {
		t.Errorf("permitted: %v %v", result, err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}

	a.must("", "guard", "log", "--out", "b.jsonl", "--trust", "t.json")
	if out := a.must("", "evidence", "verify", "b.jsonl", "--trust", "t.json"); !strings.Contains(out, "ok: 8 records") {
		t.Errorf("the log: %s", out)
	}
	a.must("", "guard", "uninstall", "claude-code", "--yes")
	if _, err := os.Stat(filepath.Join(a.project, ".claude")); err == nil {
		t.Error("something is left")
	}
}

// Without a daemon nothing is allowed, reading included, and a program that is gone blocks too.
func TestCodingAgentIsDeniedWithoutADaemon(t *testing.T) {
	asGiven(t)
	a := newCodingAgent(t, "POWERBOX_GUARD_NO_START=1")
	a.must("version: 1\nread: [.]\nrun: [ls]\n", "guard", "grant", "-", "--yes")
	a.must("", "guard", "install", "claude-code", "--yes")
	hook := a.installed()
	if got := a.bash(hook, "ls"); !strings.HasPrefix(got, "deny: ") || !strings.Contains(got, "powerbox guard daemon") {
		t.Errorf("without a daemon: %s", got)
	}
	if err := os.WriteFile(a.runtime, nil, 0o600); err != nil { // the daemon cannot be reached in any way
		t.Fatal(err)
	}
	if got := a.bash(hook, "ls"); !strings.HasPrefix(got, "deny: ") {
		t.Errorf("with a file in place of the folder: %s", got)
	}
	if got := a.bash(strings.Replace(hook, "/powerbox", "/gone", 1), "ls"); got != "exit exit status 2" { // with which Claude Code stops the call
		t.Errorf("with the program gone: %s", got)
	}
}
