package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// anotherAgent adds an agent to the configuration of behind, with a skill.
func (w *town) anotherAgent(line, offers, skills string) {
	w.t.Helper()
	w.rewrite("powerbox.yaml", "offers:\n", line+"offers:\n"+offers)
	w.rewrite("powerbox.yaml", "skills:\n", "skills:\n"+skills)
}

const messageOf = `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"%s"}]}}}`

// TestOPS_ReloadReplacesAgents: a running server takes agents more and fewer, and other settings
// of agents. Calls that are under way end under the settings that they began with; streams of an
// agent that is gone are ended with a reason.
func TestOPS_ReloadReplacesAgents(t *testing.T) {
	asGiven(t)
	one, two := newRawAgent(t), newRawAgent(t)
	for _, a := range []*rawAgent{one, two} {
		a.card = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.cardText("")) }
	}
	held, begun := make(chan struct{}), make(chan struct{})
	one.call = func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-held
		fmt.Fprintf(w, messageOf, "from the first")
	}
	two.says("application/json", fmt.Sprintf(messageOf, "from the second"))
	w := behind(t, one.stock, "observe", "")
	slow := make(chan answer, 1)
	go func() { slow <- w.post(w.agentURL("documents"), text("SendMessage", "hello"), nil) }()
	<-begun

	// Another URL and another mode, while a call is under way.
	w.rewrite("powerbox.yaml", one.url+`", mode: observe`, two.url+`", mode: prefer`)
	if told := w.run("config", "reload"); !strings.HasPrefix(told, "~ agents.documents.upstream\n~ agents.documents.mode: observe becomes prefer\nin force now: ") {
		t.Errorf("the reload prints\n%s", told)
	}
	if a := w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil); !strings.Contains(string(a.Raw), "from the second") || w.decided(a).Powerbox.Mode != "prefer/ambient" {
		t.Errorf("after the reload: %s, in mode %s", a.Raw, w.decided(a).Powerbox.Mode)
	}
	close(held)
	if a := <-slow; !strings.Contains(string(a.Raw), "from the first") || w.decided(a).Powerbox.Mode != "observe" {
		t.Errorf("the call under way: %s", a.Raw)
	}
	if status := string(w.operator(http.MethodGet, "/v1/agents", nil)); !strings.Contains(status, two.url) || strings.Contains(status, one.url) {
		t.Errorf("the operator sees %s", status)
	}

	// An agent more, with its operations, which is gone again. Its stream is ended.
	streaming := newRawAgent(t)
	streaming.card = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, streaming.cardText("")) }
	streaming.call = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"task\":{\"id\":\"t1\",\"contextId\":\"c1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	line := fmt.Sprintf("  - {id: extra, upstream: %q, mode: observe}\n", streaming.url)
	const skills = "  extra:\n    - {skill: search_documents, grant: find, operation: search, effect: read}\n"
	const offers = "  extra:\n    - {id: find, description: Find, operations: [search]}\n"
	w.anotherAgent(line, offers, skills)
	if told := w.run("config", "reload"); !strings.Contains(told, "+ agents.extra, in mode observe\n+ offers.extra: find\n+ skills.extra: search_documents\n") {
		t.Errorf("the reload prints\n%s", told)
	}
	r, err := http.Post(w.agentURL("extra"), "application/json", bytes.NewReader(text("SendStreamingMessage", "hello")))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(r.Body, first); err != nil || string(first) != "data: " {
		t.Fatalf("no stream begins: %q %v", first, err)
	}
	w.rewrite("powerbox.yaml", line, "")
	w.rewrite("powerbox.yaml", offers, "")
	w.rewrite("powerbox.yaml", skills, "")
	if told := w.run("config", "reload"); !strings.Contains(told, "- agents.extra\n- offers.extra: find\n- skills.extra: search_documents\n") {
		t.Errorf("the reload prints\n%s", told)
	}
	if rest, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(rest), "agent_removed") {
		t.Errorf("the stream of an agent that is gone ends with %q %v", rest, err)
	}
	if status := w.postStatus(w.agentURL("extra"), text("SendMessage", "hello")); status != http.StatusNotFound {
		t.Errorf("an agent that is gone answers %d", status)
	}
	allowed(t, w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil))
	if by, said := w.reloads(); len(by) != 3 || said[0].Changes[0] != "- agents.extra" {
		t.Errorf("on record: %v %+v", by, said)
	}
}

func (w *town) postStatus(url string, body []byte) int {
	w.t.Helper()
	r, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// TestOPS_ReloadEndsMCPSessions: an MCP server that a reload takes away has no session left: its
// stream is ended, and a call of the session gets 404, by which clients know that it is over.
func TestOPS_ReloadEndsMCPSessions(t *testing.T) {
	asGiven(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": here\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "session-1")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tools","version":"1"}}}`)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	one := newRawAgent(t)
	w := behind(t, one.stock, "observe", "")
	line := fmt.Sprintf("  - {id: tools, upstream: %q, protocol: mcp, mode: observe}\n", server.URL)
	w.anotherAgent(line, "", "")
	w.run("config", "reload")
	call := func(method, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, w.agentURL("tools"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+aliceToken)
		if method == http.MethodGet || !strings.Contains(body, "initialize") {
			r.Header.Set("Mcp-Session-Id", "session-1")
			r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
			r.Header.Set("Accept", "text/event-stream")
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Body.Close() })
		return a
	}
	if a := call(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`); a.Header.Get("Mcp-Session-Id") != "session-1" {
		raw, _ := io.ReadAll(a.Body)
		t.Fatalf("no session begins: %d %s", a.StatusCode, raw)
	}
	events := call(http.MethodGet, "")
	if events.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(events.Body)
		t.Fatalf("no stream begins: %d %s", events.StatusCode, raw)
	}
	w.rewrite("powerbox.yaml", line, "")
	w.run("config", "reload")
	if _, err := io.ReadAll(events.Body); err != nil {
		t.Errorf("the stream does not end well: %v", err)
	}
	if a := call(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); a.StatusCode != http.StatusNotFound {
		t.Errorf("a call of the session gets %d; want 404", a.StatusCode)
	}
}
