package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
)

// said has the documents agent answer this, and returns what its caller gets.
func (c *caller) said(held granted, method, kind, body string) answer {
	c.w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	})
	call := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"`+method+`"`, 1))
	return c.present("documents", call, proven{chain: []string{held.Token}, operation: opSearch})
}

// outcome is what the record says became of a call, "unknown" where the caller was told so.
func (w *town) outcome(a answer) string {
	if a.Header.Get("Powerbox-Outcome") == "unknown" {
		return "unknown"
	}
	all := w.outcomes(a.Header.Get("Powerbox-Decision"))
	if len(all) != 1 {
		w.t.Errorf("%d outcomes are on record", len(all))
		return ""
	}
	return all[0].Status
}

const (
	readText  = `{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"READ"}]}`
	readEvent = `{"message":` + readText + `}`
	readError = `{"code":-32603,"message":"FAILED"}`
)

// TestATK125_AnswersAreReadOneWay has the agent behind answer what kits read differently: an
// answer that one takes for an error and another for a result is kept back, and of one that
// all take for an error the record says so.
func TestATK125_AnswersAreReadOneWay(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice := w.caller(aliceToken)
			held := alice.reports()
			envelope := func(members string) string { return `{"jsonrpc":"2.0","id":1,` + members + `}` }
			good, twice := envelope(`"result":`+readEvent), `{"message":`+readText+`,"message":`+readText+`}`
			if on.binding == overREST {
				envelope, good = func(members string) string { return `{` + members + `}` }, readEvent
			}
			wants := map[string]string{
				good:                          "ACHIEVED",
				"\uFEFF" + good:               "unknown",
				good + good:                   "unknown",
				envelope(`"result":` + twice): "unknown",
				envelope(`"message":1,"Message":` + readText): "unknown",
				envelope(`"message":` + readText + `,"task":{"id":"READ","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}`): "unknown",
				envelope(`"task":{"id":"t1","ID":"READ","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}`):                  "unknown",
			}
			if on.binding == overREST {
				wants[`{"result":{},"message":`+readText+`}`] = "unknown"
			}
			if on == (wire{}) {
				wants[strings.Replace(good, `"id":1`, `"id":1.0`, 1)] = "ACHIEVED"
				for _, id := range []string{"2", `"1"`, "null"} {
					wants[strings.Replace(good, `"id":1`, `"id":`+id, 1)] = "unknown"
				}
				wants[`{"jsonrpc":"2.0","id":1,"message":`+readText+`}`] = "unknown"
				for said, want := range map[string]string{
					`"error":` + readError:                                         "FAILED",
					`"error":` + readError + `,"result":null`:                      "FAILED",
					`"\u0065rror":` + readError:                                    "FAILED",
					`"error":null,"result":` + readEvent:                           "ACHIEVED",
					`"result":{}`:                                                  "FAILED",
					`"result":` + readEvent + `,"error":` + readError:              "unknown",
					`"result":` + readEvent + `,"\u0065rror":` + readError:         "unknown",
					`"result":` + readEvent + `,"Error":` + readError:              "unknown",
					`"error":` + readError + `,"error":null,"result":` + readEvent: "unknown",
				} {
					wants[envelope(said)] = want
				}
			}
			for said, want := range wants {
				a := alice.said(held, "SendMessage", "application/json", said)
				if got := w.outcome(a); got != want || want == "unknown" && strings.Contains(string(a.Raw), "READ") {
					t.Errorf("ATK-125 %q is %s; want %s: %s", said, got, want, a.Raw)
				}
			}
		})
	}
}

// TestATK125_EventsAreReadOneWay is the same for a stream. Readers that follow WHATWG end a
// line where those of the kits do not, and those of HTTP+JSON take an event of the type
// error for an error whatever it holds.
func TestATK125_EventsAreReadOneWay(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice := w.caller(aliceToken)
			held := alice.reports()
			event, failure := `{"jsonrpc":"2.0","id":1,"result":`+readEvent+`}`, `{"jsonrpc":"2.0","id":1,"error":`+readError+`}`
			none := `{"jsonrpc":"2.0","id":1,"result":{}}`
			if on.binding == overREST {
				event, none, failure = readEvent, `{}`, `{"error":{"code":500,"status":"INTERNAL","message":"FAILED"}}`
			}
			for said, want := range map[string]string{
				"data: " + event + "\n\n":                                      "ACHIEVED",
				"data: " + event:                                               "ACHIEVED",
				"\uFEFFdata: " + event + "\n\n":                                "ACHIEVED",
				"event: message\ndata: " + event + "\n\n":                      "ACHIEVED",
				"data: " + failure + "\n\n":                                    "FAILED",
				"event: error\ndata: " + failure + "\n\n":                      "FAILED",
				"data: " + failure + "\n\ndata: " + event + "\n\n":             "FAILED",
				"data: " + none + "\n\n":                                       "FAILED",
				"event: error\ndata: " + event + "\n\n":                        "PARTIAL",
				"event: error\n\ndata: " + event + "\n\n":                      "PARTIAL",
				"data: " + event[:1] + "\r" + event[1:] + "\n\n":               "PARTIAL",
				"data: " + strings.Replace(event, ",", ",\rdata:", 1) + "\r\r": "ACHIEVED",
				": x\rdata: " + event + "\n\n":                                 "ACHIEVED",
				": x\n\uFEFFdata: " + event + "\n\n":                           "PARTIAL",
				"data: " + event + event + "\n\n":                              "PARTIAL",
				"data: {\"message\":1,\"message\":" + readText + "}\n\n":       "PARTIAL",
			} {
				a := alice.said(held, "SendStreamingMessage", "text/event-stream", said)
				if got := w.outcome(a); got != want || want == "PARTIAL" && strings.Contains(string(a.Raw), "READ") {
					t.Errorf("ATK-125 %q is %s; want %s: %s", said, got, want, a.Raw)
				}
			}
			if on.binding == overREST { // as the kit for JavaScript writes it in 0.3
				a := alice.said(held, "SendStreamingMessage", "text/event-stream", "event: error\ndata: "+readError+"\n\n")
				if got := w.outcome(a); got != "FAILED" || !strings.Contains(string(a.Raw), "FAILED") {
					t.Errorf("ATK-125 an error of 0.3 is %s: %s", got, a.Raw)
				}
			}
		})
	}
}

// TestATK126_StatusesOfGRPCAreReadOneWay has the agent behind end a call with several
// statuses, or with one that some kits read as 0 and others do not.
func TestATK126_StatusesOfGRPCAreReadOneWay(t *testing.T) {
	w := start(t, options{on: wire{overGRPC, "1.0"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	message := proto.Clone(messages["1.0"]["SendMessage"][1])
	if err := unmarshalJSON([]byte(readEvent), message); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(message) // the answers of both methods have this field in common
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		for _, c := range []struct {
			header, trailer []string
			want            string
		}{
			{nil, []string{"0"}, "ACHIEVED"},
			{nil, []string{"00"}, "unclear"},
			{nil, []string{"+0"}, "unclear"},
			{nil, []string{"0x0"}, "unclear"},
			{nil, []string{"5", "0"}, "unclear"},
			{nil, []string{"0", "5"}, "unclear"},
			{[]string{"5"}, []string{"0"}, "unclear"},
		} {
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header()["Grpc-Status"] = c.header
				w.WriteHeader(http.StatusOK)
				_, _ = w.Write(frame(raw))
				w.Header()[http.TrailerPrefix+"Grpc-Status"] = c.trailer
			})
			body := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"`+method+`"`, 1))
			a := alice.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			// A message of a stream is on record before its status comes.
			got := w.outcome(a)
			if c.want == "ACHIEVED" && (got != c.want || a.Error != nil) || c.want != "ACHIEVED" && (got == "ACHIEVED" && method == "SendMessage" || a.Error == nil) {
				t.Errorf("ATK-126 %s with %q and %q is %s: %s", method, c.header, c.trailer, got, a.Raw)
			}
		}
	}
}

// TestATK127_ResponsesOfMCPAreTheRequests has an MCP server answer first what clients pass
// over: a response to another request, or an event of another type. The record has what
// became of the response that clients read.
func TestATK127_ResponsesOfMCPAreTheRequests(t *testing.T) {
	var said atomic.Value
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", said.Load().([2]string)[0])
		_, _ = io.WriteString(w, said.Load().([2]string)[1])
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL})
	alice := w.caller(aliceToken)
	c := alice.reports()
	const events, whole = "text/event-stream", "application/json"
	const good, failed = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"FAILED"}}`
	const told = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	of := func(message, id string) string { return strings.Replace(message, `"id":1`, `"id":`+id, 1) }
	for _, try := range []struct{ kind, said, want string }{
		{events, "data: " + good + "\n\n", "ACHIEVED"},
		{events, "event: message\ndata: " + failed + "\n\n", "FAILED"},
		{events, "event: other\ndata: " + failed + "\n\ndata: " + good + "\n\n", "ACHIEVED"},
		{events, "event: other\ndata: " + good + "\n\ndata: " + failed + "\n\n", "FAILED"},
		{events, "data: " + of(failed, "2") + "\n\ndata: " + good + "\n\n", "PARTIAL"},
		{events, "data: " + of(failed, "null") + "\n\ndata: " + good + "\n\n", "PARTIAL"},
		{events, "data: " + of(failed, `"1"`) + "\n\ndata: " + good + "\n\n", "PARTIAL"},
		{events, "data: " + strings.Replace(good, `"result"`, `"error":{"code":1,"message":"FAILED"},"result"`, 1) + "\n\n", "PARTIAL"},
		{events, "data: " + told + "\n\n", "FAILED"},
		{events, "id: 1\ndata: " + told + "\n\n", "PARTIAL"},
		{events, "id: 1\ndata: " + told + "\n\nid: 2\ndata: " + good + "\n\n", "ACHIEVED"},
		{whole, good, "ACHIEVED"},
		{whole, failed, "FAILED"},
		{whole, strings.Replace(failed, `"error"`, `"\u0065rror"`, 1), "FAILED"},
		{whole, of(failed, "2"), "unknown"},
		{whole, strings.Replace(good, `"result"`, `"error":{"code":1,"message":"FAILED"},"result"`, 1), "unknown"},
		{whole, `{}`, "unknown"},
	} {
		said.Store([2]string{try.kind, try.said})
		a := alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}}}`, "Mcp-Protocol-Version", "2025-11-25")
		if got := w.outcome(a); got != try.want {
			t.Errorf("ATK-127 %s %q is %s; want %s: %s", try.kind, try.said, got, try.want, a.Raw)
		}
		if strings.Contains(try.said, "event: other") && strings.Contains(string(a.Raw), "other") {
			t.Errorf("ATK-127 an event of another type passed: %s", a.Raw)
		}
	}
}

// TestATK165_MessagesOfGRPCAreReadOneWay has the agent behind write a field twice, and two
// fields of which one is meant. The kit for JavaScript takes the last copy of a message, and
// the others merge both.
func TestATK165_MessagesOfGRPCAreReadOneWay(t *testing.T) {
	w := start(t, options{on: wire{overGRPC, "1.0"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	written := func(json string) []byte {
		message := proto.Clone(messages["1.0"]["SendMessage"][1])
		if err := unmarshalJSON([]byte(json), message); err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	message := written(readEvent)
	task := written(`{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`)
	within := func(field byte, inner ...byte) []byte {
		return append([]byte{field<<3 | 2, byte(len(inner))}, inner...)
	}
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		for what, c := range map[string]struct {
			raw  []byte
			want bool
		}{
			"a message":                   {message, true},
			"a field that no one knows":   {append(bytes.Clone(message), within(15, 1)...), true},
			"a message twice":             {append(bytes.Clone(message), message...), false},
			"a message and a part of one": {append(bytes.Clone(message), within(2)...), false},
			"a task and a message":        {append(bytes.Clone(task), message...), false},
			"a text twice":                {within(1, append(within(1, 'a'), within(1, 'b')...)...), false},
		} {
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				w.WriteHeader(http.StatusOK)
				_, _ = w.Write(frame(c.raw))
				w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
			})
			body := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"`+method+`"`, 1))
			a := alice.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			if got := w.outcome(a); (got == "ACHIEVED") != c.want || (a.Error == nil) != c.want {
				t.Errorf("ATK-165 %s with %s is %s: %s", method, what, got, a.Raw)
			}
		}
	}
}
