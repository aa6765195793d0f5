package setup

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// mcpListTime bounds how long a server is asked for its tools, and mcpListed how
// many of them are read.
const (
	mcpListTime = 20 * time.Second
	mcpListed   = 10000
)

// mcpTool is a tool as its server describes it.
type mcpTool struct {
	Name  string
	Hints toolHints
}

// toolHints are the annotations of a tool. They are the server's own word, which binds it to
// nothing: a person has to confirm what would permit more.
type toolHints struct {
	ReadOnly               bool
	Destructive, OpenWorld *bool // nil where the server says nothing
}

func hintsOf(a *mcp.ToolAnnotations) toolHints {
	if a == nil {
		return toolHints{}
	}
	return toolHints{a.ReadOnlyHint, a.DestructiveHint, a.OpenWorldHint}
}

// destroys reports whether the server calls a tool destructive.
func (h toolHints) destroys() bool { return h.Destructive != nil && *h.Destructive }

// closed reports whether the server says that a tool has no results of strangers.
func (h toolHints) closed() bool { return h.OpenWorld != nil && !*h.OpenWorld }

// said are the annotations as the server wrote them.
func (h toolHints) said() string {
	var all []string
	if h.ReadOnly {
		all = append(all, "readOnlyHint: true")
	}
	if h.Destructive != nil {
		all = append(all, fmt.Sprintf("destructiveHint: %t", *h.Destructive))
	}
	if h.OpenWorld != nil {
		all = append(all, fmt.Sprintf("openWorldHint: %t", *h.OpenWorld))
	}
	return strings.Join(all, ", ")
}

// advice is what a person can add to a skill of agent who believes the server.
func (h toolHints) advice(agent string, read bool) string {
	var all []string
	if h.closed() {
		all = append(all, "if only you and the user can write its results, add yields: {trust: trusted, source: "+bare(agent)+"}")
	}
	if h.destroys() && !read {
		all = append(all, "to ask a person about each call, add approval: true")
	}
	return strings.Join(all, "; ")
}

// mcpToolsOf asks an MCP server at its endpoint for its tools, as a client would.
func mcpToolsOf(ctx context.Context, via http.RoundTripper, endpoint string) ([]mcpTool, error) {
	ctx, cancel := context.WithTimeout(ctx, mcpListTime)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "powerbox", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: via}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("the MCP server at %s: %w", endpoint, err)
	}
	defer func() { _ = session.Close() }() // all answers have arrived
	var tools []mcpTool
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("the tools of the MCP server at %s: %w", endpoint, err)
		}
		if len(tools) == mcpListed {
			return nil, fmt.Errorf("the MCP server at %s has more than %d tools", endpoint, mcpListed)
		}
		tools = append(tools, mcpTool{tool.Name, hintsOf(tool.Annotations)})
	}
	sorting.Sort(tools, func(a, b mcpTool) int { return strings.Compare(a.Name, b.Name) })
	return tools, nil
}

// readMCP asks an MCP server at its endpoint for its tools, and guesses.
func (d *draft) readMCP(ctx context.Context, via http.RoundTripper) error {
	tools, err := mcpToolsOf(ctx, via, d.mcp)
	if err != nil {
		return fmt.Errorf("%w\nwant the URL of its endpoint, such as http://127.0.0.1:9000/mcp. For an A2A agent: powerbox init --agent %s", err, d.mcp)
	}
	return d.guessTools(tools, "the MCP server at "+d.mcp)
}

// guessTools guesses which operation each tool is. A tool that calls itself one that only
// reads, and whose name says nothing else, is guessed to read. One that calls itself
// destructive writes, whatever its name. No annotation makes results trusted.
func (d *draft) guessTools(tools []mcpTool, which string) error {
	if len(tools) == 0 {
		return fmt.Errorf("%s has no tools, so there is nothing that could be granted", which)
	}
	if d.id == "" {
		d.id = "tools"
	}
	d.card = a2a.CardView{Name: which}
	hints := map[string]toolHints{}
	for _, t := range tools {
		d.card.Skills = append(d.card.Skills, t.Name)
		hints[t.Name] = t.Hints
	}
	d.guess()
	for n, s := range d.skills {
		h := hints[s.id]
		d.skills[n].hints, d.skills[n].read = h, (s.read || h.ReadOnly && !writes(s.id)) && !h.destroys()
	}
	return nil
}

// mcpServer holds an MCP server's tools against its configuration.
func (d *doctor) mcpServer(ctx context.Context, check string, via http.RoundTripper, a config.Agent) {
	if a.Upstream == noUpstream {
		d.ok(check, "its gateway starts it as a command, so its tools are not looked at here")
		return
	}
	tools, err := mcpToolsOf(ctx, via, a.Upstream)
	if err != nil && a.GatewayURL != "" {
		d.find(check, warning, "if its gateway starts it as a command (--mcp-exec), ignore this; otherwise start the server, or correct agents[].upstream", "it is not reached from here, and its gateway may reach it: %v", err)
		return
	}
	if err != nil {
		d.find(check, broken, "start the server, or correct agents[].upstream", "%v", err)
		return
	}
	card := a2a.CardView{Interfaces: []a2a.Interface{{URL: a.Upstream}}}
	for _, t := range tools {
		card.Skills = append(card.Skills, t.Name)
	}
	d.skills(check, a, card)
}
