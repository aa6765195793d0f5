package clients

import (
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox/internal/guard"
)

// cursor is Cursor's agent.
func cursor() Client {
	return Client{
		Name: "cursor", Title: "Cursor", Version: "3.2 (hooks.json version 1)", Anonymous: true,
		Read: readCursor, Write: writeCursor, Settings: cursorSettings,
	}
}

var cursorMoments = map[string]guard.Moment{
	"sessionStart": guard.SessionStart, "sessionEnd": guard.SessionEnd, "subagentStart": guard.AgentStart, "subagentStop": guard.AgentEnd,
	"beforeShellExecution": guard.Before, "beforeMCPExecution": guard.Before, "beforeReadFile": guard.Before, "preToolUse": guard.Before,
	"afterShellExecution": guard.After, "afterMCPExecution": guard.After, "afterFileEdit": guard.After,
}

func readCursor(raw []byte) (guard.Event, error) {
	f, err := parse(raw)
	if err != nil {
		return guard.Event{}, err
	}
	e := guard.Event{
		Name: f.text("hook_event_name"), Moment: cursorMoments[f.text("hook_event_name")], Session: f.text("conversation_id"), Dir: f.text("cwd"),
		Agent: f.text("subagent_id"), AgentType: f.text("subagent_type"),
	}
	if s := f.text("parent_conversation_id"); s != "" {
		e.Session = s
	}
	if e.Session == "" {
		e.Session = f.text("session_id")
	}
	if roots := f.list("workspace_roots"); e.Dir == "" && len(roots) > 0 {
		e.Dir = roots[0]
	}
	switch e.Name {
	case "beforeShellExecution", "afterShellExecution":
		e.CanAsk = true
		e.Call = guard.Call{Kind: guard.Shell, Tool: "Shell", Command: f.text("command")}
	case "beforeMCPExecution", "afterMCPExecution":
		e.CanAsk = true
		e.Call = guard.Call{Kind: guard.MCP, Tool: f.text("tool_name"), Server: cursorServer(f)}
	case "beforeReadFile":
		e.Call = guard.Call{Kind: guard.Reading, Tool: "Read", Paths: f.paths("file_path")}
	case "afterFileEdit":
		e.Call = guard.Call{Kind: guard.Editing, Tool: "Edit", Paths: f.paths("file_path")}
	case "preToolUse":
		e.Call = cursorCall(f.text("tool_name"), f.object("tool_input"))
	}
	if e.Call.ID = f.text("tool_use_id"); e.Call.ID == "" && e.Call.Kind != guard.Unknown {
		e.Call.ID = f.text("generation_id") + "/" + e.Call.Tool
	}
	return e, nil
}

// cursorServer names an MCP server by its host, or by the command that starts it.
func cursorServer(f fields) string {
	if u, err := url.Parse(f.text("url")); err == nil && u.Host != "" {
		return u.Host
	}
	if s := f.text("server"); s != "" {
		return s
	}
	return strings.ReplaceAll(f.text("command"), "/", "_")
}

// cursorCall reads a tool that has no hook of its own. Those that have one are decided there.
func cursorCall(tool string, in fields) guard.Call {
	c := guard.Call{Tool: tool, Kind: guard.Unknown}
	switch {
	case tool == "Shell" || tool == "Read" || tool == "MCP" || strings.HasPrefix(tool, "MCP:"):
		c.Kind = guard.Harmless // beforeShellExecution, beforeReadFile and beforeMCPExecution decide
	case tool == "Grep" || tool == "Glob" || tool == "LS" || tool == "SemanticSearch":
		c.Kind, c.Paths, c.Pattern = guard.Listing, in.paths("path", "target_directory"), in.text("glob_pattern")
	case tool == "Write" || tool == "Edit" || tool == "StrReplace" || tool == "MultiEdit" || tool == "EditNotebook":
		if c.Paths = in.paths("path", "file_path", "target_file", "target_notebook"); len(c.Paths) > 0 {
			c.Kind = guard.Editing
		}
	case tool == "Delete":
		if c.Deleted = in.paths("path", "file_path", "target_file"); len(c.Deleted) > 0 {
			c.Kind = guard.Editing
		}
	case tool == "Task":
		c.Kind, c.Type = guard.Starting, in.text("subagent_type")
		if c.Type == "" {
			c.Type = "generalPurpose"
		}
	case tool == "WebFetch":
		c.Kind, c.URL = guard.Fetching, in.text("url")
	case tool == "WebSearch":
		c.Kind = guard.Searching
	case tool == "TodoWrite" || tool == "AskQuestion" || tool == "ReadLints":
		c.Kind = guard.Harmless
	}
	return c
}

type cursorOutput struct {
	Permission string `json:"permission"`
	User       string `json:"user_message,omitempty"`
	Agent      string `json:"agent_message,omitempty"`
}

func writeCursor(e guard.Event, r Reply) Output {
	if e.Moment != guard.Before {
		return Output{}
	}
	out := cursorOutput{Permission: r.Answer.String(), User: r.Text, Agent: r.Text}
	if r.Answer == guard.Allow {
		out = cursorOutput{Permission: "allow"}
	}
	return reply(out)
}

func cursorSettings(at Paths) []File {
	edits := []Edit{{Member: []string{"version"}, Value: 1, Keep: true}}
	for _, event := range []string{
		"beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "preToolUse", "afterShellExecution", "afterMCPExecution", "afterFileEdit",
		"sessionStart", "sessionEnd", "subagentStart", "subagentStop",
	} {
		hook := map[string]any{"command": at.command("cursor")}
		if cursorMoments[event] == guard.Before {
			hook["failClosed"] = true
		}
		edits = append(edits, Edit{Array: []string{"hooks", event}, Value: hook})
	}
	return []File{
		{Path: at.in(".cursor/hooks.json", ".cursor/hooks.json"), Edits: edits},
		{Path: at.in(".cursor/mcp.json", ".cursor/mcp.json"), Edits: []Edit{{Member: []string{"mcpServers", "powerbox-guard"}, Value: map[string]any{"command": at.Binary, "args": []string{"guard", "mcp"}}}}},
	}
}
