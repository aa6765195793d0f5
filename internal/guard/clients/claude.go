package clients

import (
	"strings"

	"github.com/powerbox-project/powerbox/internal/guard"
)

// claudeCode is Claude Code, whose hook types are those of @anthropic-ai/claude-agent-sdk.
func claudeCode() Client {
	return Client{
		Name: "claude-code", Title: "Claude Code", Version: "2.1.332 (hook types of @anthropic-ai/claude-agent-sdk 0.3.332)",
		Read: readClaude, Write: writeClaude, Settings: claudeSettings,
	}
}

// claudeMoments are the events of Claude Code that matter here. Codex has the same names.
var claudeMoments = map[string]guard.Moment{
	"SessionStart": guard.SessionStart, "SessionEnd": guard.SessionEnd, "SubagentStart": guard.AgentStart, "SubagentStop": guard.AgentEnd,
	"PreToolUse": guard.Before, "PostToolUse": guard.After, "PostToolUseFailure": guard.Failed,
}

// hookEvent reads the members that Claude Code and Codex share.
func hookEvent(f fields) guard.Event {
	return guard.Event{
		Moment: claudeMoments[f.text("hook_event_name")], Name: f.text("hook_event_name"), Session: f.text("session_id"),
		Agent: f.text("agent_id"), AgentType: f.text("agent_type"), Dir: f.text("cwd"),
	}
}

func readClaude(raw []byte) (guard.Event, error) {
	f, err := parse(raw)
	if err != nil {
		return guard.Event{}, err
	}
	e := hookEvent(f)
	e.CanAsk = e.Agent == "" // a sub-agent may run where its user does not look
	if e.Moment == guard.Before || e.Moment == guard.After || e.Moment == guard.Failed {
		e.Call = claudeCall(f.text("tool_name"), f.object("tool_input"), f.object("mcp_server").text("name"))
		e.Call.ID = f.text("tool_use_id")
	}
	return e, nil
}

// claudeHarmless are tools that change and reveal nothing outside the conversation. Skill is
// none of them: a skill's text can have commands that run when it is loaded.
var claudeHarmless = names("TodoWrite AskUserQuestion ExitPlanMode EnterPlanMode TaskCreate TaskGet TaskUpdate TaskList TaskOutput TaskStop BashOutput KillShell KillBash ToolSearch SendMessage ReportFindings EndConversation")

func names(list string) map[string]bool {
	out := map[string]bool{}
	for n := range strings.FieldsSeq(list) {
		out[n] = true
	}
	return out
}

func claudeCall(tool string, in fields, server string) guard.Call {
	c := guard.Call{Tool: tool}
	switch tool {
	case "Bash", "Monitor":
		c.Kind, c.Command = guard.Shell, in.line("command")
	case "Read", "NotebookRead":
		c.Kind, c.Paths = guard.Reading, in.paths("file_path", "notebook_path")
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		c.Kind, c.Paths = guard.Editing, in.paths("file_path", "notebook_path")
	case "Glob":
		c.Kind, c.Paths, c.Pattern = guard.Listing, in.paths("path"), in.text("pattern")
	case "Grep":
		c.Kind, c.Paths, c.Pattern = guard.Listing, in.paths("path"), in.text("glob")
	case "LS":
		c.Kind, c.Paths = guard.Listing, in.paths("path")
	case "WebFetch":
		c.Kind, c.URL = guard.Fetching, in.text("url")
	case "WebSearch":
		c.Kind = guard.Searching
	case "Agent", "Task":
		c.Kind, c.Type = guard.Starting, in.text("subagent_type")
		if c.Type == "" {
			c.Type = "general-purpose"
		}
	default:
		switch {
		case strings.HasPrefix(tool, "mcp__"):
			mcpTool(&c, tool, server)
		case claudeHarmless[tool]:
			c.Kind = guard.Harmless
		}
	}
	if c.Kind == guard.Editing && len(c.Paths) == 0 {
		c.Kind = guard.Unknown
	}
	return c
}

type hookOutput struct {
	Specific hookSpecific `json:"hookSpecificOutput"`
}

type hookSpecific struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision,omitempty"`
	Reason   string `json:"permissionDecisionReason,omitempty"`
	Context  string `json:"additionalContext,omitempty"`
}

func writeClaude(e guard.Event, r Reply) Output {
	switch e.Moment {
	case guard.Before:
		return reply(hookOutput{hookSpecific{Event: "PreToolUse", Decision: r.Answer.String(), Reason: r.Text}})
	case guard.SessionStart, guard.AgentStart:
		return reply(hookOutput{hookSpecific{Event: e.Name, Context: r.Text}})
	default:
	}
	return Output{}
}

func claudeSettings(at Paths) []File {
	hooks := func(list ...string) []Edit {
		var out []Edit
		for _, event := range list {
			out = append(out, Edit{Array: []string{"hooks", event}, Value: matched("*", at.command("claude-code"), 60)})
		}
		return out
	}
	settings := File{Path: at.in(".claude/settings.json", ".claude/settings.json"), Edits: hooks("SessionStart", "SessionEnd", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop")}
	files := []File{settings}
	if !at.User { // the user's own MCP servers are in a file that holds the client's state
		files = append(files, File{Path: at.in(".mcp.json", ""), Edits: []Edit{{Member: []string{"mcpServers", "powerbox-guard"}, Value: map[string]any{"command": at.Binary, "args": []string{"guard", "mcp"}}}}})
	}
	return files
}

// matched is a group of hooks as Claude Code and Codex have it.
func matched(matcher, command string, seconds int) any {
	return map[string]any{"matcher": matcher, "hooks": []any{map[string]any{"type": "command", "command": command, "timeout": seconds}}}
}
