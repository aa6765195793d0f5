package clients

import (
	_ "embed"
	"strings"

	"github.com/powerbox-project/powerbox/internal/guard"
)

// opencode is opencode, which loads the plugin of this folder.
func opencode() Client {
	return Client{
		Name: "opencode", Title: "opencode", Version: "1.18.33 (types of @opencode-ai/plugin)",
		Read: readOpencode, Write: writeOpencode, Settings: opencodeSettings,
	}
}

//go:embed opencode.js
var opencodePlugin string

var opencodeMoments = map[string]guard.Moment{
	"tool.execute.before": guard.Before, "tool.execute.after": guard.After, "session.created": guard.SessionStart, "session.deleted": guard.SessionEnd,
	"subagent.started": guard.AgentStart, "subagent.ended": guard.AgentEnd,
}

func readOpencode(raw []byte) (guard.Event, error) {
	f, err := parse(raw)
	if err != nil {
		return guard.Event{}, err
	}
	e := guard.Event{
		Name: f.text("hook"), Moment: opencodeMoments[f.text("hook")], Session: f.text("root"), Agent: f.text("agent"), Parent: f.text("parent"), ParentKnown: f["parent"] != nil, Dir: f.text("directory"),
	}
	if e.Moment == guard.Before || e.Moment == guard.After {
		e.Call = opencodeCall(f.text("tool"), f.object("args"))
		e.Call.ID = f.text("call")
	}
	return e, nil
}

func opencodeCall(tool string, in fields) guard.Call {
	c := guard.Call{Tool: tool}
	switch tool {
	case "bash", "shell":
		c.Kind, c.Command = guard.Shell, in.line("command")
		if dir := in.text("workdir"); dir != "" {
			c.Command = "cd " + guard.Words([]string{dir}) + " && {\n" + c.Command + "\n}"
		}
	case "read":
		c.Kind, c.Paths = guard.Reading, in.paths("filePath")
	case "edit", "write", "multiedit":
		if c.Paths = in.paths("filePath"); len(c.Paths) > 0 {
			c.Kind = guard.Editing
		}
	case "patch", "apply_patch":
		patch(&c, in.text("patchText"))
	case "glob":
		c.Kind, c.Paths, c.Pattern = guard.Listing, in.paths("path"), in.text("pattern")
	case "grep":
		c.Kind, c.Paths, c.Pattern = guard.Listing, in.paths("path"), in.text("include")
	case "list":
		c.Kind, c.Paths = guard.Listing, in.paths("path")
	case "webfetch":
		c.Kind, c.URL = guard.Fetching, in.text("url")
	case "websearch", "codesearch":
		c.Kind = guard.Searching
	case "task":
		c.Kind, c.Type = guard.Starting, in.text("subagent_type")
		if c.Type == "" {
			c.Type = "general"
		}
	case "todowrite", "todoread", "question", "invalid", "plan_enter", "plan_exit":
		c.Kind = guard.Harmless
	default: // an MCP tool is called server_tool, which has no single reading
		if strings.Contains(tool, "_") {
			c.Kind, c.Server, c.Tool = guard.MCP, "opencode", tool
		}
	}
	return c
}

type opencodeOutput struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
}

func writeOpencode(e guard.Event, r Reply) Output {
	if e.Moment != guard.Before {
		return reply(opencodeOutput{Decision: "allow", Reason: r.Text})
	}
	answer := r.Answer
	if answer == guard.Ask {
		answer = guard.Deny
	}
	return reply(opencodeOutput{Decision: answer.String(), Reason: r.Text})
}

func opencodeSettings(at Paths) []File {
	plugin := strings.Replace(opencodePlugin, `"powerbox"`, quoted(at.Binary), 1)
	return []File{
		{Path: at.in(".opencode/plugins/powerbox-guard.js", ".config/opencode/plugins/powerbox-guard.js"), Whole: plugin},
		{Path: at.in("opencode.json", ".config/opencode/opencode.json"), Edits: []Edit{{Member: []string{"mcp", "powerbox-guard"}, Value: map[string]any{"type": "local", "command": []string{at.Binary, "guard", "mcp"}, "enabled": true}}}},
	}
}
