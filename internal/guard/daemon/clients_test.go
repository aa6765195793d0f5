package daemon_test

import (
	"strings"
	"testing"
)

// step is a hook's input with the decision that it gets. "-" is an answer without a decision.
type step struct{ input, want string }

func (w *town) play(client string, steps []step) {
	w.t.Helper()
	for _, s := range steps {
		got := decision(w.hook(client, s.input))
		if s.want == "-" {
			s.want = ""
		}
		if got != s.want {
			w.t.Errorf("%s: %s is decided %q, want %q", client, s.input, got, s.want)
		}
	}
}

// Each client's documented format is read and answered.
func TestTranscriptsOfClients(t *testing.T) {
	for client, steps := range map[string][]step{
		// Types of @anthropic-ai/claude-agent-sdk 0.3.332.
		"claude-code": {
			{`{"hook_event_name":"SessionStart","session_id":"c","transcript_path":"/t","cwd":"PROJECT","source":"startup","model":"m"}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","permission_mode":"default","tool_name":"Bash","tool_use_id":"u1","tool_input":{"command":"rm -rf ~","description":"clean"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","permission_mode":"bypassPermissions","tool_name":"Bash","tool_use_id":"u2","tool_input":{"command":"go test ./..."}}`, "allow"},
			{`{"hook_event_name":"PostToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"Bash","tool_use_id":"u2","tool_input":{"command":"go test ./..."},"tool_response":{}}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"Write","tool_use_id":"u3","tool_input":{"file_path":"PROJECT/internal/x.go","content":"x"}}`, "allow"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"NotebookEdit","tool_use_id":"u4","tool_input":{"notebook_path":"PROJECT/cmd/x.ipynb","new_source":""}}`, "ask"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"Grep","tool_use_id":"u5","tool_input":{"pattern":"x","path":"/etc"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"Glob","tool_use_id":"u6","tool_input":{"pattern":"../**/*.go"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"WebFetch","tool_use_id":"u7","tool_input":{"url":"https://pkg.go.dev/std","prompt":"p"}}`, "allow"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"WebFetch","tool_use_id":"u8","tool_input":{"url":"https://pkg.go.dev.evil.example/","prompt":"p"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"WebSearch","tool_use_id":"u9","tool_input":{"query":"q"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"mcp__docs__search","tool_use_id":"u10","tool_input":{},"mcp_server":{"name":"docs","source":"project"}}`, "allow"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"mcp__tickets__close","tool_use_id":"u11","tool_input":{}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"TodoWrite","tool_use_id":"u12","tool_input":{"todos":[]}}`, "allow"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","tool_name":"CronCreate","tool_use_id":"u13","tool_input":{}}`, "deny"},
			{`{"hook_event_name":"SubagentStart","session_id":"c","transcript_path":"/t","cwd":"PROJECT","agent_id":"a","agent_type":"reviewer"}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"c","transcript_path":"/t","cwd":"PROJECT","agent_id":"a","agent_type":"reviewer","permission_mode":"bypassPermissions","tool_name":"Bash","tool_use_id":"u14","tool_input":{"command":"go test ./..."}}`, "deny"},
			{`{"hook_event_name":"SubagentStop","session_id":"c","transcript_path":"/t","cwd":"PROJECT","agent_id":"a","agent_type":"reviewer","agent_transcript_path":"/a","stop_hook_active":false}`, "-"},
			{`{"hook_event_name":"SessionEnd","session_id":"c","transcript_path":"/t","cwd":"PROJECT","reason":"logout"}`, "-"},
		},
		// codex-rs/hooks/schema/generated. An allowed call is answered with nothing: Codex's own sandbox stays.
		"codex": {
			{`{"hook_event_name":"SessionStart","session_id":"x","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","source":"startup"}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"Bash","tool_use_id":"u1","tool_input":{"command":"rm -rf /"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"Bash","tool_use_id":"u2","tool_input":{"command":"git diff"}}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"Bash","tool_use_id":"u3","tool_input":{"command":["bash","-lc","git diff; rm -rf /"]}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"apply_patch","tool_use_id":"u4","tool_input":{"command":"*** Begin Patch\n*** Update File: internal/x.go\n@@\n-a\n+b\n*** End Patch"}}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"apply_patch","tool_use_id":"u5","tool_input":{"command":"*** Begin Patch\n*** Update File: internal/x.go\n*** Move to: ../x.go\n@@\n*** End Patch"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"apply_patch","tool_use_id":"u6","tool_input":{"command":"*** Begin Patch\n*** Delete File: internal/x.go\n*** End Patch"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"apply_patch","tool_use_id":"u7","tool_input":{"command":"nothing"}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","tool_name":"Bash","tool_use_id":"u8","tool_input":{"command":"git commit -m x"}}`, "deny"},
			{`{"hook_event_name":"SubagentStart","session_id":"x","turn_id":"1","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","agent_id":"a","agent_type":"research"}`, "-"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"2","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","agent_id":"a","agent_type":"research","tool_name":"mcp__tickets__read","tool_use_id":"u9","tool_input":{}}`, "deny"},
			{`{"hook_event_name":"PreToolUse","session_id":"x","turn_id":"2","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","agent_id":"a","agent_type":"research","tool_name":"mcp__docs__search","tool_use_id":"u10","tool_input":{}}`, "-"},
			{`{"hook_event_name":"SubagentStop","session_id":"x","turn_id":"2","transcript_path":null,"cwd":"PROJECT","model":"m","permission_mode":"default","agent_id":"a","agent_type":"research"}`, "-"},
		},
		// hooks.json version 1. A sub-agent's calls do not name it: while one runs, both leases decide.
		"cursor": {
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"cursor_version":"3.2","command":"rm -rf /","cwd":"PROJECT"}`, "deny"},
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"cursor_version":"3.2","command":"go test ./...","cwd":"PROJECT"}`, "allow"},
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"command":"git commit -m x","cwd":"PROJECT"}`, "ask"},
			{`{"hook_event_name":"beforeReadFile","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"file_path":"/etc/passwd","content":"","attachments":[]}`, "deny"},
			{`{"hook_event_name":"beforeReadFile","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"file_path":"PROJECT/x","content":""}`, "allow"},
			{`{"hook_event_name":"beforeMCPExecution","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"tool_name":"close","tool_input":"{\"id\":1}","url":"https://tickets.example/mcp"}`, "deny"},
			{`{"hook_event_name":"preToolUse","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"tool_name":"Write","tool_input":{"path":"PROJECT/internal/x"},"tool_use_id":"t","cwd":"PROJECT"}`, "allow"},
			{`{"hook_event_name":"preToolUse","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"tool_name":"Delete","tool_input":{"path":"PROJECT/internal/x"},"tool_use_id":"t","cwd":"PROJECT"}`, "deny"},
			{`{"hook_event_name":"preToolUse","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"tool_name":"Unheard","tool_input":{},"tool_use_id":"t","cwd":"PROJECT"}`, "deny"},
			{`{"hook_event_name":"afterFileEdit","conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"file_path":"PROJECT/internal/x","edits":[{"old_string":"a","new_string":"b"}]}`, "-"},
			{`{"hook_event_name":"subagentStart","conversation_id":"k","parent_conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"subagent_id":"sub","subagent_type":"reviewer","task":"t"}`, "-"},
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"k","generation_id":"g2","workspace_roots":["PROJECT"],"command":"go test ./...","cwd":"PROJECT"}`, "deny"},
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"unknown","generation_id":"g2","workspace_roots":["PROJECT"],"command":"go test ./...","cwd":"PROJECT"}`, "deny"},
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"unknown","generation_id":"g2","workspace_roots":["PROJECT"],"command":"git diff","cwd":"PROJECT"}`, "allow"},
			{`{"hook_event_name":"subagentStop","conversation_id":"k","parent_conversation_id":"k","generation_id":"g1","workspace_roots":["PROJECT"],"subagent_id":"sub","subagent_type":"reviewer","status":"completed"}`, "-"},
			{`{"hook_event_name":"beforeShellExecution","conversation_id":"k","generation_id":"g3","workspace_roots":["PROJECT"],"command":"go test ./...","cwd":"PROJECT"}`, "allow"},
		},
		// What the plugin sends.
		"opencode": {
			{`{"hook":"session.created","directory":"PROJECT","root":"o","agent":"","parent":""}`, "allow"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"","parent":"","tool":"bash","call":"1","args":{"command":"rm -rf /"}}`, "deny"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"","parent":"","tool":"bash","call":"2","args":{"command":"go test .","workdir":"PROJECT/internal"}}`, "allow"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"","parent":"","tool":"bash","call":"3","args":{"command":"ls","workdir":"/"}}`, "deny"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"","parent":"","tool":"edit","call":"4","args":{"filePath":"PROJECT/internal/x.go"}}`, "allow"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"","parent":"","tool":"task","call":"5","args":{"subagent_type":"reviewer","prompt":"p"}}`, "allow"},
			{`{"hook":"subagent.started","directory":"PROJECT","root":"o","agent":"child","parent":""}`, "allow"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"child","parent":"","tool":"bash","call":"6","args":{"command":"git diff"}}`, "allow"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"child","parent":"","tool":"edit","call":"7","args":{"filePath":"PROJECT/internal/x.go"}}`, "deny"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"grandchild","parent":"child","tool":"edit","call":"8","args":{"filePath":"PROJECT/internal/a/x.go"}}`, "deny"},
			{`{"hook":"subagent.ended","directory":"PROJECT","root":"o","agent":"child","parent":""}`, "allow"},
			{`{"hook":"tool.execute.before","directory":"PROJECT","root":"o","agent":"child","parent":"","tool":"bash","call":"9","args":{"command":"git diff"}}`, "deny"},
		},
	} {
		t.Run(client, func(t *testing.T) {
			w := newTown(t, strings.Replace(townGrant, "hosts: [pkg", "start: [reviewer, research, writer]\nhosts: [pkg", 1))
			w.play(client, steps)
			if len(w.records()) < len(steps)/2 {
				t.Error("the log has too few records")
			}
		})
	}
}

// The scenarios that users of coding agents reported.
func TestScenariosOfUsers(t *testing.T) {
	start := func(w *town, agent, kind string) {
		w.claude("SubagentStart", "agent_id", agent, "agent_type", kind)
	}
	// https://github.com/openai/codex/issues/20135: a sub-agent does without its parent's MCP servers.
	t.Run("codex 20135", func(t *testing.T) {
		w := newTown(t, townGrant)
		w.want("the parent", decision(w.tool("", "mcp__tickets__read", nil)), "allow")
		start(w, "a", "writer")
		w.want("the sub-agent", decision(w.tool("a", "mcp__tickets__read", nil)), "deny")
		w.want("the sub-agent's files", decision(w.tool("a", "Read", map[string]any{"file_path": w.project + "/docs/x"})), "allow")
	})
	// https://github.com/openai/codex/issues/40130: a read-only agent stays read-only, and a server's tools can be cut to some.
	t.Run("codex 40130", func(t *testing.T) {
		w := newTown(t, townGrant)
		start(w, "a", "research")
		w.want("its server", decision(w.tool("a", "mcp__docs__search", nil)), "allow")
		w.want("another server", decision(w.tool("a", "mcp__tickets__read", nil)), "deny")
		w.want("write", decision(w.tool("a", "Write", map[string]any{"file_path": w.project + "/docs/x"})), "deny")
		w.want("write by the shell", w.bash("a", "echo x > docs/x"), "deny")
	})
	// https://github.com/google-antigravity/antigravity-sdk-python/issues/65: flags of a sub-agent hold,
	// in both directions: without MCP tools it has none, and with writing it writes.
	t.Run("antigravity 65", func(t *testing.T) {
		w := newTown(t, townGrant)
		w.want("the parent", decision(w.tool("", "mcp__secret__word", nil)), "allow")
		start(w, "no", "reviewer")
		w.want("without MCP tools", decision(w.tool("no", "mcp__secret__word", nil)), "deny")
		w = newTown(t, townGrant)
		start(w, "writer", "writer")
		w.want("with writing", decision(w.tool("writer", "Write", map[string]any{"file_path": w.project + "/internal/a/x"})), "allow")
		w.want("with writing, MCP", decision(w.tool("writer", "mcp__secret__word", nil)), "deny")
	})
	// https://github.com/anomalyco/opencode/issues/26700: a coordinator that may start agents and do nothing
	// else delegates to one that does more, within what the user gave the session.
	t.Run("opencode 26700", func(t *testing.T) {
		w := newTown(t, townGrant+"start: [writer]\nmain: {read: [docs], start: [writer]}\n")
		w.want("edit of the coordinator", decision(w.tool("", "Edit", map[string]any{"file_path": w.project + "/internal/a/x"})), "deny")
		w.want("start", decision(w.tool("", "Agent", map[string]any{"subagent_type": "writer"})), "allow")
		start(w, "a", "writer")
		w.want("edit of the writer", decision(w.tool("a", "Edit", map[string]any{"file_path": w.project + "/internal/a/x"})), "allow")
		w.want("beyond the session", decision(w.tool("a", "Edit", map[string]any{"file_path": "/etc/x"})), "deny")
	})
	// https://github.com/anthropics/claude-code/issues/43772 and 52557 (nearest to those that could be read):
	// a mode in which the client never asks changes nothing here.
	t.Run("claude-code bypassPermissions", func(t *testing.T) {
		w := newTown(t, townGrant)
		start(w, "a", "reviewer")
		for _, command := range []string{"git add .", "git commit -m x", "rm -f internal/x", "chmod +x internal/x", "just build", "python3 -c x"} {
			out := w.claude("PreToolUse", "permission_mode", "bypassPermissions", "agent_id", "a", "agent_type", "reviewer", "tool_name", "Bash", "tool_input", map[string]any{"command": command}, "tool_use_id", "u")
			w.want(command, decision(out), "deny")
		}
	})
}
