// Command stockmcp is a small MCP server as its author would write it on the go-sdk: it
// keeps notes, can search, read and delete them, and knows nothing of Powerbox. It is what
// docs/how-to/mcp.md protects.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notes answers every call with what it was asked to do.
func notes(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("did %s with %s", r.Params.Name, r.Params.Arguments)}}}, nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9101", "address to listen on")
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	for _, tool := range []struct{ name, does, argument string }{
		{"search_notes", "Finds notes by a word", "word"}, {"read_note", "Reads one note", "title"}, {"delete_note", "Deletes one note", "title"},
	} {
		schema := json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}}}`, tool.argument))
		server.AddTool(&mcp.Tool{Name: tool.name, Description: tool.does, InputSchema: schema}, notes)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ready") })
	s := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := s.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "stockmcp:", err)
		os.Exit(1)
	}
}
