// Package clients has what differs from one coding agent to another: the format of its hooks,
// its answers, and its settings. One file is one client.
package clients

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/guard"
)

// Client is a coding agent.
type Client struct {
	Name    string // as in powerbox guard install NAME
	Title   string
	Version string // whose documented format this is
	// Anonymous says that calls do not name the sub-agent that makes them.
	Anonymous bool
	// Read reads what a hook gets on standard input.
	Read func(raw []byte) (guard.Event, error)
	// Write is what the hook answers.
	Write func(e guard.Event, r Reply) Output
	// Settings are the files by which the client calls the guard.
	Settings func(at Paths) []File
}

// Reply is the decision of a call, or a note at the beginning of a session.
type Reply struct {
	Answer guard.Answer
	Text   string // why, or what the session may do
}

// Output is what the hook process prints, and how it ends.
type Output struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Exit   int    `json:"exit,omitempty"`
}

// All are the clients, by name.
func All() []Client { return []Client{claudeCode(), codex(), cursor(), opencode()} }

// Find returns a client by its name.
func Find(name string) (Client, error) {
	var names []string
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Client{}, fmt.Errorf("%q is no client; want one of %s", name, strings.Join(names, ", "))
}

// Refusal is the output of a hook that could not ask the guard: whatever the client asked,
// the answer is no.
func (c Client) Refusal(raw []byte, why string) Output {
	e, err := c.Read(raw)
	if err != nil {
		e = guard.Event{Moment: guard.Before}
	}
	if e.Moment == guard.Before {
		return c.Write(e, Reply{Answer: guard.Deny, Text: why})
	}
	return Output{Stderr: why + "\n"}
}

// fields is a JSON object of a hook. Members that are missing, or of another type, are zero;
// what needs them then denies.
type fields map[string]json.RawMessage

func parse(raw []byte) (fields, error) {
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("the hook's input is no JSON object: %w", err)
	}
	return f, nil
}

// text returns a string member.
func (f fields) text(name string) string {
	var s string
	if err := json.Unmarshal(f[name], &s); err != nil {
		return ""
	}
	return s
}

// object returns an object member. A string that holds an object is taken for it.
func (f fields) object(name string) fields {
	var out fields
	if json.Unmarshal(f[name], &out) == nil {
		return out
	}
	if json.Unmarshal([]byte(f.text(name)), &out) == nil {
		return out
	}
	return fields{}
}

// list returns an array of strings, nil for anything else.
func (f fields) list(name string) []string {
	var out []string
	if err := json.Unmarshal(f[name], &out); err != nil {
		return nil
	}
	return out
}

// paths returns the members of these names that are set.
func (f fields) paths(names ...string) []string {
	var out []string
	for _, n := range names {
		if s := f.text(n); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// line returns the command of a shell tool: a string, or the words of a program, which may be
// a shell with a command line.
func (f fields) line(name string) string {
	if s := f.text(name); s != "" {
		return s
	}
	words := f.list(name)
	if len(words) == 3 && slices.Contains([]string{"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"}, words[0]) && (words[1] == "-c" || words[1] == "-lc") {
		return words[2]
	}
	return guard.Words(words)
}

// mcpTool parts the name of an MCP tool. A name that could be parted in two ways is unknown.
func mcpTool(c *guard.Call, name string, server string) {
	rest := strings.TrimPrefix(name, "mcp__")
	if server != "" {
		if tool, ok := strings.CutPrefix(rest, server+"__"); ok {
			c.Kind, c.Server, c.Tool = guard.MCP, server, tool
		}
		return
	}
	if s, tool, ok := strings.Cut(rest, "__"); ok && !strings.Contains(tool, "__") {
		c.Kind, c.Server, c.Tool = guard.MCP, s, tool
	}
}

// reply writes an answer as JSON on one line.
func reply(v any) Output {
	b, err := json.Marshal(v)
	if err != nil {
		return Output{Stderr: err.Error(), Exit: 2}
	}
	return Output{Stdout: string(b) + "\n"}
}
