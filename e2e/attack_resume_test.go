package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// twofold is an MCP server that answers calls of tools in streams of its choice.
type twofold struct {
	mu    sync.Mutex
	call  func(w http.ResponseWriter, id string)          // answers a call of a tool
	again func(w http.ResponseWriter, last string)        // what comes behind an event
	back  func(w http.ResponseWriter, id json.RawMessage) // answers those
	said  chan string                                     // events of the stream that no request began
}

func (s *twofold) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.stream(w, r)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(raw, &m)
	s.mu.Lock()
	call, back := s.call, s.back
	s.mu.Unlock()
	switch {
	case m.Method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "session-1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
	case m.Method == "tools/call":
		call(w, string(m.ID))
	case m.Method == "" && back != nil:
		back(w, m.ID)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *twofold) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		s.mu.Lock()
		again := s.again
		s.mu.Unlock()
		again(w, last)
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-s.said:
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
			if strings.HasPrefix(event, "id: ") {
				return
			}
		}
	}
}

func (s *twofold) set(call func(http.ResponseWriter, string), again func(http.ResponseWriter, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call, s.again = call, again
}

const (
	toolSays  = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`
	toolFails = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"FAILED"}}`
)

// inStream answers with events.
func inStream(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, events)
}

// TestATK148_ResponsesComeInTheStreamOfTheirRequest has an MCP server answer a call in the
// stream of events that no request began, and in the rest of another request's stream. A stock
// client takes the first response with the id of its call, wherever it comes. It must read
// the one on record.
func TestATK148_ResponsesComeInTheStreamOfTheirRequest(t *testing.T) {
	s := &twofold{said: make(chan string)}
	upstream := httptest.NewServer(s)
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL})
	alice := w.caller(aliceToken)
	c := alice.reports()
	var asked []string
	client := connectIn(t, "2025-11-25", w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, &asked)
	read := func() string {
		result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_documents", Arguments: map[string]any{}})
		if err != nil {
			return err.Error()
		}
		return result.Content[0].(*mcp.TextContent).Text
	}
	elsewhere := func(event string) {
		select {
		case s.said <- event:
		case <-time.After(patience):
			t.Error("the client has no stream of events")
		}
	}

	s.set(func(w http.ResponseWriter, id string) {
		elsewhere(fmt.Sprintf("data: "+toolSays+"\n\n", id, "STOLEN"))
		elsewhere("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n") // the first is through
		<-time.After(200 * time.Millisecond)
		inStream(w, fmt.Sprintf("data: "+toolFails+"\n\n", id))
	}, nil)
	if got := read(); !strings.Contains(got, "FAILED") {
		t.Errorf("ATK-148 in the stream that no request began: the client read %q", got)
	}

	// The client resumes a stream, with the id that the server gave the event.
	s.set(func(w http.ResponseWriter, id string) { inStream(w, "id: of-"+id+"\nretry: 1\ndata:\n\n") }, func(w http.ResponseWriter, last string) {
		_, _ = fmt.Fprintf(w, "id: 2\ndata: "+toolSays+"\n\n", strings.TrimPrefix(last, "of-"), "RESUMED")
	})
	if got := read(); got != "RESUMED" {
		t.Errorf("ATK-148 the rest of a stream: the client read %q", got)
	}

	// No response comes behind an event of the stream that no request began.
	over := make(chan string)
	s.set(func(w http.ResponseWriter, id string) {
		elsewhere("id: none\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		over <- id
		<-time.After(200 * time.Millisecond)
		inStream(w, fmt.Sprintf("data: "+toolFails+"\n\n", id))
	}, func(w http.ResponseWriter, last string) {
		_, _ = fmt.Fprintf(w, "data: "+toolSays+"\n\n", <-over, "STOLEN "+last)
	})
	if got := read(); !strings.Contains(got, "FAILED") {
		t.Errorf("ATK-148 behind an event of that stream: the client read %q", got)
	}
}

// TestATK148_IDsOfOtherRequests is about ids that collide: of a request in the rest of another
// one's stream, and of a response of the client to a request of the server.
func TestATK148_IDsOfOtherRequests(t *testing.T) {
	s := &twofold{said: make(chan string)}
	upstream := httptest.NewServer(s)
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL, agent: "    mcp: {server_requests: [elicitation/create]}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	revision := []string{"Mcp-Protocol-Version", "2025-11-25"}
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search_documents","arguments":{}}}`
	eventID := func(event string) string {
		s.set(func(w http.ResponseWriter, _ string) { inStream(w, event) }, nil)
		a := alice.raw(c.ID, call, revision...)
		id, _, _ := strings.Cut(strings.TrimPrefix(string(a.Raw), "id: "), "\n")
		return id
	}
	id := eventID("id: e\ndata:\n\n")
	resume := func(id, event string) string {
		s.set(nil, func(w http.ResponseWriter, last string) {
			_, _ = io.WriteString(w, strings.ReplaceAll(event, "LAST", last))
		})
		h := http.Header{}
		h.Set("Mcp-Protocol-Version", "2025-11-25")
		h.Set("Accept", "text/event-stream")
		h.Set("Last-Event-Id", id)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.agentURL("documents"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h
		res, err := (&http.Client{Transport: presenting{alice, func() string { return c.ID }}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body) // it may be cut
		return string(raw)
	}
	good := fmt.Sprintf("data: "+toolSays+"\n\n", "7", "GOOD LAST")
	if got := resume(id, good); id == "e" || !strings.Contains(got, "GOOD e") {
		t.Errorf("ATK-148 the rest behind %q is %q", id, got)
	}
	for name, got := range map[string]string{
		"of another id":       resume(id, fmt.Sprintf("data: "+toolSays+"\n\n", "8", "STOLEN")),
		"behind another id":   resume("e", fmt.Sprintf("data: "+toolSays+"\n\n", "7", "STOLEN")),
		"behind a changed id": resume(id[:len(id)-2]+"AA", fmt.Sprintf("data: "+toolSays+"\n\n", "7", "STOLEN")),
	} {
		if strings.Contains(got, "STOLEN") || strings.Contains(got, "xxx") {
			t.Errorf("ATK-148 %s: %q", name, got)
		}
	}
	s.set(func(w http.ResponseWriter, id string) {
		inStream(w, "id: "+strings.Repeat("x", 2<<10)+"\n"+fmt.Sprintf("data: "+toolSays+"\n\n", id, "STOLEN"))
	}, nil)
	if a := alice.raw(c.ID, call, revision...); strings.Contains(string(a.Raw), "STOLEN") {
		t.Errorf("ATK-148 an event with a long id: %.300s", a.Raw)
	}
	// The server chose the id of the request that the client answers.
	s.mu.Lock()
	s.back = func(w http.ResponseWriter, id json.RawMessage) {
		inStream(w, fmt.Sprintf("data: "+toolSays+"\n\n", id, "STOLEN"))
	}
	s.mu.Unlock()
	if a := alice.raw(c.ID, `{"jsonrpc":"2.0","id":7,"result":{"action":"decline"}}`, revision...); strings.Contains(string(a.Raw), "STOLEN") {
		t.Errorf("ATK-148 in the answer to a response: %s", a.Raw)
	}
}
