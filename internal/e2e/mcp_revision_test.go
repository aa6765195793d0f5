package e2e

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestATK32_HeadersOfMCP has clients say again in headers what their message says, as
// revision 2026-07-28 has it: whoever stands before the server may go by the headers, so
// that one which says something else is refused, and so is a revision that is read in
// another way.
func TestATK32_HeadersOfMCP(t *testing.T) {
	var mu sync.Mutex
	var got []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL, agent: "    mcp: {methods: {resources/read: documents:read/search}}\n"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	call := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}` + meta + `}}`
	}
	said := func(revision string) string {
		return `,"_meta":{"io.modelcontextprotocol/protocolVersion":` + revision + `,"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	sentinel := func(s string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?=" }
	for name, c := range map[string]struct {
		body    string
		headers []string
		refused string // what the refusal says; "" for none
	}{
		"nothing":                  {call(""), nil, ""},
		"a revision that is read":  {call(said(`"2025-11-25"`)), []string{"Mcp-Protocol-Version", "2025-11-25"}, ""},
		"the same again":           {call(""), []string{"Mcp-Method", "tools/call", "Mcp-Name", "search_documents"}, ""},
		"the same in Base64":       {call(""), []string{"Mcp-Name", sentinel("search_documents")}, ""},
		"the URI again":            {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}`, []string{"Mcp-Method", "resources/read", "Mcp-Name", "file:///a"}, ""},
		"a newer revision":         {call(""), []string{"Mcp-Protocol-Version", "2026-07-28"}, "begin with initialize, in revision 2025-11-25"},
		"a newer revision within":  {call(said(`"2026-07-28"`)), nil, "begin with initialize, in revision 2025-11-25"},
		"a newer revision in full": {call(said(`"2026-07-28"`)), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "search_documents"}, "begin with initialize"},
		"another revision within":  {call(said(`"2025-06-18"`)), []string{"Mcp-Protocol-Version", "2025-11-25"}, "another revision"},
		"a revision of no text":    {call(said(`7`)), nil, "no revision of MCP"},
		"its discovery":            {`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + said(`"2026-07-28"`)[1:] + `}}`, nil, "begin with initialize"},
		"another tool":             {call(""), []string{"Mcp-Method", "tools/call", "Mcp-Name", "delete_document"}, "something else"},
		"another tool in Base64":   {call(""), []string{"Mcp-Name", sentinel("delete_document")}, "something else"},
		"a tool in no Base64":      {call(""), []string{"Mcp-Name", "=?base64?search_documents?="}, "something else"},
		"another tool in disguise": {call(""), []string{"mCP_name", "delete_document"}, "something else"},
		"another method":           {call(""), []string{"Mcp-Method", "resources/read"}, "something else"},
		"another URI":              {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}`, []string{"Mcp-Name", "file:///b"}, "something else"},
		"a tool of no call":        {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{"Mcp-Name", "search_documents"}, "something else"},
		"an argument":              {call(""), []string{"Mcp-Param-Region", "elsewhere"}, "something else"},
	} {
		mu.Lock()
		got = nil
		mu.Unlock()
		a := alice.raw(held.ID, c.body, c.headers...)
		mu.Lock()
		reached := len(got)
		mu.Unlock()
		switch {
		case c.refused == "":
			if a.Error != nil || reached != 1 {
				t.Errorf("ATK-32 %s: %d %s; %d calls reached the server", name, a.Status, a.Raw, reached)
			}
		case a.Status != http.StatusBadRequest || a.Error == nil || !strings.Contains(a.Error.Message, c.refused) || reached > 0:
			t.Errorf("ATK-32 %s: %d %s; %d calls reached the server; want 400 and %q", name, a.Status, a.Raw, reached, c.refused)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, w.agentURL("documents"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		answered, err := presenting{alice, func() string { return held.ID }}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answered.Body.Close()
		if answered.StatusCode != http.StatusBadRequest {
			t.Errorf("ATK-32 %s in a revision that has none: %d", method, answered.StatusCode)
		}
	}
}

// TestGATE9_ResultsThatAsk has the server answer with requests to the client, as revision
// 2026-07-28 has it, to clients that have not asked for that revision: they do not get
// through, in one piece and as an event.
func TestGATE9_ResultsThatAsk(t *testing.T) {
	result, kind := "", ""
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		text := `{"jsonrpc":"2.0","id":1,"result":` + result + `}`
		if kind == "text/event-stream" {
			text = "data: " + text + "\n\n"
		}
		_, _ = io.WriteString(w, text)
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL, agent: "    mcp: {server_requests: [elicitation/create]}\n"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	asks := `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":["STEAL"]}}}}`
	for _, kind = range []string{"application/json", "text/event-stream"} {
		for name, c := range map[string]struct {
			result string
			passes bool
		}{
			"a result":              {`{"content":[{"type":"text","text":"STEAL"}]}`, true},
			"a result that says so": {`{"resultType":"complete","content":[{"type":"text","text":"STEAL"}]}`, true},
			"a request":             {asks, false},
			"no kind":               {strings.Replace(asks, `"input_required"`, `null`, 1), false},
		} {
			result = c.result
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.agentURL("documents"), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}}}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			answered, err := presenting{alice, func() string { return held.ID }}.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := io.ReadAll(answered.Body) // a stream that is cut off ends without an end
			_ = answered.Body.Close()
			if passed := strings.Contains(string(raw), "STEAL"); passed != c.passes {
				t.Errorf("GATE-9 %s as %s: %d %s", name, kind, answered.StatusCode, raw)
			}
		}
	}
}
