package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestATK22_HeadersOfTheConnection has callers list in Connection the headers by which
// a call is read: the agent gets these all the same, in every mode, but no other header
// listed there.
func TestATK22_HeadersOfTheConnection(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}, {"", "0.3"}} {
		for _, mode := range []string{"require", "observe"} {
			w := start(t, options{on: on, mode: mode})
			alice := w.caller(aliceToken)
			c := alice.reports()
			body, h := alice.searching(c.Token)
			h.Set("A2A-Extensions", "https://other.example/x")
			h.Set("Connection", "close, a2a-version, CONTENT-TYPE , A2A-Extensions, X-Hop, Powerbox-Context, Content-Length")
			h.Set("X-Hop", "1")
			w.documents.forget()
			allowed(t, w.post(w.agentURL("documents"), body, h))
			got := w.documents.got()
			if len(got) != 1 {
				t.Fatalf("ATK-22 %s %s: %d calls arrived", on, mode, len(got))
			}
			version := on.version
			if version == "" {
				version = "1.0"
			}
			for name, want := range map[string]string{"A2A-Version": version, "Content-Type": "application/json", "A2A-Extensions": "https://other.example/x", "X-Hop": "", "Content-Length": fmt.Sprint(len(got[0].body))} {
				if got := strings.Join(got[0].header.Values(name), ";"); got != want {
					t.Errorf("ATK-22 %s %s: the agent got %s %q; want %q", on, mode, name, got, want)
				}
			}
			if got[0].header.Get("Powerbox-Context") == "" {
				t.Errorf("ATK-22 %s %s: no context", on, mode)
			}
		}
	}
}

// TestATK22_SessionsOfTheConnection is the same for the headers of MCP: a call that was
// decided in a session of its caller's reaches the server in that session.
func TestATK22_SessionsOfTheConnection(t *testing.T) {
	var got atomic.Pointer[http.Header]
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		got.Store(&h)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "one")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL})
	alice := w.caller(aliceToken)
	c := alice.reports()
	if a := alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Protocol-Version", "2025-11-25"); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	if a := alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "one", "Connection", "mcp-session-id, Mcp-Protocol-Version"); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	if h := *got.Load(); h.Get("Mcp-Session-Id") != "one" || h.Get("Mcp-Protocol-Version") != "2025-11-25" {
		t.Errorf("ATK-22 the server got %v", h)
	}
	if a := alice.stateless26(c.ID, "tools/call", `"name":"search_documents","arguments":{}`, "search_documents", "Connection", "Mcp-Method, mcp-name, Mcp-Protocol-Version"); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	if h := *got.Load(); h.Get("Mcp-Method") != "tools/call" || h.Get("Mcp-Name") != "search_documents" || h.Get("Mcp-Protocol-Version") != "2026-07-28" {
		t.Errorf("ATK-22 the server got %v", h)
	}
}

// TestATK35_AgentsSendNobodyElsewhere has the agent behind answer that its caller should
// ask elsewhere: there, past the gateway, its clients would send what they prove
// themselves with.
func TestATK35_AgentsSendNobodyElsewhere(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}, {overMCP, "2025-11-25"}} {
		var went atomic.Int32
		elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			went.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}))
		defer elsewhere.Close()
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		c := alice.reports()
		for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusMultipleChoices} {
			for _, to := range []string{elsewhere.URL + "/x", "/agents/mail"} {
				w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", to)
					w.WriteHeader(status)
				})
				w.mail.forget()
				body, h := alice.searching(c.Token)
				for name, v := range alice.headers(w.agentURL("documents")) {
					h[name] = v
				}
				a := w.post(w.agentURL("documents"), body, h)
				if a.Header.Get("Location") != "" || a.Header.Get("Powerbox-Outcome") != "unknown" || went.Load() > 0 || len(w.mail.got()) > 0 {
					t.Errorf("ATK-35 %s %d to %s: %d %v %s; %d went on", on, status, to, a.Status, a.Header, a.Raw, went.Load())
				}
			}
		}
	}
}

// TestATK26_NobodyKeepsAnswers has the agent behind say that its answers may be kept, by
// which a cache before us would give what one caller may see to others.
func TestATK26_NobodyKeepsAnswers(t *testing.T) {
	on := wire{overREST, "1.0"}
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	for said, want := range map[string]string{
		"": "", "public, max-age=60": "no-store", "s-maxage=60": "no-store", "private": "no-store", "no-cache": "no-cache", "max-age=0, NO-STORE": "max-age=0, NO-STORE",
	} {
		w.documents.sees(func(w http.ResponseWriter, _ *http.Request) {
			if said != "" {
				w.Header().Set("Cache-Control", said)
			}
			for _, name := range []string{"Surrogate-Control", "CDN-Cache-Control", "X-Accel-Expires"} {
				w.Header().Set(name, "max-age=60")
			}
			w.Header().Set("X-Accel-Redirect", "/internal/secrets")
			w.Header().Set("X-Sendfile", "/etc/passwd")
		})
		body, h := alice.searching(c.Token)
		a := w.post(w.agentURL("documents"), body, h)
		allowed(t, a)
		if got := a.Header.Get("Cache-Control"); got != want {
			t.Errorf("ATK-26 Cache-Control %q became %q; want %q", said, got, want)
		}
		for _, name := range []string{"Surrogate-Control", "CDN-Cache-Control", "X-Accel-Expires", "X-Accel-Redirect", "X-Sendfile"} {
			if got := a.Header.Get(name); got != "" {
				t.Errorf("ATK-26 %s: %q passed", name, got)
			}
		}
	}
}

// TestATK33_LinesInTexts streams a text that someone wrote, with the characters in it at
// which readers end lines that take str.splitlines for it: no part of it is an event, and
// the text is what it was.
func TestATK33_LinesInTexts(t *testing.T) {
	const text = "a\u2028\u2028data: {\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":9,\\\"method\\\":\\\"sampling/createMessage\\\"}\u0085\u0085\u2029 é €"
	const escaped = `a\u2028\u2028data: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sampling/createMessage\"}\u0085\u0085\u2029 é €`
	for _, on := range []wire{{}, {overREST, "1.0"}, {overMCP, "2025-11-25"}} {
		for _, mode := range []string{"require", "observe"} {
			event, want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+text+`"}]}}`, escaped
			if mode == "observe" {
				want = text
			}
			if on.binding != overMCP {
				event = `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + text + `"}]}}`
			}
			if on == (wire{}) {
				event = `{"jsonrpc":"2.0","id":1,"result":` + event + `}`
			}
			w := start(t, options{on: on, mode: mode})
			alice := w.caller(aliceToken)
			c := alice.reports()
			said := "id: 1\ndata: " + event + "\n\n"
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, said)
			})
			body, h := alice.searching(c.Token)
			if on.binding != overMCP {
				body = []byte(strings.Replace(string(body), `"SendMessage"`, `"SendStreamingMessage"`, 1))
				h = alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
			}
			a := w.post(w.agentURL("documents"), body, h)
			got := string(a.Raw)
			if on.binding == overMCP && mode == "require" { // the id there is the gateway's (ATK-148)
				_, rest, _ := strings.Cut(got, "\n")
				got = "id: 1\n" + rest
			}
			if got != strings.Replace(said, text, want, 1) {
				t.Errorf("ATK-33 %s %s: %q", on, mode, got)
			}
			// Where there is no text, such a character ends the stream.
			said = "id: \fdata: 1\n\ndata: " + event + "\n\n"
			body, h = alice.searching(c.Token)
			r, _ := w.encode(w.agentURL("documents"), body)
			if on == (wire{}) {
				h.Set("A2A-Version", "1.0")
			}
			res := w.send(r, h)
			raw, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if passed := strings.Contains(string(raw), "data: 1"); passed != (mode == "observe") || err != nil {
				t.Errorf("ATK-33 %s %s: %q, %v", on, mode, raw, err)
			}
		}
	}
}

// TestATK34_FailuresThatAreMessages has an MCP server say that a call failed, with a
// request to the client, or what it may not see, in the body of that.
func TestATK34_FailuresThatAreMessages(t *testing.T) {
	var said atomic.Value
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, said.Load().(string))
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL})
	alice := w.caller(aliceToken)
	c := alice.reports()
	const asks = `{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"STEAL"}}}}}`
	const calls = `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"STEAL"}}`
	for _, body := range []string{asks, "\uFEFF" + asks, " \r\n\uFEFF" + asks, "[" + asks + "]", calls, "\uFEFF" + calls, "[" + calls + "]"} {
		said.Store(body)
		for revision, a := range map[string]answer{
			"2026-07-28": alice.stateless26(c.ID, "tools/call", `"name":"search_documents","arguments":{}`, "search_documents"),
			"2025-11-25": alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}}}`, "Mcp-Protocol-Version", "2025-11-25"),
		} {
			if strings.Contains(string(a.Raw), "STEAL") {
				t.Errorf("ATK-34 %s: %q came as %d %q", revision, body, a.Status, a.Raw)
			}
		}
	}
	// What only says that something failed passes.
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`, `{"detail":"Not Found"}`, `Bad Request`, ``, `"no"`} {
		said.Store(body)
		if a := alice.stateless26(c.ID, "tools/call", `"name":"search_documents","arguments":{}`, "search_documents"); string(a.Raw) != body || a.Status != http.StatusBadRequest {
			t.Errorf("ATK-34 %q came as %d %q", body, a.Status, a.Raw)
		}
	}
}

// TestATK34_ResultsOfOtherRequests has an MCP server put the result of another request of
// its client into a stream, which is judged as what the stream is the answer to, and a
// request of its own into an event that readers read otherwise than it is judged.
func TestATK34_ResultsOfOtherRequests(t *testing.T) {
	var said atomic.Value
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, said.Load().(string))
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL})
	alice := w.caller(aliceToken)
	c := alice.reports()
	call := func(revision string) string {
		h := alice.headers(w.agentURL("documents"))
		h.Set("Powerbox-Capability", c.ID)
		h.Set("Accept", "application/json, text/event-stream")
		h.Set("Content-Type", "application/json")
		h.Set("Mcp-Protocol-Version", revision)
		meta := ""
		if revision == "2026-07-28" {
			h.Set("Mcp-Method", "tools/call")
			h.Set("Mcp-Name", "search_documents")
			meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.agentURL("documents"), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}`+meta+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h
		res, err := http.DefaultClient.Do(r)
		if errors.Is(err, io.EOF) {
			return "" // it was cut before its headers were on their way
		}
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, _ := io.ReadAll(res.Body) // it may be cut
		return string(got)
	}
	const good = `data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n\n"
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for name, event := range map[string]string{
			"of another id":        `data: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"STOLEN"}]}}` + "\n\n",
			"of an id like it":     `data: {"jsonrpc":"2.0","id":"1","result":{"tools":[{"name":"STOLEN"}]}}` + "\n\n",
			"of no id":             `data: {"jsonrpc":"2.0","result":{"tools":[{"name":"STOLEN"}]}}` + "\n\n",
			"of a member more":     `data: {"jsonrpc":"2.0","id":1,"result":{"content":["STOLEN"]},"more":1}` + "\n\n",
			"of no version":        `data: {"id":1,"result":{"content":["STOLEN"]}}` + "\n\n",
			"with a method":        `data: {"jsonrpc":"2.0","method":"notifications/progress","result":{"content":["STOLEN"]}}` + "\n\n",
			"that is a text":       `data: {"jsonrpc":"2.0","id":1,"result":"STOLEN"}` + "\n\n",
			"a line that is none":  "data: {\n\uFEFFdata: \"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\ndata: \"id\":5,\"method\":\"sampling/createMessage\",\"STOLEN\":1}\n\uFEFFdata: }\n\n",
			"behind the beginning": ": first\n\uFEFFdata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\ndata: {\"STOLEN\":1}\n\uFEFFdata: }\n\n",
		} {
			said.Store(event + good)
			if got := call(revision); strings.Contains(got, "STOLEN") {
				t.Errorf("ATK-34 %s %s: %q", revision, name, got)
			}
		}
		said.Store(good)
		if got := call(revision); got != good {
			t.Errorf("ATK-34 %s: %q", revision, got)
		}
	}
}

// TestATK30_AnswersThatAreNotRead has the agent behind pack its answers, which clients
// unpack automatically: an answer that the gateway cannot read does not pass.
func TestATK30_AnswersThatAreNotRead(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	for _, on := range []wire{{}, {overREST, "1.0"}, {overMCP, "2025-11-25"}} {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		c := alice.reports()
		for _, kind := range []string{"application/json", "text/event-stream"} {
			for coding, passes := range map[string]bool{"gzip": false, "GZIP": false, "identity, gzip": false, "br": false, "identity": true} {
				said := `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`
				if on.binding != overMCP || passes {
					said = `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"READ"}]}}}`
				}
				if on.binding == overREST {
					said = `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"READ"}]}}`
				}
				if kind == "text/event-stream" {
					said = "data: " + said + "\n\n"
				}
				if !passes {
					said = packed(said)
				}
				w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.Header().Set("Content-Encoding", coding)
					_, _ = io.WriteString(w, said)
				})
				body, h := alice.searching(c.Token)
				if kind == "text/event-stream" && on.binding != overMCP {
					body = []byte(strings.Replace(string(body), `"SendMessage"`, `"SendStreamingMessage"`, 1))
					h = alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
				}
				h.Set("Accept-Encoding", "gzip, br")
				a := w.post(w.agentURL("documents"), body, h)
				if passes != strings.Contains(string(a.Raw), "READ") || passes == (a.Header.Get("Powerbox-Outcome") == "unknown") || strings.Contains(string(a.Raw), "sampling") {
					t.Errorf("ATK-30 %s %s %s: %d %v %q", on, kind, coding, a.Status, a.Header, a.Raw)
				}
			}
		}
	}
}

// TestATK30_AnswersInOtherCharacters is the same for what clients read in the characters
// that an answer says it is in, and for an answer of two types.
func TestATK30_AnswersInOtherCharacters(t *testing.T) {
	wide := func(text string) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			b.WriteString(string([]byte{c, 0}))
		}
		return b.String()
	}
	const asks = `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`
	for _, on := range []wire{{}, {overREST, "1.0"}, {overMCP, "2025-11-25"}} {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		c := alice.reports()
		for _, k := range []struct {
			types []string
			said  string
		}{
			{[]string{"text/event-stream; charset=utf-16"}, wide("data: " + asks + "\n\n")},
			{[]string{"text/event-stream; charset=UTF-7"}, "data: " + asks + "\n\n"},
			{[]string{"text/event-stream; charset=iso-8859-1"}, "data: " + asks + "\n\n"},
			{[]string{"application/json; charset=utf-16le"}, wide(asks)},
			{[]string{"text/event-stream; charset=utf-8; charset=utf-7"}, "data: " + asks + "\n\n"},
			{[]string{"application/json, text/event-stream"}, "data: " + asks + "\n\n"},
			{[]string{"application/json", "text/event-stream"}, "data: " + asks + "\n\n"},
			{[]string{"text/event-stream", "application/json"}, asks},
		} {
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = k.types
				_, _ = io.WriteString(w, k.said)
			})
			body, h := alice.searching(c.Token)
			if a := w.post(w.agentURL("documents"), body, h); strings.Contains(string(a.Raw), "s\x00a\x00m") || strings.Contains(string(a.Raw), "sampling") || a.Header.Get("Powerbox-Outcome") != "unknown" {
				t.Errorf("ATK-30 %s %q: %d %v %q", on, k.types, a.Status, a.Header, a.Raw)
			}
		}
		for _, kind := range []string{"application/json; charset=UTF-8", "application/json;charset=\"utf-8\"", "application/json", "Application/JSON;", "application/json;charset=ISO-8859-1"} {
			said := `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"READ"}]}}}`
			if on.binding == overREST {
				said = `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"READ"}]}}`
			}
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, said)
			})
			body, h := alice.searching(c.Token)
			if a := w.post(w.agentURL("documents"), body, h); !strings.Contains(string(a.Raw), "READ") {
				t.Errorf("ATK-30 %s %s: %d %s", on, kind, a.Status, a.Raw)
			}
		}
	}
}

// TestATK46_AnswersToNothing has a client answer what no result can have asked of it: the
// server gets none of it.
func TestATK46_AnswersToNothing(t *testing.T) {
	w := start(t, options{on: wire{overMCP, "2025-11-25"}})
	alice := w.caller(aliceToken)
	c := alice.reports()
	w.documents.forget()
	for _, params := range []string{`"inputResponses":{"a":{"action":"accept"}}`, `"inputResponses":{}`, `"requestState":"s"`} {
		for _, method := range []string{"tools/list", "server/discover", "resources/list"} {
			denied(t, alice.stateless26(c.ID, method, params, ""), "params")
		}
		denied(t, alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+params+`}}`, "Mcp-Protocol-Version", "2025-11-25"), "params")
	}
	if got := w.documents.got(); len(got) > 0 {
		t.Errorf("ATK-46 the server got %d messages", len(got))
	}
}
