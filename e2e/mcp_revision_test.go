package e2e

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestATK32_HeadersOfMCP has clients say again in headers what their message says, which
// revision 2026-07-28 wants of them: anyone who stands before the server may go by the
// headers, so that one which says something else is refused, one that is missing where
// it must be there, and a revision that is not read.
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
	read := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"` + meta + `}}`
	}
	const version = "Mcp-Protocol-Version"
	in26 := said(`"2026-07-28"`)
	of := func(method string) []string { return []string{version, "2026-07-28", "Mcp-Method", method} }
	full, listening := append(of("tools/call"), "Mcp-Name", "search_documents")[:6:6], of("subscriptions/listen")[:4:4]
	in := func(method string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + in26[1:] + `}}`
	}
	with := func(arguments string) string { return strings.Replace(call(in26), `{}`, arguments, 1) }
	listen := func(what string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":` + what + in26 + `}}`
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
		refused string // what the refusal says; "" for none
		code    int
	}{
		"nothing":                  {call(""), nil, "", 0},
		"a revision that is read":  {call(said(`"2025-11-25"`)), []string{version, "2025-11-25"}, "", 0},
		"the same again":           {call(""), []string{"Mcp-Method", "tools/call", "Mcp-Name", "search_documents"}, "", 0},
		"the same in Base64":       {call(""), []string{"Mcp-Name", sentinel("search_documents")}, "", 0},
		"the URI again":            {read(""), []string{"Mcp-Method", "resources/read", "Mcp-Name", "file:///a"}, "", 0},
		"another revision within":  {call(said(`"2025-06-18"`)), []string{version, "2025-11-25"}, "another revision", -32600},
		"a revision of no text":    {call(said(`7`)), nil, "no revision of MCP", -32600},
		"a revision of nobody":     {call(said(`"2031-01-01"`)), []string{version, "2031-01-01"}, "send 2026-07-28, or begin with initialize", -32022},
		"one of nobody outside":    {call(""), []string{version, "2031-01-01"}, "is not read here", -32022},
		"another tool":             {call(""), []string{"Mcp-Method", "tools/call", "Mcp-Name", "delete_document"}, "something else", -32600},
		"another tool in Base64":   {call(""), []string{"Mcp-Name", sentinel("delete_document")}, "something else", -32600},
		"a tool in no Base64":      {call(""), []string{"Mcp-Name", "=?base64?search_documents?="}, "something else", -32600},
		"another tool in disguise": {call(""), []string{"mCP_name", "delete_document"}, "something else", -32600},
		"another method":           {call(""), []string{"Mcp-Method", "resources/read"}, "something else", -32600},
		"another URI":              {read(""), []string{"Mcp-Name", "file:///b"}, "something else", -32600},
		"a tool of no call":        {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{"Mcp-Name", "search_documents"}, "something else", -32600},
		"an argument":              {call(""), []string{"Mcp-Param-Region", "elsewhere"}, "something else", -32600},

		"2026: in full":                      {call(in26), full, "", 0},
		"2026: in Base64":                    {call(in26), append(full[:4:4], "Mcp-Name", sentinel("search_documents")), "", 0},
		"2026: the URI":                      {read(in26), []string{version, "2026-07-28", "Mcp-Method", "resources/read", "Mcp-Name", "file:///a"}, "", 0},
		"2026: an argument":                  {with(`{"region":"eu"}`), append(full, "Mcp-Param-Region", "eu"), "", 0},
		"2026: an argument in Base64":        {with(`{"region":"Zürich"}`), append(full, "Mcp-Param-Region", sentinel("Zürich")), "", 0},
		"2026: arguments further in":         {with(`{"at":{"zone":7,"dry":true}}`), append(full, "Mcp-Param-Zone", "7.0", "Mcp-Param-Check", "true"), "", 0},
		"2026: without headers":              {call(in26), nil, "only one of the two", -32020},
		"2026: outside alone":                {call(""), full, "only one of the two", -32020},
		"2026: an older one outside":         {call(in26), append([]string{version, "2025-11-25"}, full[2:]...), "another revision", -32020},
		"2026: an older one within":          {call(said(`"2025-11-25"`)), full, "another revision", -32020},
		"2026: no method":                    {call(in26), append(full[:2:2], full[4:]...), "missing", -32020},
		"2026: no name":                      {call(in26), full[:4], "missing", -32020},
		"2026: another tool":                 {call(in26), append(full[:4:4], "Mcp-Name", "delete_document"), "something else", -32020},
		"2026: another method":               {call(in26), append(full[:2:2], "Mcp-Method", "tools/list", "Mcp-Name", "search_documents"), "something else", -32020},
		"2026: another tool too":             {call(in26), append(full, "mcp_name", "delete_document"), "something else", -32020},
		"2026: another argument":             {with(`{"region":"eu"}`), append(full, "Mcp-Param-Region", "us"), "something else", -32020},
		"2026: the value of another":         {with(`{"region":"eu","query":"us"}`), append(full, "Mcp-Param-Region", "us"), "something else", -32020},
		"2026: an argument of two values":    {with(`{"a":"x","b":"y"}`), append(full, "Mcp-Param-Zone", "x", "mcp_param_zone", "y"), "something else", -32020},
		"2026: an argument of none":          {call(in26), append(full, "Mcp-Param-Region", "eu"), "something else", -32020},
		"2026: a name of no subject":         {listen(`{}`), append(listening, "Mcp-Name", "x"), "something else", -32020},
		"2026: changes of lists":             {listen(`{"toolsListChanged":true}`), listening, "", 0},
		"2026: a response of the client":     {`{"jsonrpc":"2.0","id":7,"result":{}}`, []string{version, "2026-07-28"}, "no responses of clients", -32600},
		"2026: responses that are no object": {strings.Replace(call(in26), `"arguments":{}`, `"arguments":{},"inputResponses":[]`, 1), full, "inputResponses", -32602},
		"2026: a state that is no text":      {strings.Replace(call(in26), `"arguments":{}`, `"arguments":{},"requestState":{}`, 1), full, "requestState", -32602},
		"2026: changes of something":         {listen(`{"promptChanges":true}`), listening, "not decided on here", -32602},
		"2026: a resource of no text":        {listen(`{"resourceSubscriptions":[7]}`), listening, "no URI", -32602},
		"2025: a state":                      {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{},"requestState":"s"}}`, nil, "not decided on here", -32602},
		"2025: its discovery":                {`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, nil, "not known here", -32601},
		"2025: listening":                    {`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}`, nil, "not known here", -32601},
		"2026: initialize":                   {in("initialize"), of("initialize"), "not known here", -32601},
		"2026: ping":                         {in("ping"), of("ping"), "not known here", -32601},
		"2026: a subscription":               {in("resources/subscribe"), of("resources/subscribe"), "not known here", -32601},
		"2026: a task":                       {in("tasks/get"), of("tasks/get"), "not known here", -32601},
		"2026: a notification":               {`{"jsonrpc":"2.0","method":"notifications/progress"}`, of("notifications/progress"), "not known here", -32601},
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
			if a.Error != nil || reached != 1 || !sameJSON(t, []byte(got[0]), []byte(c.body)) {
				t.Errorf("ATK-32 %s: %d %s; %q reached the server", name, a.Status, a.Raw, got)
			}
		case a.Error == nil || a.Error.Code != c.code || !strings.Contains(a.Error.Message, c.refused) || reached > 0 || !slices.Contains(statuses[c.code], a.Status):
			t.Errorf("ATK-32 %s: %d %s; %d calls reached the server; want %d and %q", name, a.Status, a.Raw, reached, c.code, c.refused)
		}
		if c.code == -32022 && !strings.Contains(string(a.Raw), `"data":{"requested":"2031-01-01","supported":["2026-07-28","2025-11-25",`) {
			t.Errorf("ATK-32 %s: %s; want the revisions that are read", name, a.Raw)
		}
	}
	mu.Lock()
	got = nil
	mu.Unlock()
	if a := alice.raw(held.ID, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, of("notifications/cancelled")...); a.Status != http.StatusAccepted || len(got) > 0 {
		t.Errorf("ATK-18 somebody's request is cancelled by its id: %d %s; %v reached the server", a.Status, a.Raw, got)
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
		if answered.StatusCode != http.StatusMethodNotAllowed || answered.Header.Get("Allow") != "POST" {
			t.Errorf("ATK-32 %s in a revision that has none: %d", method, answered.StatusCode)
		}
	}
}

// statuses are those of HTTP that errors of JSON-RPC come with.
var statuses = map[int][]int{-32600: {400}, -32602: {200}, -32020: {400}, -32022: {400}, -32601: {200, 404, 403}}

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
	asks := `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"STEAL"}}}}`
	for _, kind = range []string{"application/json", "text/event-stream"} {
		for name, c := range map[string]struct {
			result string
			passes bool
		}{
			"a result":              {`{"content":[{"type":"text","text":"STEAL"}]}`, true},
			"a result that says so": {`{"resultType":"complete","content":[{"type":"text","text":"STEAL"}]}`, true},
			"a request":             {asks, false},
			"no kind":               {strings.Replace(asks, `"input_required"`, `null`, 1), false},
			"a request within":      {strings.Replace(asks, `"input_required"`, `"complete"`, 1), false},
			"a request alone":       {strings.Replace(asks, `"resultType":"input_required",`, ``, 1), false},
			"in other letters":      {strings.Replace(strings.Replace(asks, `"resultType":"input_required",`, ``, 1), `inputRequests`, `InputRequests`, 1), false},
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
			raw, err := io.ReadAll(answered.Body)
			if err != nil {
				t.Errorf("GATE-9 %s as %s: %v", name, kind, err)
			}
			_ = answered.Body.Close()
			if passed := strings.Contains(string(raw), "STEAL"); passed != c.passes {
				t.Errorf("GATE-9 %s as %s: %d %s", name, kind, answered.StatusCode, raw)
			}
			if !c.passes && !strings.Contains(string(raw), `"error"`) {
				t.Errorf("GATE-9 %s as %s is refused without a word: %d %q", name, kind, answered.StatusCode, raw)
			}
		}
	}
}
