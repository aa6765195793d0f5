package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
)

// formed is an answer of an agent, and what its callers must see of it.
type formed struct {
	method string
	status int
	kind   string
	body   string
	want   string // what the record says
	as     int    // the status that the caller gets; 0 for any
	typed  string // the type that the caller gets; "" for any
}

// TestATK136_AnswersHaveTheFormOfTheirContents has the agent behind answer with a status or
// a type that only some kits take, or events where no kit reads them. The record says what
// the kits see.
func TestATK136_AnswersHaveTheFormOfTheirContents(t *testing.T) {
	const one, streamed, whole, events = "SendMessage", "SendStreamingMessage", "application/json", "text/event-stream"
	for _, on := range []wire{{}, {overREST, "1.0"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice := w.caller(aliceToken)
			held := alice.reports()
			good, plain := `{"jsonrpc":"2.0","id":1,"result":`+readEvent+`}`, ""
			if on.binding == overREST {
				good, plain = readEvent, "unknown"
			}
			sse := "data: " + good + "\n\n"
			for _, try := range []formed{
				{one, 200, whole, good, "ACHIEVED", 200, whole},
				{one, 200, "application/a2a+json", good, "ACHIEVED", 200, "application/a2a+json"},
				{one, 201, whole, good, "ACHIEVED", 200, whole},
				{one, 206, whole, good, "ACHIEVED", 200, whole},
				{one, 200, "text/html", good, "ACHIEVED", 200, whole},
				{one, 200, `application/json; x="text/event-stream"`, good, "ACHIEVED", 200, whole},
				{one, 200, events, sse, "unknown", 0, plain},
				{one, 304, whole, "", "unknown", 0, ""},
				{one, 500, whole, good, "FAILED", 500, ""},
				{streamed, 200, events, sse, "ACHIEVED", 200, events},
				{streamed, 202, "Text/Event-Stream; x=1", sse, "ACHIEVED", 200, events},
				{streamed, 400, events, sse, "FAILED", 400, ""},
				{streamed, 500, events, sse, "FAILED", 500, ""},
				{streamed, 200, whole, good, "FAILED", 200, whole},
				{streamed, 200, whole, sse, "unknown", 0, plain},
				{streamed, 200, "text/plain", sse, "unknown", 0, plain},
				{streamed, 200, "text/event-streams", sse, "unknown", 0, plain},
			} {
				w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", try.kind)
					w.WriteHeader(try.status)
					_, _ = io.WriteString(w, try.body)
				})
				call := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"`+try.method+`"`, 1))
				a := alice.present("documents", call, proven{chain: []string{held.Token}, operation: opSearch})
				w.hasForm(t, try, a)
			}
		})
	}
}

func (w *town) hasForm(t *testing.T, try formed, a answer) {
	t.Helper()
	name := fmt.Sprintf("ATK-136 %s with %d and %s", try.method, try.status, try.kind)
	if got := w.outcome(a); got != try.want {
		t.Errorf("%s is %s; want %s: %s", name, got, try.want, a.Raw)
	}
	if try.want == "unknown" && strings.Contains(string(a.Raw), "READ") {
		t.Errorf("%s passed: %s", name, a.Raw)
	}
	if try.as != 0 && a.Status != try.as {
		t.Errorf("%s came with %d; want %d", name, a.Status, try.as)
	}
	if got := a.Header.Get("Content-Type"); try.want != "unknown" && try.typed != "" && got != try.typed {
		t.Errorf("%s came as %s; want %s", name, got, try.typed)
	}
}

// TestATK136_NoAnswerSwitchesProtocols has the agent behind answer a call by switching to
// another protocol: no outcome is on record of an answer that nothing can pass on.
func TestATK136_NoAnswerSwitchesProtocols(t *testing.T) {
	for _, mode := range []string{"require", "observe"} {
		w := start(t, options{mode: mode})
		alice := w.caller(aliceToken)
		held := alice.reports()
		w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"+
				`{"jsonrpc":"2.0","id":1,"result":`+readEvent+`}`)
			_ = conn.Close()
		})
		a := alice.present("documents", data("search_documents", nil), proven{chain: []string{held.Token}, operation: opSearch})
		if all := w.outcomes(a.Header.Get("Powerbox-Decision")); a.Header.Get("Powerbox-Outcome") != "unknown" || len(all) > 0 {
			t.Errorf("ATK-136 %s: the caller was told %q, and %d outcomes are on record: %v", mode, a.Header.Get("Powerbox-Outcome"), len(all), all)
		}
	}
}

// TestATK136_GRPCIsGRPC has the agent behind say in trailers that a call succeeded, with a
// status of HTTP or a type that some kits take for a failure.
func TestATK136_GRPCIsGRPC(t *testing.T) {
	w := start(t, options{on: wire{overGRPC, "1.0"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	message := proto.Clone(messages["1.0"]["SendMessage"][1])
	if err := unmarshalJSON([]byte(readEvent), message); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		for _, try := range []formed{
			{status: 200, kind: "application/grpc", want: "ACHIEVED"},
			{status: 200, kind: "application/grpc+proto", want: "ACHIEVED"},
			{status: 500, kind: "application/grpc", want: "unknown"},
			{status: 201, kind: "application/grpc", want: "unknown"},
			{status: 200, kind: "text/html", want: "unknown"},
			{status: 200, kind: "application/grpc-web", want: "unknown"},
		} {
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", try.kind)
				w.WriteHeader(try.status)
				_, _ = w.Write(frame(raw))
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			})
			body := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"`+method+`"`, 1))
			a := alice.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			if got := w.outcome(a); got != try.want {
				t.Errorf("ATK-136 %s with %d and %s is %s; want %s: %s", method, try.status, try.kind, got, try.want, a.Raw)
			}
		}
	}
}

// TestATK136_ResponsesOfMCPHaveTheirForm is the same for an MCP server. Clients of MCP wait
// for ever for the response where its status says that none comes.
func TestATK136_ResponsesOfMCPHaveTheirForm(t *testing.T) {
	var said atomic.Pointer[formed]
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", said.Load().kind)
		w.WriteHeader(said.Load().status)
		_, _ = io.WriteString(w, said.Load().body)
	}))
	defer upstream.Close()
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL})
	alice := w.caller(aliceToken)
	c := alice.reports()
	const events, whole = "text/event-stream", "application/json"
	const good = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"READ"}]}}`
	for _, try := range []formed{
		{"", 200, whole, good, "ACHIEVED", 200, whole},
		{"", 202, whole, good, "ACHIEVED", 200, whole},
		{"", 200, "text/plain", good, "ACHIEVED", 200, whole},
		{"", 202, whole, "", "FAILED", 0, ""},
		{"", 202, events, "data: " + good + "\n\n", "ACHIEVED", 200, events},
		{"", 500, events, "data: " + good + "\n\n", "FAILED", 500, ""},
		{"", 304, whole, "", "unknown", 0, ""},
	} {
		said.Store(&try)
		a := alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_documents","arguments":{}}}`, "Mcp-Protocol-Version", "2025-11-25")
		w.hasForm(t, try, a)
	}
	// Notifications need no response.
	said.Store(&formed{status: http.StatusAccepted, kind: whole})
	if a := alice.raw(c.ID, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Protocol-Version", "2025-11-25"); a.Status != http.StatusAccepted || w.outcome(a) != "ACHIEVED" {
		t.Errorf("ATK-136 a notification is %d and %s", a.Status, w.outcome(a))
	}
}

// TestATK137_NoPeerSendsClientsOfAttachElsewhere has an agent redirect a client of attach to
// another agent there, for which attach would sign the call.
func TestATK137_NoPeerSendsClientsOfAttachElsewhere(t *testing.T) {
	w := start(t, options{mode: "observe"})
	config := "agents:\n"
	for _, name := range []string{"documents", "mail"} {
		config += "  - name: " + name + "\n    card: " + w.agentURL(name) + "\n"
	}
	a := w.attach("attach", newKey(t), config, "--session-file", w.sessionFile())
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, to := range []string{"/agents/mail", a.agentURL("mail")} {
			w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			w.mail.forget()
			got := a.post(a.agentURL("documents"), text("SendMessage", "hello"), http.Header{})
			if n := len(w.mail.got()); n > 0 || got.reason() != "outcome_unknown" || got.Header.Get("Location") != "" {
				t.Errorf("ATK-137 %d to %s: another agent got %d calls, and the client %d %v %s", status, to, n, got.Status, got.Header, got.Raw)
			}
		}
	}
}
