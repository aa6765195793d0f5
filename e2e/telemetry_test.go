package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// metrics reads what an address tells, by series.
func metrics(t *testing.T, address string) map[string]string {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 {
				name, value = lines.Text()[:i], lines.Text()[i+1:]
			}
			out[name] = value
		}
	}
	return out
}

// becomes waits until something holds. The counters change when a call is
// over, a moment after its caller may see that.
func becomes(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// counted expects a series to get to a value.
func counted(t *testing.T, address, series, value string) {
	t.Helper()
	var last map[string]string
	defer func() {
		if t.Failed() {
			for name, v := range last {
				if strings.HasPrefix(name, strings.SplitN(series, "{", 2)[0]) {
					t.Log(name, v)
				}
			}
		}
	}()
	becomes(t, series+" "+value, func() bool {
		last = metrics(t, address)
		return last[series] == value
	})
}

func telemetryAt(t *testing.T, more string) (address, section string) {
	address = "127.0.0.1:" + freePort(t)
	return address, "telemetry: {listen: '" + address + "'" + more + "}\n"
}

// TestMetrics makes calls of every fate and reads what the server counted.
func TestMetrics(t *testing.T) {
	agent := newRawAgent(t)
	agent.quiet()
	address, section := telemetryAt(t, "")
	w := start(t, options{extra: section})
	w.again(func() { w.rewrite("powerbox.yaml", w.mail.url, agent.url) })
	alice := w.caller(aliceToken)
	c := alice.reports()
	allowed(t, alice.search(c.Token)) // invoked and sent
	if a := alice.send("documents", data("search_documents", nil)); a.reason() != "capability_required" {
		t.Fatalf("%s", a.Raw)
	}
	counted(t, address, `powerbox_calls_total{agent="documents",basis="capability",binding="JSONRPC",decision="allow",method="a2a/skill/invoke",mode="require"}`, "1")
	counted(t, address, `powerbox_calls_total{agent="documents",basis="",binding="JSONRPC",decision="deny",method="SendMessage",mode="require"}`, "1")
	counted(t, address, `powerbox_calls_total{agent="documents",basis="",binding="JSONRPC",decision="answered",method="a2a/capabilities/request",mode="require"}`, "1")
	counted(t, address, `powerbox_denials_total{agent="documents",mode="require",reason="capability_required"}`, "1")
	for _, step := range []string{"decide", "record"} {
		counted(t, address, `powerbox_`+step+`_duration_seconds_count{agent="documents"}`, "3")
	}
	counted(t, address, `powerbox_upstream_duration_seconds_count{agent="documents"}`, "2")
	counted(t, address, `powerbox_revocation_sequence`, "1") // the card of mail is another one
	w.run("revoke", c.ID)
	counted(t, address, `powerbox_revocation_sequence`, "2")
	m := metrics(t, address)
	for _, series := range []string{"powerbox_commit_duration_seconds_count", "powerbox_commit_changes_count", "powerbox_evidence_records", "go_goroutines", "process_open_fds"} {
		if m[series] == "" || m[series] == "0" {
			t.Errorf("%s is %q", series, m[series])
		}
	}
	if n := len(slices.Collect(func(yield func(string) bool) {
		for name := range m {
			if strings.HasPrefix(name, "powerbox_build_info{") && !yield(name) {
				return
			}
		}
	})); n != 1 {
		t.Errorf("%d lines about the build; want 1", n)
	}
	whole := fmt.Sprint(m)
	for _, secret := range []string{"alice", c.ID, c.ResourceHandles[0].Handle, w.dir} {
		if strings.Contains(whole, secret) {
			t.Errorf("the metrics tell of %s", secret)
		}
	}
}

// TestMetricsOfStreams counts open streams, and those that were cut.
func TestMetricsOfStreams(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	agent.quiet()
	address, section := telemetryAt(t, "")
	w := behind(t, agent.stock, "observe", section)
	stream := w.open("documents", streaming(), nil)
	counted(t, address, `powerbox_streams_open{agent="documents"}`, "1")
	w.run("freeze", "agent:documents", "--reason", "r")
	stream.cut("frozen")
	counted(t, address, `powerbox_streams_open{agent="documents"}`, "0")
	counted(t, address, `powerbox_streams_cut_total{agent="documents",reason="frozen"}`, "1")
}

// TestMetricsAreOffAndApart: without the setting nothing listens, and the main
// address never has them.
func TestMetricsAreOffAndApart(t *testing.T) {
	_, section := telemetryAt(t, "")
	for _, extra := range []string{"", section} {
		w := start(t, options{extra: extra})
		r, err := http.Get(w.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusNotFound {
			t.Errorf("the main address answers /metrics with %s", r.Status)
		}
	}
}

// newCollector keeps the spans that are sent to it.
func newCollector(t *testing.T) func() []*spans.Span {
	var mu sync.Mutex
	var all []*spans.Span
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Errorf("spans: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range got.ResourceSpans {
			for _, s := range r.ScopeSpans {
				all = append(all, s.Spans...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	return func() []*spans.Span {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func attributes(s *spans.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetStringValue()
		for _, v := range a.Value.GetArrayValue().GetValues() {
			out[a.Key] += v.GetStringValue() + " "
		}
	}
	return out
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
)

// TestTheLogIsJSON: messages of libraries are lines like ours, here about traces that no
// collector accepts.
func TestTheLogIsJSON(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:"+freePort(t))
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	w := start(t, options{extra: "telemetry: {traces: true}\n"})
	w.caller(aliceToken).reports()
	eventually(t, patience, func() string { return "nothing is said of traces: " + w.log.String() }, func() bool { return strings.Contains(w.log.String(), "traces export") })
	for line := range strings.Lines(w.log.String()) {
		if !json.Valid([]byte(line)) && !strings.HasPrefix(line, "NOT SAFE") {
			t.Errorf("no JSON: %s", line)
		}
	}
}

// TestTraces continues the trace of a caller and hands its own span on.
func TestTraces(t *testing.T) {
	got := newCollector(t)
	w := start(t, options{extra: "telemetry: {traces: true}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	body := data("search_documents", map[string]any{"query": "hidden words"})
	args := map[string]any{"query": "hidden words"}
	h := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch, arguments: args})
	h.Set("traceparent", "00-"+parentTrace+"-"+parentSpan+"-01")
	h.Set("tracestate", "vendor=theirs")
	h.Set("baggage", "user=alice")
	a := w.post(w.agentURL("documents"), body, h)
	allowed(t, a)
	denied := alice.send("documents", data("search_documents", nil))
	sent := w.documents.got()[0].header
	w.again(func() {})
	byID := map[string]*spans.Span{}
	for _, s := range got() {
		byID[attributes(s)["powerbox.decision_id"]] = s
		if text := s.String(); strings.Contains(text, "hidden") || strings.Contains(text, "alice") || strings.Contains(text, c.Token) {
			t.Errorf("a span tells too much: %s", text)
		}
	}
	s := byID[a.Header.Get("Powerbox-Decision")]
	if s == nil {
		t.Fatalf("no span of the call\n%s", w.log)
	}
	at := attributes(s)
	if fmt.Sprintf("%x", s.TraceId) != parentTrace || fmt.Sprintf("%x", s.ParentSpanId) != parentSpan || s.Name != "invoke_agent documents" || at["gen_ai.operation.name"] != "invoke_agent" ||
		at["powerbox.decision"] != "allow" || at["powerbox.agent"] != "documents" || at["powerbox.binding"] != "JSONRPC" || at["powerbox.basis"] != "capability" {
		t.Errorf("%s", s)
	}
	if want := fmt.Sprintf("00-%s-%x-01", parentTrace, s.SpanId); sent.Get("traceparent") != want || sent.Get("tracestate") != "vendor=theirs" {
		t.Errorf("the agent behind got %q, %q; want %q", sent.Get("traceparent"), sent.Get("tracestate"), want)
	}
	// What named no trace begins one, which its record names.
	s = byID[denied.Header.Get("Powerbox-Decision")]
	if s == nil || attributes(s)["powerbox.reasons"] != "capability_required " || len(s.Events) != 1 || s.Events[0].Name != "powerbox.denial" || w.decided(denied).Powerbox.TraceID != fmt.Sprintf("%x", s.TraceId) {
		t.Errorf("the denied call: %s", s)
	}
}

// TestTracesAreOff: without traces the headers of callers pass as they are.
func TestTracesAreOff(t *testing.T) {
	got := newCollector(t)
	w := start(t, options{mode: "observe"})
	sent := http.Header{"Traceparent": {"00-" + parentTrace + "-" + parentSpan + "-01"}, "Tracestate": {"vendor=theirs"}}
	a := w.post(w.agentURL("documents"), data("search_documents", nil), sent)
	if behind := w.documents.got()[0].header; behind.Get("traceparent") != sent.Get("traceparent") || behind.Get("tracestate") != "vendor=theirs" {
		t.Errorf("the agent behind got %q", behind)
	}
	if r := w.decided(a); r.Powerbox.TraceID != parentTrace {
		t.Errorf("recorded as of trace %q", r.Powerbox.TraceID)
	}
	w.again(func() {})
	if n := len(got()); n > 0 {
		t.Errorf("%d spans", n)
	}
}

// TestTracesOfMCPMessages has a stock client of MCP name its trace in _meta, as SEP-414
// says. The span and the record of the call are part of that trace. A trace that cannot be
// read, or is too long, is ignored. The server gets the members as the client wrote them,
// and the span in the headers.
func TestTracesOfMCPMessages(t *testing.T) {
	got := newCollector(t)
	type came struct {
		meta   mcp.Meta
		header http.Header
	}
	calls := make(chan came, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "documents", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "search_documents", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls <- came{r.Params.Meta, r.Extra.Header}
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
	})
	upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(upstream.Close)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: upstream.URL, extra: "telemetry: {traces: true}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	s := connect(t, w.agentURL("documents"), presenting{alice, func() string { return c.ID }}, nil)
	trace := func(n int) string { return fmt.Sprintf("%032x", n) }
	named := func(n int) string { return "00-" + trace(n) + "-" + parentSpan + "-01" }
	for n, c := range map[int]struct {
		meta  mcp.Meta
		state string
		part  bool
	}{
		1: {mcp.Meta{"traceparent": named(1), "tracestate": "vendor=theirs"}, "vendor=theirs", true},
		2: {mcp.Meta{"traceparent": named(2)}, "", true},
		3: {mcp.Meta{"traceparent": named(3), "tracestate": "v=" + strings.Repeat("a", 600)}, "", true},
		4: {mcp.Meta{"traceparent": named(4) + strings.Repeat("a", 600)}, "", false},
		5: {mcp.Meta{"traceparent": strings.TrimSuffix(named(5), "1")}, "", false},
		6: {mcp.Meta{"tracestate": "vendor=theirs"}, "", false},
	} {
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Meta: c.meta, Name: "search_documents", Arguments: map[string]any{}}); err != nil {
			t.Fatalf("%v: %v", c.meta, err)
		}
		at := <-calls
		if at.meta["traceparent"] != c.meta["traceparent"] || at.meta["tracestate"] != c.meta["tracestate"] {
			t.Errorf("%.80v: the server got %.80v", c.meta, at.meta)
		}
		parent := at.header.Get("Traceparent")
		if strings.Contains(parent, trace(n)) != c.part || len(parent) != len(named(n)) || strings.Contains(parent, parentSpan) || at.header.Get("Tracestate") != c.state {
			t.Errorf("%.80v: the server got the trace %q %q", c.meta, parent, at.header.Get("Tracestate"))
		}
		if recorded := len(w.records("trace="+trace(n))) > 0; recorded != c.part {
			t.Errorf("%.80v: of its trace: %t; want %t", c.meta, recorded, c.part)
		}
	}
	w.again(func() {})
	tools := 0
	for _, span := range got() {
		if span.Name != "tools/call search_documents" {
			continue
		}
		tools++
		if ours := strings.HasPrefix(fmt.Sprintf("%x", span.TraceId), trace(0)[:24]); ours != (fmt.Sprintf("%x", span.ParentSpanId) == parentSpan) {
			t.Errorf("the span of trace %x is under %x", span.TraceId, span.ParentSpanId)
		}
	}
	if tools != 6 || strings.Contains(w.log.String(), "aaaa") || strings.Contains(w.log.String(), "theirs") {
		t.Errorf("%d spans of 6 calls, or the log repeats a client\n%s", tools, w.log)
	}
}
