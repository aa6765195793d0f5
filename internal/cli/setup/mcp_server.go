package setup

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/sorting"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/internal/config"
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
	Name     string
	ReadOnly bool // by the server's own word, which binds it to nothing
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
		tools = append(tools, mcpTool{tool.Name, tool.Annotations != nil && tool.Annotations.ReadOnlyHint})
	}
	sorting.Sort(tools, func(a, b mcpTool) int { return strings.Compare(a.Name, b.Name) })
	return tools, nil
}

// readMCP asks an MCP server at its endpoint for its tools, and guesses.
func (d *draft) readMCP(ctx context.Context, via http.RoundTripper) error {
	tools, err := mcpToolsOf(ctx, via, d.mcp)
	if err != nil {
		return fmt.Errorf("%w\nwant the URL of its endpoint, such as http://127.0.0.1:9000/mcp", err)
	}
	return d.guessTools(tools, "the MCP server at "+d.mcp)
}

// guessTools guesses which operation each tool is. A tool that calls itself one that only
// reads, and whose name says nothing else, is taken to read.
func (d *draft) guessTools(tools []mcpTool, which string) error {
	if len(tools) == 0 {
		return fmt.Errorf("%s has no tools, so there is nothing that could be granted", which)
	}
	if d.id == "" {
		d.id = "tools"
	}
	d.card = a2a.CardView{Name: which}
	only := map[string]bool{}
	for _, t := range tools {
		d.card.Skills = append(d.card.Skills, t.Name)
		only[t.Name] = t.ReadOnly
	}
	d.guess()
	for n, s := range d.skills {
		d.skills[n].read = s.read || only[s.id] && !writes(s.id)
	}
	return nil
}

// mcpServer holds an MCP server's tools against its configuration.
func (d *doctor) mcpServer(ctx context.Context, check string, via http.RoundTripper, a config.Agent) {
	tools, err := mcpToolsOf(ctx, via, a.Upstream)
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
