package clients

import (
	"strings"

	"github.com/powerbox-project/powerbox/internal/guard"
)

// codex is OpenAI Codex, whose hook schemas are in codex-rs/hooks/schema.
func codex() Client {
	return Client{
		Name: "codex", Title: "Codex", Version: "0.171.0 (schemas in codex-rs/hooks/schema/generated)",
		Read: readCodex, Write: writeCodex, Settings: codexSettings,
	}
}

func readCodex(raw []byte) (guard.Event, error) {
	f, err := parse(raw)
	if err != nil {
		return guard.Event{}, err
	}
	e := hookEvent(f)
	if e.Moment == guard.Before || e.Moment == guard.After {
		e.Call = codexCall(f.text("tool_name"), f.object("tool_input"))
		e.Call.ID = f.text("tool_use_id")
	}
	return e, nil
}

func codexCall(tool string, in fields) guard.Call {
	c := guard.Call{Tool: tool}
	switch {
	case tool == "Bash" || tool == "shell" || tool == "exec_command" || tool == "local_shell":
		c.Kind, c.Command = guard.Shell, in.line("command")
		if c.Command == "" {
			c.Command = in.line("cmd")
		}
	case tool == "apply_patch":
		patch(&c, in.text("command")+in.text("input"))
	case tool == "view_image":
		c.Kind, c.Paths = guard.Reading, in.paths("path")
	case tool == "spawn_agent":
		c.Kind, c.Type = guard.Starting, in.text("agent_type")
		if c.Type == "" {
			c.Type = "default"
		}
	case tool == "update_plan" || tool == "wait_agent" || tool == "close_agent":
		c.Kind = guard.Harmless
	case strings.HasPrefix(tool, "mcp__"):
		mcpTool(&c, tool, "")
	}
	return c
}

// patch reads the files that a patch of apply_patch names. A patch without one is unknown.
func patch(c *guard.Call, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		for _, head := range []string{"*** Add File: ", "*** Update File: ", "*** Move to: "} {
			if name, ok := strings.CutPrefix(line, head); ok {
				c.Paths = append(c.Paths, strings.TrimSpace(name))
			}
		}
		if name, ok := strings.CutPrefix(line, "*** Delete File: "); ok {
			c.Deleted = append(c.Deleted, strings.TrimSpace(name))
		}
	}
	if len(c.Paths)+len(c.Deleted) > 0 {
		c.Kind = guard.Editing
	}
}

// writeCodex answers a denial. Codex ignores every other decision of PreToolUse, and asks by
// its own rules.
func writeCodex(e guard.Event, r Reply) Output {
	switch {
	case e.Moment == guard.Before && r.Answer != guard.Allow:
		return reply(hookOutput{hookSpecific{Event: "PreToolUse", Decision: "deny", Reason: r.Text}})
	case e.Moment == guard.SessionStart, e.Moment == guard.AgentStart:
		return reply(hookOutput{hookSpecific{Event: e.Name, Context: r.Text}})
	}
	return Output{}
}

func codexSettings(at Paths) []File {
	var edits []Edit
	for _, event := range []string{"SessionStart", "PreToolUse", "PostToolUse", "SubagentStart", "SubagentStop"} {
		edits = append(edits, Edit{Array: []string{"hooks", event}, Value: matched("*", at.command("codex"), 60)})
	}
	return []File{
		{Path: at.in(".codex/hooks.json", ".codex/hooks.json"), Edits: edits},
		{Path: at.in(".codex/config.toml", ".codex/config.toml"), Block: "[mcp_servers.powerbox-guard]\ncommand = " + quoted(at.Binary) + "\nargs = [\"guard\", \"mcp\"]\n"},
	}
}
