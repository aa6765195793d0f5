package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// overTools also runs a test with an MCP server instead of the documents
// agent, whose tools have the names of the skills.
func overTools(t *testing.T, test func(t *testing.T, on wire)) {
	everywhere(t, test)
	t.Run(overMCP, func(t *testing.T) { test(t, wire{overMCP, "2025-11-25"}) })
}

// tools is an MCP server as its author would build it, without sessions.
func tools(names []string) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "documents", Version: "1"}, nil)
	for _, name := range names {
		server.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "echo: " + string(r.Params.Arguments)}}}, nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
}

// toolCall says the invocation of a skill as the call of a tool. What else A2A has,
// MCP has not.
func (w *town) toolCall(plain request, target, method string, params map[string]any) (request, bool) {
	if target != w.agentURL("documents") {
		return plain, false
	}
	skill, named := params["skill"].(string)
	arguments, reference := params["arguments"], params["capabilityId"]
	if message, ok := params["message"].(map[string]any); ok && strings.HasPrefix(method, "Send") {
		parts, _ := message["parts"].([]any)
		for _, p := range parts {
			part, _ := p.(map[string]any)
			if data, ok := part["data"].(map[string]any); ok && len(parts) == 1 {
				skill, named = data["skill"].(string)
				arguments = data["arguments"]
			}
		}
		metadata, _ := params["metadata"].(map[string]any)
		for _, of := range metadata {
			if ours, ok := of.(map[string]any); ok && ours["capabilityId"] != nil {
				reference = ours["capabilityId"]
			}
		}
	} else if method != "a2a/skill/invoke" {
		return plain, false
	}
	if !named {
		return plain, false
	}
	plain.reference, _ = reference.(string)
	plain.body = rpc("tools/call", map[string]any{"name": skill, "arguments": arguments})
	return plain, true
}
