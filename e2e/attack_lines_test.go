package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestATK125_LinesWithoutAColon has agents write fields without a colon. The kit for JavaScript
// passes over them, so that an event keeps the type error of an earlier line. The kit of MCP for
// Go fails on them. Readers that follow WHATWG take them for fields without a value.
func TestATK125_LinesWithoutAColon(t *testing.T) {
	t.Run("JavaScript SDK", func(t *testing.T) {
		w := start(t, options{on: wire{overREST, "1.0"}, agent: "    enforces: context\n", says: func(card *a2a.AgentCard) {
			card.SupportedInterfaces = slices.DeleteFunc(slices.Clone(card.SupportedInterfaces), func(i *a2a.AgentInterface) bool {
				return i.ProtocolBinding != a2a.TransportProtocolHTTPJSON
			})
		}})
		a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile())
		w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: error\nevent\ndata: "+readEvent+"\n\n")
		})
		printed := strings.Join(javascript(t, a.where.Agents["documents"], "", []string{"stream", "hello"}), "\n")
		became := ""
		for _, r := range w.records("limit=10") {
			became += r.Status + " "
		}
		if !strings.Contains(printed, "READ") || strings.Contains(printed, `{"error"`) {
			t.Errorf("ATK-125 the kit reads %s, and the records say %s\n%s", printed, became, a.out)
		}
	})
	t.Run("MCP SDK for Go", func(t *testing.T) {
		s := newResuming(t)
		w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: s.url})
		alice := w.caller(aliceToken)
		c := alice.reports()
		client := connectIn(t, "2025-11-25", w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, new([]string))
		for _, said := range []string{"x\ndata: %s\n\n", "event\nid\ndata: %s\n\n", "data\ndata: %s\n\n"} {
			s.first.Store(said)
			if got := toolSaid(t, client, "search_documents", map[string]any{}); got != "READ" {
				t.Errorf("ATK-125 of %q the kit reads %s", said, got)
			}
		}
	})
}

// resuming is an MCP server that begins the answer to a call of a tool with events of a test's
// choice. Its client gets the rest when it comes again.
type resuming struct {
	url   string
	first atomic.Value // a format that may take the answer
	rest  atomic.Value // of the last call
}

const toolRead = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"READ"}]}}`

func newResuming(t *testing.T) *resuming {
	s := &resuming{}
	s.url = httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		said := fmt.Sprintf(toolRead, m.ID)
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case m.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "session-1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
			return
		case r.Method == http.MethodPost && m.Method != "tools/call":
			w.WriteHeader(http.StatusAccepted)
			return
		case r.Method == http.MethodGet:
			said = "id: 2\ndata: " + s.rest.Load().(string) + "\n\n"
		default:
			s.rest.Store(said)
			if format := s.first.Load().(string); strings.Contains(format, "%s") {
				said = fmt.Sprintf(format, said)
			} else {
				said = format
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, said)
	})
	return s
}

// TestATK157_AServerDoesNotHaveItsClientsWait has an MCP server end the stream of a call, and tell
// its client to come again after years, or with an id that no header takes.
func TestATK157_AServerDoesNotHaveItsClientsWait(t *testing.T) {
	s := newResuming(t)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: s.url})
	alice := w.caller(aliceToken)
	c := alice.reports()
	client := connectIn(t, "2025-11-25", w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, new([]string))
	for _, retry := range []string{"100", "4000000000", "60001", "+60001", "9223372036854775807"} {
		s.first.Store("id: 1\nretry: " + retry + "\ndata:\n\n")
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		_, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "search_documents", Arguments: map[string]any{}})
		cancel()
		if err != nil {
			t.Fatalf("ATK-157 the client is told to wait for %s ms: %v", retry, err)
		}
	}
	s.first.Store("id: " + strings.Repeat("x", 2000) + "\ndata: %s\n\n")
	a := alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}}}`, "Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "session-1")
	if got := w.outcome(a); got != "PARTIAL" || strings.Contains(string(a.Raw), "READ") {
		t.Errorf("ATK-157 an event with a long id is %s: %s", got, a.Raw)
	}
}
