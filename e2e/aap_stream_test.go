package e2e

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reporter is a stock A2A agent that streams: it says that it works, makes two
// artifacts and completes; asked for a locked file it fails.
type reporter struct{ begun *atomic.Int32 }

func (r reporter) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		asked := said(x.Message)
		_ = yield(a2a.NewSubmittedTask(x, x.Message), nil)
		_ = yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateWorking, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("reading"))), nil)
		r.begun.Add(1)
		switch {
		case strings.Contains(asked, "locked"):
			yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateFailed, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("it is locked"))), nil)
		case strings.Contains(asked, "endless"):
			<-ctx.Done()
		default:
			_ = yield(a2a.NewArtifactEvent(x, a2a.NewTextPart("page one\n\nevent: done")), nil)
			_ = yield(a2a.NewArtifactEvent(x, a2a.NewDataPart(map[string]any{"pages": 2})), nil)
			yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, nil), nil)
		}
	}
}

func (reporter) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

// streamingServices are an HTTP interface, an A2A agent and an MCP server that take
// their time, behind one provider.
func streamingServices(t *testing.T) (b *bank, begun *atomic.Int32) {
	begun = &atomic.Int32{}
	prices := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prices" { // the gateway looks for a card
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Get("symbol") == "none" {
			http.Error(w, `{"message":"no such symbol"}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		if r.URL.Query().Get("symbol") == "halted" {
			fmt.Fprint(w, "event: error\ndata: {\"error\":\"invalid_request\"}\n\n")
			return
		}
		fmt.Fprintf(w, "data: {\"symbol\":%q}\n\n: a comment\n\nevent: price\ndata: {\"price\":12345678901234567890}\n\n", r.URL.Query().Get("symbol"))
		_ = http.NewResponseController(w).Flush()
		if begun.Add(1); r.URL.Query().Get("symbol") == "endless" {
			<-r.Context().Done()
			begun.Add(-1)
		}
	}))
	t.Cleanup(prices.Close)
	agent := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(reporter{begun})))
	t.Cleanup(agent.Close)
	server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	type asked struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "index"}, func(ctx context.Context, r *mcp.CallToolRequest, in asked) (*mcp.CallToolResult, any, error) {
		for n := range 2 {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(n + 1), Total: 2, Message: "indexing " + in.Text})
		}
		_ = r.Session.Ping(ctx, nil) // behind which the other side has heard of it
		begun.Add(1)
		switch in.Text {
		case "endless":
			<-ctx.Done()
			begun.Add(-1)
		case "locked":
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "it is locked"}}}, nil, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: `{"indexed":12345678901234567890}`}}}, nil, nil
	})
	tools := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(tools.Close)
	b = importing(t, fmt.Sprintf(`agents:
  - id: desk
    upstream: %[1]s
    mode: require
    agent_auth:
      provider_name: desk
      capabilities:
        - {name: prices, description: Follow prices, sensitivity: read, request: {method: GET, url: "%[1]s/prices", query: [symbol]}}
        - {name: counted, description: Follow a few prices, sensitivity: read, uses: 2, request: {method: GET, url: "%[1]s/prices", query: [symbol]}}
        - {name: notes, description: Index notes once, sensitivity: read, uses: 1, mcp: {url: "%[3]s", tool: index, stream: true}}
        - {name: report, description: Write a report, sensitivity: read, a2a: {url: "%[2]s", skill: report, stream: true}}
        - {name: index, description: Index notes, sensitivity: read, mcp: {url: "%[3]s", tool: index, stream: true}}
`, prices.URL, agent.URL, tools.URL))
	return b, begun
}

// TestAAPE5_StreamsOfServices executes capabilities that are an operation of an HTTP
// interface, a skill of an A2A agent and a tool of an MCP server, each of which
// takes its time: what they tell comes as events of the protocol, and nothing in it
// becomes an event of its own (ATK-33).
func TestAAPE5_StreamsOfServices(t *testing.T) {
	asGiven(t)
	b, _ := streamingServices(t)
	m := b.active("alice", "prices", "report", "index")
	const done = "event: done\ndata: \n\n"
	for _, c := range []struct {
		capability, want string
		arguments        map[string]any
	}{
		{"prices", "event: data\ndata: {\"symbol\":\"ACME\"}\n\nevent: data\ndata: {\"price\":12345678901234567890}\n\n" + done, args("symbol", "ACME")},
		{"report", "event: data\ndata: \"reading\"\n\nevent: data\ndata: \"page one\\n\\nevent: done\"\n\nevent: data\ndata: {\"pages\":2}\n\n" + done, args("topic", "rent")},
		{"index", "event: data\ndata: {\"message\":\"indexing x\",\"progress\":1,\"total\":2}\n\nevent: data\ndata: {\"message\":\"indexing x\",\"progress\":2,\"total\":2}\n\nevent: data\ndata: {\"indexed\":12345678901234567890}\n\n" + done, args("text", "x")},
	} {
		r := m.execute(c.capability, c.arguments)
		if r.Header.Get("Content-Type") != "text/event-stream" || r.Raw != c.want {
			t.Errorf("AAP-E5 %s: %s\n%q\nwant\n%q", c.capability, r.Header.Get("Content-Type"), r.Raw, c.want)
		}
		if out := b.records("outcome_of=" + r.Header.Get("Powerbox-Decision")); len(out) != 1 || out[0].Status != "ACHIEVED" {
			t.Errorf("AAP-E5 %s: the outcome is recorded as %+v", c.capability, out)
		}
	}
	for capability, arguments := range map[string]map[string]any{"report": args("topic", "locked"), "index": args("text", "locked")} {
		if r := m.execute(capability, arguments); !strings.Contains(r.Raw, "event: error\ndata: {\"error\":\"invalid_request\"") || !strings.Contains(r.Raw, "it is locked") || !strings.HasSuffix(r.Raw, done) {
			t.Errorf("AAP-E5 %s that fails: %q", capability, r.Raw)
		} else if out := b.records("outcome_of=" + r.Header.Get("Powerbox-Decision")); len(out) != 1 || out[0].Status != "FAILED" {
			t.Errorf("AAP-E5 the outcome of %s that fails is recorded as %+v", capability, out)
		}
	}
	// Anything that is no stream is answered as what it is.
	if r := b.want("its own refusal", m.execute("prices", args("symbol", "none")), http.StatusBadRequest, "invalid_request"); !strings.Contains(r.Raw, "no such symbol") {
		t.Errorf("%s", r.Raw)
	}
}

// TestATK42_BudgetsOfStreams has streams that fail: one in which the service says no
// and nothing else gives back what it took; one that told something does not, nor
// one that was asked for where it cannot be passed on.
func TestATK42_BudgetsOfStreams(t *testing.T) {
	asGiven(t)
	b, _ := streamingServices(t)
	m := b.active("alice", "counted", "notes")
	for range 3 {
		if r := m.execute("counted", args("symbol", "halted")); !strings.HasPrefix(r.Raw, "event: error\n") {
			t.Errorf("ATK-42 a service that says no: %s", r.Raw)
		}
	}
	for range 2 {
		if r := m.execute("counted", args("symbol", "ACME")); !strings.Contains(r.Raw, "event: done\n") {
			t.Errorf("ATK-42 what was given back is there: %s", r.Raw)
		}
	}
	b.want("ATK-42 all is spent", m.execute("counted", args("symbol", "ACME")), http.StatusForbidden, "limit_exceeded")

	if r := m.execute("notes", args("text", "locked")); !strings.Contains(r.Raw, "indexing locked") || !strings.Contains(r.Raw, "event: error\n") {
		t.Errorf("ATK-42 a tool that fails after it told of its progress: %s", r.Raw)
	}
	b.want("ATK-42 what told something", m.execute("notes", args("text", "x")), http.StatusForbidden, "limit_exceeded")

	n := b.active("alice", "notes")
	r := b.ask(http.MethodPost, "/capability/batch-execute", n.token(b.url+"/capability/execute"), args("requests", []any{args("capability", "notes", "arguments", args("text", "x"))}))
	if !strings.Contains(r.Raw, "a stream cannot come in a batch") {
		t.Errorf("AAP-E11 a stream in a batch: %s", r.Raw)
	}
	b.want("ATK-42 a batch is no way around a budget", n.execute("notes", args("text", "x")), http.StatusForbidden, "limit_exceeded")
}

// TestATK24_StreamsOfServicesAreCut revokes the agent while each of them streams: the
// stream ends with an error, and the service notices that its client has gone.
func TestATK24_StreamsOfServicesAreCut(t *testing.T) {
	asGiven(t)
	for capability, argument := range map[string]string{"prices": "symbol", "report": "topic", "index": "text"} {
		t.Run(capability, func(t *testing.T) {
			b, begun := streamingServices(t)
			m := b.active("alice", capability)
			cut := make(chan reply)
			go func() { cut <- m.execute(capability, args(argument, "endless")) }()
			await(func() bool { return begun.Load() >= 1 })
			b.want("AAP-K1", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), args("agent_id", m.id)), http.StatusOK, "")
			r := <-cut
			if !strings.Contains(r.Raw, "event: error\ndata: {\"error\":\"capability_not_granted\"") || !strings.HasSuffix(r.Raw, "event: done\ndata: \n\n") {
				t.Errorf("ATK-24: %q", r.Raw)
			}
			if capability != "report" { // whose SDK continues without a client
				b.soon("ATK-24 the service to notice", func() bool { return begun.Load() == 0 })
			}
		})
	}
}
