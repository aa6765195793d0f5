package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/internal/telemetry"
)

// spanOf is the span that a collector gets of one call.
func spanOf(t *testing.T, seen telemetry.Seen) (*telemetry.Telemetry, *trace.Span) {
	t.Helper()
	return spanIn(t, http.Header{}, "", "", seen)
}

// spanIn is spanOf for a call whose headers and message name traces.
func spanIn(t *testing.T, h http.Header, parent, state string, seen telemetry.Seen) (*telemetry.Telemetry, *trace.Span) {
	t.Helper()
	got := make(chan *trace.Span, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var request collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := proto.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		got <- request.ResourceSpans[0].ScopeSpans[0].Spans[0]
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	of, err := telemetry.New(telemetry.Build{})
	if err == nil {
		err = of.Trace(t.Context(), telemetry.Build{})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, joined := of.Begin(t.Context(), received, h, seen.Agent, seen.Binding)
	if parent != "" {
		joined(parent, state)
	}
	onward := http.Header{"Tracestate": {"callers=own"}}
	of.Continue(ctx, onward)
	of.End(ctx, seen)
	if err := of.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	span := <-got
	if want := fmt.Sprintf("00-%x-%x-01", span.TraceId, span.SpanId); onward.Get("Traceparent") != want || onward.Get("Tracestate") != span.TraceState {
		t.Errorf("what continues is %v; want the trace of the span, %s %s", onward, want, span.TraceState)
	}
	if got := time.Unix(0, int64(span.EndTimeUnixNano)).Sub(time.Unix(0, int64(span.StartTimeUnixNano))); got != seen.Took || int64(span.StartTimeUnixNano) != received.UnixNano() {
		t.Errorf("the span has the time %d and takes %v; want %d and %v", span.StartTimeUnixNano, got, received.UnixNano(), seen.Took)
	}
	return of, span
}

// received is when the calls come that are traced here.
var received = time.Unix(1_790_000_000, 0)

// TestATraceInAMessageIsTheParent: the trace of its transport is linked, and a trace that
// cannot be read is none.
func TestATraceInAMessageIsTheParent(t *testing.T) {
	const transport, client = "11111111111111111111111111111111", "22222222222222222222222222222222"
	headers := http.Header{"Traceparent": {"00-" + transport + "-1111111111111111-01"}, "Tracestate": {"v=transport"}}
	named := "00-" + client + "-2222222222222222-01"
	for name, c := range map[string]struct {
		headers                   http.Header
		parent, state             string
		trace, span, link, onward string
	}{
		"the message alone":      {http.Header{}, named, "v=client", client, "2222222222222222", "", "v=client"},
		"both":                   {headers, named, "", client, "2222222222222222", transport, ""},
		"the headers alone":      {headers, "", "", transport, "1111111111111111", "", "v=transport"},
		"no form":                {headers, named[:len(named)-1], "", transport, "1111111111111111", "", "v=transport"},
		"upper case":             {headers, strings.ToUpper(strings.Replace(named, "2222", "abcd", 1)), "", transport, "1111111111111111", "", "v=transport"},
		"zeros":                  {headers, "00-" + strings.Repeat("0", 32) + "-2222222222222222-01", "", transport, "1111111111111111", "", "v=transport"},
		"a state without a form": {headers, named, "no form", client, "2222222222222222", transport, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, span := spanIn(t, c.headers, c.parent, c.state, telemetry.Seen{Agent: "files", Binding: "MCP", Method: "tools/call", Took: time.Second})
			if got := fmt.Sprintf("%x %x", span.TraceId, span.ParentSpanId); got != c.trace+" "+c.span || span.TraceState != c.onward {
				t.Errorf("the span is of %s %s; want %s %s %s", got, span.TraceState, c.trace, c.span, c.onward)
			}
			link := ""
			for _, l := range span.Links {
				link += fmt.Sprintf("%x", l.TraceId)
			}
			if link != c.link {
				t.Errorf("it links %q; want %q", link, c.link)
			}
		})
	}
}

func TestSpansFollowTheConventions(t *testing.T) {
	for name, c := range map[string]struct {
		seen   telemetry.Seen
		span   string
		has    map[string]string
		lacks  []string
		events int
	}{
		"a tool call": {
			telemetry.Seen{Agent: "files", Binding: "MCP", Method: "tools/call", Tool: "read_note", Decision: "allow", Mode: "require"},
			"tools/call read_note",
			map[string]string{"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_note", "network.transport": "tcp"},
			[]string{"error.type"},
			0,
		},
		"a denied tool call": {
			telemetry.Seen{Agent: "files", Binding: "MCP", Method: "tools/call", Tool: "read_note", Decision: "deny", Mode: "require", Reasons: []string{"capability_required", "frozen"}},
			"tools/call read_note",
			map[string]string{"error.type": "capability_required"},
			nil, 2,
		},
		"another method of MCP": {
			telemetry.Seen{Agent: "files", Binding: "MCP", Method: "tools/list", Decision: "allow"},
			"tools/list",
			map[string]string{"mcp.method.name": "tools/list"},
			[]string{"gen_ai.operation.name", "gen_ai.tool.name"},
			0,
		},
		"a message to an agent": {
			telemetry.Seen{Agent: "documents", Binding: "GRPC", Method: "SendMessage", Decision: "allow"},
			"invoke_agent documents",
			map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "documents"},
			[]string{"mcp.method.name", "error.type"},
			0,
		},
		"a question about a task": {
			telemetry.Seen{Agent: "documents", Binding: "GRPC", Method: "GetTask", Decision: "allow"},
			"powerbox GetTask",
			map[string]string{"gen_ai.agent.id": "documents"},
			[]string{"gen_ai.operation.name"},
			0,
		},
		"a call in mode observe that would have been denied": {
			telemetry.Seen{Agent: "documents", Binding: "GRPC", Method: "SendMessage", Decision: "abstain", Mode: "observe", Reasons: []string{"capability_required"}},
			"invoke_agent documents", nil,
			[]string{"error.type"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, span := spanOf(t, c.seen)
			if span.Name != c.span || span.Kind != trace.Span_SPAN_KIND_SERVER {
				t.Errorf("span %q of kind %s; want %q", span.Name, span.Kind, c.span)
			}
			got := map[string]string{}
			for _, a := range span.Attributes {
				got[a.Key] = a.Value.GetStringValue()
			}
			for key, want := range c.has {
				if got[key] != want {
					t.Errorf("%s is %q; want %q", key, got[key], want)
				}
			}
			for _, key := range c.lacks {
				if _, has := got[key]; has {
					t.Errorf("it has %s", key)
				}
			}
			if len(span.Events) != c.events || slices.ContainsFunc(span.Events, func(e *trace.Span_Event) bool { return e.Name != "powerbox.denial" }) {
				t.Errorf("events %v; want %d denials", span.Events, c.events)
			}
		})
	}
}

func TestOperationsOfMCPAreTimed(t *testing.T) {
	of, _ := spanOf(t, telemetry.Seen{Agent: "files", Binding: "MCP", Method: "tools/call", Tool: "read_note", Decision: "deny", Reasons: []string{"frozen"}, Took: 30 * time.Millisecond})
	server := httptest.NewRecorder()
	of.Handler().ServeHTTP(server, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	const want = `mcp_server_operation_duration_seconds_bucket{error_type="frozen",gen_ai_operation_name="execute_tool",gen_ai_tool_name="read_note",` +
		`mcp_method_name="tools/call",network_protocol_name="http",network_transport="tcp",le="0.05"} 1`
	if !strings.Contains(server.Body.String(), want) {
		t.Errorf("no line %s in\n%s", want, server.Body)
	}
}
