package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateless is an MCP server of revision 2026-07-28, on the SDK as its author would
// write it: a tool with an argument that clients say again in a header, one that asks
// its client, resources whose changes it tells of.
func stateless(t *testing.T) (*mcp.Server, string) {
	server := mcp.NewServer(&mcp.Implementation{Name: "documents", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	schema := json.RawMessage(`{"type":"object","properties":{"resourceHandle":{"type":"string","x-mcp-header":"Resource"}}}`)
	for _, name := range []string{"retrieve_document", "delete_document"} {
		server.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done " + string(r.Params.Arguments)}}}, nil
		})
	}
	server.AddTool(&mcp.Tool{Name: "search_documents", Description: "asks its client", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["password"].(*mcp.ElicitResult); ok {
			said, _ := answer.Content["said"].(string)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said + " after " + r.Params.RequestState}}}, nil
		}
		return &mcp.CallToolResult{RequestState: "sealed by the server", InputRequests: mcp.InputRequestMap{
			"password": &mcp.ElicitParams{Message: "tell me your password", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"said": map[string]any{"type": "string"}}}},
		}}, nil
	})
	for _, uri := range []string{"file:///q1", "file:///salaries"} {
		server.AddResource(&mcp.Resource{URI: uri, Name: uri}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text of " + r.Params.URI}}}, nil
		})
	}
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(s.Close)
	return server, s.URL
}

// stateless26 is one request of revision 2026-07-28, as it has it, and its answer.
func (c *caller) stateless26(capability, method, params, subject string, header ...string) answer {
	c.w.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	if params != "" {
		body += "," + params
	}
	header = append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method)
	if subject != "" {
		header = append(header, "Mcp-Name", subject)
	}
	return c.raw(capability, body+"}}", header...)
}

// TestGATE9_StatelessRequests has a client and a server of the SDK, unchanged, speak
// revision 2026-07-28 through the gateway: the gateway decides every request alone,
// cuts lists, and blocks requests of the server.
func TestGATE9_StatelessRequests(t *testing.T) {
	_, upstream := stateless(t)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, agent: "    mcp: {methods: {resources/read: documents:read/search}}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	var asked []string
	s := connect(t, w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, &asked)
	if got := s.InitializeResult().ProtocolVersion; got != "2026-07-28" || s.ID() != "" {
		t.Fatalf("GATE-9 revision %s, session %q", got, s.ID())
	}
	if got := toolNames(t, s); !slices.Equal(got, []string{"retrieve_document", "search_documents"}) {
		t.Errorf("GATE-9 listed %v", got)
	}
	handle := map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}
	if got := toolSaid(t, s, "retrieve_document", handle); !strings.HasPrefix(got, "done") {
		t.Error("GATE-9", got)
	}
	if got := toolSaid(t, s, "delete_document", handle); !strings.Contains(got, "is not granted") {
		t.Errorf("GATE-9 deleted: %s", got)
	}
	if got := toolSaid(t, s, "retrieve_document", map[string]any{"resourceHandle": "rh_guessed"}); strings.HasPrefix(got, "done") {
		t.Errorf("GATE-9 with a handle of nobody: %s", got)
	}
	if got := toolSaid(t, s, "search_documents", map[string]any{}); !strings.Contains(got, "not let through") || len(asked) > 0 {
		t.Errorf("GATE-9 the call that asks ended with %q, and the client was asked %v", got, asked)
	}
	if r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///q1"}); err != nil || r.Contents[0].Text != "text of file:///q1" {
		t.Errorf("GATE-9 %+v, %v", r, err)
	}
	if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"}); err == nil || !strings.Contains(err.Error(), "maps to no operation") {
		t.Errorf("GATE-9 a prompt that is not mapped: %v", err)
	}
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "file:///q1"}); err != nil {
		t.Error(err) // it is refused behind its back
	}

	a := alice.stateless26(c.ID, "tools/call", `"name":"search_documents","arguments":{}`, "search_documents")
	denied(t, a, "server_request_not_allowed")
	if r := w.decided(a); r.Action != "mcp.tools.call" || r.Decision != "ALLOW" {
		t.Errorf("GATE-9 %+v", r)
	}
	eventually(t, stepTime, func() string { return "GATE-9 the outcome of a call that was cut off" }, func() bool {
		return slices.ContainsFunc(w.records("agent=documents&limit=50"), func(r recorded) bool {
			return r.Powerbox.OutcomeOf == w.decided(a).ID && r.Status == "PARTIAL" && r.Outcome.Cause == "not_the_agent"
		})
	})
	denied(t, alice.stateless26(c.ID, "tools/call", `"name":"search_documents","arguments":{},"inputResponses":{"password":{"action":"accept","content":{"said":"secret"}}}`, "search_documents"), "server_request_not_allowed")
	denied(t, alice.stateless26(c.ID, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["file:///q1"]}`, ""), "method_unmapped")
	denied(t, alice.stateless26("", "tools/list", "", ""), "capability_required")
	denied(t, alice.stateless26("", "server/discover", "", ""), "capability_required")
	if a := alice.stateless26(c.ID, "tools/run", "", ""); a.Status != http.StatusNotFound || a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("GATE-9 a method of nobody: %d %s", a.Status, a.Raw)
	}
	if a := alice.stateless26(c.ID, "tools/list", "", "", "Mcp-Session-Id", "guessed"); a.Status != http.StatusNotFound {
		t.Errorf("ATK-18 in a session of nobody: %d %s", a.Status, a.Raw)
	}

	// Another user has nothing of it.
	bob := w.caller(bobToken)
	denied(t, bob.stateless26(c.ID, "tools/list", "", ""), "capability_unknown")

	if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": c.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	if got := toolSaid(t, s, "retrieve_document", handle); strings.HasPrefix(got, "done") {
		t.Errorf("GATE-9 under a revoked capability: %s", got)
	}
}

// TestGATE9_ServersThatAskByResults lists a request of the server: the client is asked,
// and its answer comes with a call that is decided on and recorded as the first one.
func TestGATE9_ServersThatAskByResults(t *testing.T) {
	_, upstream := stateless(t)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream, agent: "    mcp: {server_requests: [elicitation/create]}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	var asked []string
	s := connect(t, w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, &asked)
	if got := toolSaid(t, s, "search_documents", map[string]any{}); got != "secret after sealed by the server" || len(asked) != 1 {
		t.Errorf("GATE-9 %q, asked %v", got, asked)
	}
	calls := 0
	eventually(t, stepTime, func() string { return "GATE-9 the two calls are not on record" }, func() bool {
		calls = 0
		for _, r := range w.records("agent=documents&limit=50") {
			if r.Action == "mcp.tools.call" && r.Decision == "ALLOW" && r.Powerbox.OutcomeOf == "" {
				calls++
			}
		}
		return calls >= 2
	})
	if calls != 2 {
		t.Errorf("GATE-9 %d calls on record; want two", calls)
	}
	if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": c.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	a := alice.stateless26(c.ID, "tools/call", `"name":"search_documents","arguments":{},"requestState":"sealed by the server","inputResponses":{"password":{"action":"accept","content":{"said":"secret"}}}`, "search_documents")
	denied(t, a, "revoked")
}

// TestGATE9_WhoMayKeepResults has the server say that its results are for everybody.
func TestGATE9_WhoMayKeepResults(t *testing.T) {
	result := ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(result, "400 ") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0", "id":1,"result":`+strings.TrimPrefix(result, "400 ")+`}`)
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL, agent: "    mcp: {methods: {resources/read: documents:read/search}, server_requests: [elicitation/create]}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	const asks = `"inputRequests":{"a":{"method":"sampling/createMessage"},"b":{"method":"elicitation/create"}}`
	for name, k := range map[string]struct{ method, subject, result, want string }{
		"a list":                 {"tools/list", "", `{"resultType":"complete","tools":[{"name":"search_documents"},{"name":"delete_document"}], "ttlMs":9, "cacheScope" : "public"}`, `{"resultType":"complete","tools":[{"name":"search_documents"}], "ttlMs":9, "cacheScope" : "private"}`},
		"a list that is whole":   {"tools/list", "", `{"tools":[],"cacheScope":"public","ttlMs":9}`, `{"tools":[],"cacheScope":"private","ttlMs":9}`},
		"a list of nobody":       {"tools/list", "", `{"ttlMs":9,"tools":[]}`, `{"cacheScope":"private","ttlMs":9,"tools":[]}`},
		"a resource":             {"resources/read", "file:///a", `{"contents":[],"ttlMs":9,"cacheScope":"public"}`, `{"contents":[],"ttlMs":9,"cacheScope":"private"}`},
		"a discovery":            {"server/discover", "", `{"supportedVersions":["2026-07-28"],"ttlMs":9,"cacheScope":"public"}`, `{"supportedVersions":["2026-07-28"],"ttlMs":9,"cacheScope":"private"}`},
		"what is private":        {"resources/read", "file:///a", `{ "contents":[],"ttlMs":9,"cacheScope":"private"}`, `{ "contents":[],"ttlMs":9,"cacheScope":"private"}`},
		"a result of a tool":     {"tools/call", "search_documents", `{"content":[],"n":9007199254740993}`, `{"content":[],"n":9007199254740993}`},
		"in other letters":       {"tools/list", "", `{"tools":[],"CacheScope":"public","ttlMs":9}`, ""},
		"a list that asks":       {"tools/list", "", `{"resultType":"input_required","requestState":"s"}`, ""},
		"a tool that waits":      {"tools/call", "search_documents", `{"resultType":"input_required","requestState":"s"}`, `{"resultType":"input_required","requestState":"s"}`},
		"a task":                 {"tools/call", "search_documents", `{"resultType":"task","taskId":"t"}`, ""},
		"half of it is listed":   {"tools/call", "search_documents", `{"resultType":"input_required",` + asks + `}`, ""},
		"it asks and completes":  {"tools/call", "search_documents", `{"content":[],` + asks + `}`, ""},
		"and says that it fails": {"tools/call", "search_documents", `400 {"resultType":"input_required",` + asks + `}`, ""},
		"it asks as it may":      {"tools/call", "search_documents", `{"resultType":"input_required","inputRequests":{"b":{"method":"elicitation/create"}}}`, `{"resultType":"input_required","inputRequests":{"b":{"method":"elicitation/create"}}}`},
		"another name of it":     {"tools/call", "search_documents", `{"inputRequests":{"b":{"method":"elicitation/create","Method":"sampling/createMessage"}}}`, ""},
	} {
		result = k.result
		params := ""
		switch k.method {
		case "resources/read":
			params = `"uri":"` + k.subject + `"`
		case "tools/call":
			params = `"name":"` + k.subject + `","arguments":{}`
		}
		a := alice.stateless26(c.ID, k.method, params, k.subject)
		if got := string(a.Result); got != k.want {
			t.Errorf("GATE-9 %s: %s\ncame as %d %s", name, k.result, a.Status, a.Raw)
		}
		if k.want == "" && a.Error == nil {
			t.Errorf("GATE-9 %s: %s; want an error", name, a.Raw)
		}
	}
}

// listening opens the stream of changes, and returns it and how it is read: event by
// event, "" at its end.
func listening(t *testing.T, w *town, via http.RoundTripper, wanted string) (events *http.Response, next func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.agentURL("documents"), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":`+wanted+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(name, value)
	}
	events, err = via.RoundTrip(r)
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatal(events, err)
	}
	t.Cleanup(func() { _ = events.Body.Close() })
	return events, eventsOf(events.Body)
}

// eventsOf returns the data of the events of a stream, one at a time, "" at its end.
func eventsOf(from io.Reader) func() string {
	dec := bufio.NewReader(from)
	return func() string {
		for {
			line, err := dec.ReadString('\n')
			if data, ok := strings.CutPrefix(line, "data:"); ok {
				return strings.TrimSpace(data)
			}
			if err != nil {
				return ""
			}
		}
	}
}

// TestATK24_ChangesOfResources has a client told of changes of the resources that it
// may know of, for as long as its capability holds.
func TestATK24_ChangesOfResources(t *testing.T) {
	server, upstream := stateless(t)
	w := start(t, options{
		on: wire{overMCP, "2025-11-25"}, upstream: upstream, agent: "    mcp: {methods: {resources/subscribe: documents:read/search}}\n",
		search: `, arguments: {uri: {constraint_type: one_of, values: ["file:///q1", "file:///q2"]}}`,
	})
	alice := w.caller(aliceToken)
	c := alice.reports()
	denied(t, alice.stateless26(c.ID, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["file:///q1","file:///salaries"]}`, ""), "argument_constraint")
	a := alice.stateless26(c.ID, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["file:///salaries"]}`, "")
	denied(t, a, "argument_constraint")
	if r := w.decided(a); r.Action != "mcp.subscriptions.listen" || r.Intent.Operation != opSearch {
		t.Errorf("GATE-9 %+v", r)
	}
	_, next := listening(t, w, presenting{alice, func() string { return c.ID }}, `{"toolsListChanged":true,"resourceSubscriptions":["file:///q1","file:///q2"]}`)
	if got := next(); !strings.Contains(got, "notifications/subscriptions/acknowledged") {
		t.Fatalf("GATE-9 %s", got)
	}
	if err := server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "file:///q1"}); err != nil {
		t.Fatal(err)
	}
	if got := next(); !strings.Contains(got, "file:///q1") || !strings.Contains(got, "notifications/resources/updated") {
		t.Errorf("GATE-9 %s; want the change", got)
	}
	other := alice.reports()
	_, frozen := listening(t, w, presenting{alice, func() string { return other.ID }}, `{"resourceSubscriptions":["file:///q1"]}`)
	if got := frozen(); !strings.Contains(got, "notifications/subscriptions/acknowledged") {
		t.Fatalf("GATE-9 %s", got)
	}
	if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": c.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	if got := next(); !strings.Contains(got, `"code":"revoked"`) {
		t.Errorf("ATK-24 %s; want an end that says revoked", got)
	}
	if got := next(); got != "" {
		t.Errorf("ATK-24 behind the end: %s", got)
	}
	if err := server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "file:///q1"}); err != nil {
		t.Fatal(err)
	}
	if got := frozen(); !strings.Contains(got, "notifications/resources/updated") {
		t.Errorf("ATK-24 under another capability: %s", got)
	}
	w.run("freeze", "agent:documents", "--reason", "odd calls")
	if got := frozen(); !strings.Contains(got, `"code":"frozen"`) {
		t.Errorf("ATK-24 %s; want an end that says frozen", got)
	}
}

// TestATK34_ChangesOfOthers has a server that tells of more than was asked for, and
// asks its client on the stream.
func TestATK34_ChangesOfOthers(t *testing.T) {
	updated := func(uri string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":` + uri + `}}` + "\n\n"
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, updated(`"file:///salaries"`)+updated(`7`)+updated(`"file:///q2"`)+
			`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n"+
			`data: {"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"message":"STEAL"}}`+"\n\n"+updated(`"file:///q1"`))
	}))
	defer upstream.Close()
	w := start(t, options{
		on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL, agent: "    mcp: {methods: {resources/subscribe: documents:read/search}, server_requests: [elicitation/create]}\n",
		search: `, arguments: {uri: {constraint_type: one_of, values: ["file:///q1", "file:///q2"]}}`,
	})
	alice := w.caller(aliceToken)
	c := alice.reports()
	_, next := listening(t, w, presenting{alice, func() string { return c.ID }}, `{"resourceSubscriptions":["file:///q1"]}`)
	var got []string
	for event := next(); event != ""; event = next() {
		got = append(got, event)
	}
	if len(got) != 3 || !strings.Contains(got[0], "file:///q2") || !strings.Contains(got[1], "list_changed") || !strings.Contains(got[2], `"code":"outcome_unknown"`) {
		t.Errorf("ATK-34 %q; want the change of q2, that of the list, and the end, with an error, where the server asks", got)
	}
}
