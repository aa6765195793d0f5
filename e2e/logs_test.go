package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	logcollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// otlp is a collector that takes spans and lines of the log, over HTTP and gRPC.
type otlp struct {
	logcollector.UnimplementedLogsServiceServer

	mu        sync.Mutex
	refuses   bool
	requests  int // about the log
	lines     []*logs.LogRecord
	spans     []*spans.Span
	resources map[string]*resource.Resource // by signal
	raw       bytes.Buffer
}

// spansOf is the other service of the same collector.
type spansOf struct {
	collector.UnimplementedTraceServiceServer
	*otlp
}

// newOTLP starts a collector, to which the programs that are started afterwards send.
func newOTLP(t *testing.T, protocol string) *otlp {
	t.Helper()
	o := &otlp{resources: map[string]*resource.Resource{}}
	over := httptest.NewServer(o)
	t.Cleanup(over.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	logcollector.RegisterLogsServiceServer(srv, o)
	collector.RegisterTraceServiceServer(srv, spansOf{otlp: o})
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", map[string]string{"http/protobuf": over.URL, "grpc": "http://" + l.Addr().String()}[protocol])
	return o
}

// Export implements the service for the log.
func (o *otlp) Export(_ context.Context, r *logcollector.ExportLogsServiceRequest) (*logcollector.ExportLogsServiceResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	data, err := proto.Marshal(r)
	o.raw.Write(data)
	for _, of := range r.ResourceLogs {
		o.resources["logs"] = of.Resource
		for _, s := range of.ScopeLogs {
			o.lines = append(o.lines, s.LogRecords...)
		}
	}
	return &logcollector.ExportLogsServiceResponse{}, err
}

// Export implements the service for spans.
func (o spansOf) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, of := range r.ResourceSpans {
		o.resources["spans"] = of.Resource
		for _, s := range of.ScopeSpans {
			o.spans = append(o.spans, s.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP implements [http.Handler].
func (o *otlp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/v1/logs":
		var got logcollector.ExportLogsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err == nil {
			_, err = o.Export(r.Context(), &got)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.refuses {
			http.Error(w, "the collector is full", http.StatusBadRequest)
			return
		}
	case "/v1/traces":
		var got collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err == nil {
			_, err = spansOf{otlp: o}.Export(r.Context(), &got)
		}
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// texts are the messages of the lines that came.
func (o *otlp) texts() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lines {
		all = append(all, l.Body.GetStringValue())
	}
	return all
}

// logged are the messages of a program's log, without those of libraries, which go to
// standard error alone.
func logged(t *testing.T, log string) (all []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var l struct{ Msg string }
		if strings.HasPrefix(line, "NOT SAFE") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, l.Msg)
	}
	return all
}

// ends has a program end.
func ends(t *testing.T, p *exec.Cmd) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the program ends", func() bool { return syscall.Kill(p.Process.Pid, 0) != nil })
}

// TestLogsOverOTLP has the built program send its log to a collector, over both protocols
// and from a remote gateway. Each line of standard error comes, a denial's with the span of
// its call, and no secret and no word of an agent or caller.
func TestLogsOverOTLP(t *testing.T) {
	const secret = "canary-62d0a9b7c1f4"
	for name, c := range map[string]struct {
		protocol string
		apart    bool
	}{"HTTP": {"http/protobuf", false}, "gRPC": {"grpc", false}, "a remote gateway": {"http/protobuf", true}} {
		t.Run(name, func(t *testing.T) {
			o := newOTLP(t, c.protocol)
			t.Setenv("OTEL_SERVICE_NAME", "powerbox-test")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			file := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			credential := "    credential: {file: " + file + ", header: X-Api-Key}\n"
			var w *town
			var log *programtest.Log
			var process *exec.Cmd
			if c.apart {
				var all []*replica
				w, all = startRemote(t, 1, options{extra: "limits: {denials: 2}\n"}, "--logs", "--traces")
				log, process = all[0].log, all[0].process
			} else {
				w = start(t, options{agent: credential, extra: "telemetry: {traces: true, logs: true}\nlimits: {denials: 2}\n"})
				log, process = w.log, w.process
			}
			w.documents.sees(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("X-Said-Back", r.Header.Get("X-Api-Key"))
			})
			alice := w.caller(aliceToken)
			held := alice.reports()
			allowed(t, alice.search(held.Token))
			for range 4 {
				if a := alice.send("documents", data("search_documents", map[string]any{"query": "words-of-a-caller"})); a.reason() != "capability_required" {
					t.Fatalf("%s", a.Raw)
				}
			}
			ends(t, process)
			// Of two lines at one moment, either may come first.
			want, got := slices.Sorted(slices.Values(logged(t, log.String()))), slices.Sorted(slices.Values(o.texts()))
			if len(want) < 2 || strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("the collector has\n%s\nand standard error\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			denials := 0
			for _, l := range o.lines {
				if !strings.Contains(l.Body.GetStringValue(), "denied again and again") {
					continue
				}
				denials++
				at := map[string]string{}
				for _, a := range l.Attributes {
					at[a.Key] = a.Value.GetStringValue()
				}
				if l.SeverityNumber != logs.SeverityNumber_SEVERITY_NUMBER_WARN || at["agent"] != "documents" || at["reason"] != "capability_required" {
					t.Errorf("the line of the denial: %v", l)
				}
				var of *spans.Span
				for _, s := range o.spans {
					if bytes.Equal(s.TraceId, l.TraceId) && bytes.Equal(s.SpanId, l.SpanId) {
						of = s
					}
				}
				if of == nil || len(of.Events) != 1 || of.Events[0].Name != "powerbox.denial" {
					t.Errorf("the line is of the trace %x and span %x, which is %v", l.TraceId, l.SpanId, of)
				}
			}
			if denials != 1 {
				t.Errorf("%d lines about denials; want 1", denials)
			}
			for _, hidden := range []string{secret, "words-of-a-caller", held.Token, aliceToken} {
				if bytes.Contains(o.raw.Bytes(), []byte(hidden)) || strings.Contains(log.String(), hidden) {
					t.Errorf("the log has %s", hidden)
				}
			}
			if got := fmt.Sprint(o.resources["logs"].Attributes); got != fmt.Sprint(o.resources["spans"].Attributes) || !strings.Contains(got, "powerbox-test") || !strings.Contains(got, "deployment.environment.name") {
				t.Errorf("the resource of the log is %s", got)
			}
		})
	}
}

// TestACollectorThatRefusesTheLog: standard error says so, which is not sent again, and the
// metrics count each line. The program ends as it should.
func TestACollectorThatRefusesTheLog(t *testing.T) {
	o := newOTLP(t, "http/protobuf")
	o.refuses = true
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
	address, section := telemetryAt(t, ", logs: true")
	w := start(t, options{extra: section})
	eventually(t, patience, func() string { return "nothing is said of it: " + w.log.String() }, func() bool { return strings.Contains(w.log.String(), "logs export: ") })
	lines := func() (own int) {
		for _, text := range logged(t, w.log.String()) {
			if !strings.Contains(text, "logs export: ") {
				own++
			}
		}
		return own
	}
	eventually(t, patience, func() string { return "the metrics do not have the lines of " + w.log.String() }, func() bool {
		return metrics(t, address)[`powerbox_logs_dropped_total{reason="export_failed"}`] == fmt.Sprint(lines())
	})
	before := len(o.texts())
	quiet := time.NewTimer(time.Second) // fifty times the delay after which a line would be sent
	<-quiet.C
	if after := o.texts(); len(after) != before || strings.Contains(strings.Join(after, "\n"), "logs export") {
		t.Errorf("%d lines were sent, and %d after a second\n%s", before, len(after), strings.Join(after, "\n"))
	}
}

// TestLogsAreOff: without the setting nothing is sent, whatever the environment says.
func TestLogsAreOff(t *testing.T) {
	o := newOTLP(t, "http/protobuf")
	t.Setenv("OTEL_LOGS_EXPORTER", "otlp")
	w := start(t, options{extra: "telemetry: {traces: true}\n"})
	w.caller(aliceToken).reports()
	w.again(func() {})
	if got := o.texts(); len(got) > 0 {
		t.Errorf("%d lines", len(got))
	}
}
