package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/internal/telemetry"
)

// receiver takes lines of the log by OTLP, over HTTP and over gRPC.
type receiver struct {
	collector.UnimplementedLogsServiceServer

	t          *testing.T
	http, grpc string           // its addresses
	answer     http.HandlerFunc // instead of an acceptance, or nil

	mu            sync.Mutex // guards the fields below
	requests      int
	lines         []*logs.LogRecord // accepted
	largest       int               // lines in one request
	resource      map[string]any    // of the last request
	paths, tokens []string          // of all accepted requests
	raw           bytes.Buffer      // the same
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	over := httptest.NewServer(r)
	t.Cleanup(over.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	collector.RegisterLogsServiceServer(srv, r)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	r.http, r.grpc = over.URL, "http://"+l.Addr().String()
	return r
}

// Export implements the service of OTLP.
func (r *receiver) Export(ctx context.Context, request *collector.ExportLogsServiceRequest) (*collector.ExportLogsServiceResponse, error) {
	m, _ := metadata.FromIncomingContext(ctx)
	body, err := proto.Marshal(request)
	r.take("", strings.Join(m.Get("authorization"), ","), request, body)
	return &collector.ExportLogsServiceResponse{}, err
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, h *http.Request) {
	var request collector.ExportLogsServiceRequest
	body, err := io.ReadAll(h.Body)
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		r.t.Error(err)
	}
	if r.answer != nil {
		r.mu.Lock()
		r.requests++
		r.mu.Unlock()
		r.answer(w, h)
		return
	}
	r.take(h.URL.Path, h.Header.Get("Authorization"), &request, body)
}

func (r *receiver) take(path, token string, request *collector.ExportLogsServiceRequest, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.raw.Write(body)
	r.paths, r.tokens = append(r.paths, path), append(r.tokens, token)
	for _, of := range request.ResourceLogs {
		r.resource = values(of.Resource.Attributes)
		for _, s := range of.ScopeLogs {
			r.lines, r.largest = append(r.lines, s.LogRecords...), max(r.largest, len(s.LogRecords))
		}
	}
}

// values are attributes as Go has them.
func values(all []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range all {
		out[a.Key] = value(a.Value)
	}
	return out
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_KvlistValue:
		return values(v.KvlistValue.Values)
	case *common.AnyValue_ArrayValue:
		out := []any{}
		for _, e := range v.ArrayValue.Values {
			out = append(out, value(e))
		}
		return out
	default:
		return nil
	}
}

// sending is telemetry that sends a log to a receiver over HTTP, and that log. What it
// writes to standard error is in the buffer.
func (r *receiver) sending(t *testing.T) (of *telemetry.Telemetry, log *slog.Logger, stderr *bytes.Buffer) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.http)
	return sending(t)
}

func sending(t *testing.T) (of *telemetry.Telemetry, log *slog.Logger, stderr *bytes.Buffer) {
	t.Helper()
	of, err := telemetry.New(telemetry.Build{Version: "1"})
	if err == nil {
		err = of.SendLog(t.Context(), telemetry.Build{Version: "1"})
	}
	if err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	return of, of.Log(slog.New(slog.NewJSONHandler(stderr, nil))), stderr
}

// dropped are the lines that were not exported, as Prometheus reads them.
func dropped(of *telemetry.Telemetry, reason string) string {
	w := httptest.NewRecorder()
	of.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	_, after, _ := strings.Cut(w.Body.String(), `powerbox_logs_dropped_total{reason="`+reason+`"} `)
	n, _, _ := strings.Cut(after, "\n")
	return n
}

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-end:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// A line of the log is exported over both protocols, with the span of its call and the values
// of standard error.
func TestALineOfTheLogIsExported(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			r := newReceiver(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", map[string]string{"grpc": r.grpc, "http/protobuf": r.http}[protocol])
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20of-the-collector")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			t.Setenv("OTEL_SERVICE_NAME", "gateway of documents")
			t.Setenv("OTEL_TRACES_EXPORTER", "none")
			of, log, stderr := sending(t)
			if err := of.Trace(t.Context(), telemetry.Build{Version: "1"}); err != nil {
				t.Fatal(err)
			}
			ctx, joined := of.Begin(t.Context(), received, http.Header{}, "documents", "JSONRPC")
			log.InfoContext(ctx, "before the message was read")
			id := joined("", "")
			onward := http.Header{}
			of.Continue(ctx, onward)
			log = log.With("agent", "documents").WithGroup("call")
			log.DebugContext(ctx, "a level that the log does not have")
			log.WarnContext(ctx, "a message", slog.String("method", "SendMessage"), slog.Group("limits", slog.Int("uses", 3), slog.Bool("renew", true)),
				slog.Any("error", errors.New("gone")), slog.Duration("took", time.Second), slog.Time("at", received.UTC()), slog.Any("servers", []string{"a", "b"}))
			log.ErrorContext(t.Context(), "outside of a call")
			if err := of.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(r.lines) != 3 || r.tokens[0] != "Bearer of-the-collector" {
				t.Fatalf("%d lines with the token %q", len(r.lines), r.tokens)
			}
			for n, line := range r.lines {
				if got := fmt.Sprintf("00-%x-%x-01", line.TraceId, line.SpanId); (got == onward.Get("Traceparent")) != (n == 1) || n != 1 && len(line.TraceId)+len(line.SpanId) > 0 {
					t.Errorf("line %d is of %s; the span is %s of %s", n, got, onward, id)
				}
			}
			line := r.lines[1]
			if line.SeverityNumber != logs.SeverityNumber_SEVERITY_NUMBER_WARN || line.SeverityText != "WARN" || line.Body.GetStringValue() != "a message" || line.TimeUnixNano == 0 || line.ObservedTimeUnixNano < line.TimeUnixNano {
				t.Errorf("%v", line)
			}
			if r.lines[0].SeverityNumber != 9 || r.lines[2].SeverityNumber != 17 {
				t.Errorf("severities %d and %d; want 9 and 17", r.lines[0].SeverityNumber, r.lines[2].SeverityNumber)
			}
			want := map[string]any{"agent": "documents", "call": map[string]any{
				"method": "SendMessage", "limits": map[string]any{"uses": int64(3), "renew": true}, "error": "gone",
				"took": int64(time.Second), "at": "2026-09-21T14:13:20Z", "servers": []any{"a", "b"},
			}}
			if diff := cmp.Diff(want, values(line.Attributes)); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]any{"service.name": "gateway of documents", "service.version": "1", "deployment.environment.name": "test"}, r.resource); diff != "" {
				t.Errorf("resource (-want +got):\n%s", diff)
			}
			written := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if len(written) != 3 || !strings.HasSuffix(written[1], `"level":"WARN","msg":"a message","agent":"documents","call":{"method":"SendMessage","limits":{"uses":3,"renew":true},"error":"gone","took":1000000000,"at":"2026-09-21T14:13:20Z","servers":["a","b"]}}`) {
				t.Errorf("standard error: %s", stderr)
			}
		})
	}
}

// TestExportedLinesKeepAttributesAndGroups holds them to the rules of handlers of package slog.
func TestExportedLinesKeepAttributesAndGroups(t *testing.T) {
	r := newReceiver(t)
	of, log, _ := r.sending(t)
	err := slogtest.TestHandler(log.Handler(), func() (all []map[string]any) {
		if err := of.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, line := range r.lines {
			m := values(line.Attributes)
			m[slog.MessageKey], m[slog.LevelKey] = line.Body.GetStringValue(), line.SeverityText
			if line.TimeUnixNano > 0 {
				m[slog.TimeKey] = line.TimeUnixNano
			}
			all = append(all, m)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTheLogsVariablesGoFirst: the variables of logs go before those of all signals.
func TestTheLogsVariablesGoFirst(t *testing.T) {
	r := newReceiver(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": r.http + "/own/path",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier/pigeon", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=all", "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "authorization=logs",
	} {
		t.Setenv(name, value)
	}
	of, log, _ := sending(t)
	log.InfoContext(t.Context(), "a line")
	if err := of.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.paths) != 1 || r.paths[0] != "/own/path" || r.tokens[0] != "logs" {
		t.Errorf("paths %q, tokens %q", r.paths, r.tokens)
	}
}

// TestTheLogsExporterIsChosenByTheEnvironment is the counterpart of the test for spans.
func TestTheLogsExporterIsChosenByTheEnvironment(t *testing.T) {
	const own, otlp, logs = "OTEL_LOGS_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL"
	for _, c := range []struct {
		name  string
		env   map[string]string
		sends bool
		want  string
	}{
		{"nothing is said", nil, true, ""},
		{"otlp over grpc", map[string]string{own: "otlp", otlp: "grpc"}, true, ""},
		{"none", map[string]string{own: "none", otlp: "carrier/pigeon"}, false, ""},
		{"the console, where the log is already", map[string]string{own: "console"}, false, `telemetry.logs: OTEL_LOGS_EXPORTER is "console"; want otlp or none`},
		{"a protocol that is not linked", map[string]string{otlp: "http/json"}, false, `telemetry.logs: OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"; want http/protobuf or grpc`},
		{"a protocol of logs that is not linked", map[string]string{otlp: "grpc", logs: "http/json"}, false, `telemetry.logs: OTEL_EXPORTER_OTLP_LOGS_PROTOCOL is "http/json"; want http/protobuf or grpc`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{own, otlp, logs} {
				t.Setenv(name, c.env[name])
			}
			of, err := telemetry.New(telemetry.Build{})
			if err != nil {
				t.Fatal(err)
			}
			err = of.SendLog(t.Context(), telemetry.Build{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Fatalf("got %v; want %q", err, c.want)
			}
			if plain := slog.New(slog.DiscardHandler); (of.Log(plain) != plain) != c.sends {
				t.Errorf("the log is sent: %t; want %t", !c.sends, c.sends)
			}
			if err := of.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// redacting values show a canary to package fmt, and something else to the log.
type (
	hidden  struct{ text string }
	holding struct {
		Name   string
		secret hidden
	}
	failing struct{ text string }
	own     struct{ text string }
)

func (hidden) LogValue() slog.Value            { return slog.StringValue("REDACTED") }
func (own) MarshalJSON() ([]byte, error)       { return []byte(`{"kept":"REDACTED"}`), nil }
func (o own) Error() string                    { return o.text }
func (f failing) MarshalJSON() ([]byte, error) { panic(f.text) }

const canary = "canary-5b1e07c4"

// TestRedactedValuesAreExportedAsTheLogHasThem: the receiver gets no more of a value than
// standard error.
func TestRedactedValuesAreExportedAsTheLogHasThem(t *testing.T) {
	r := newReceiver(t)
	of, log, stderr := r.sending(t)
	log = log.With("with", hidden{canary}).WithGroup("group").With("held", holding{"open", hidden{canary}})
	log.InfoContext(t.Context(), "a line", "value", hidden{canary}, "held", &holding{"open", hidden{canary}}, "own", own{canary},
		"many", []any{own{canary}, holding{"open", hidden{canary}}}, slog.Group("deep", slog.Any("of", map[string]own{"key": {canary}})))
	if err := of.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(r.raw.String(), "REDACTED"); n != 5 || strings.Contains(r.raw.String(), canary) || strings.Contains(stderr.String(), canary) {
		t.Errorf("%d values are redacted; want 5\nstandard error: %sreceived: %v", n, stderr, r.lines)
	}
	var written map[string]any
	if err := json.Unmarshal(stderr.Bytes(), &written); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(written, name)
	}
	if diff := cmp.Diff(written, values(r.lines[0].Attributes)); diff != "" {
		t.Errorf("standard error and the receiver differ (-standard error +receiver):\n%s", diff)
	}
}

// TestAValueThatPanicsEndsNoCall: package slog says so in its line, and the exporter's line too.
func TestAValueThatPanicsEndsNoCall(t *testing.T) {
	r := newReceiver(t)
	of, log, _ := r.sending(t)
	log.InfoContext(t.Context(), "a line", "value", failing{canary}, "none", nil, "channel", make(chan int))
	if err := of.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := values(r.lines[0].Attributes)
	if got["value"] != "!PANIC" || !strings.HasPrefix(fmt.Sprint(got["channel"]), "!ERROR:") || strings.Contains(r.raw.String(), canary) {
		t.Errorf("%v", got)
	}
}

// TestLinesAboveTheQueueAreCounted: standard error has all lines, the receiver those that
// the queue took, and the metrics the others.
func TestLinesAboveTheQueueAreCounted(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "4")
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "3600000")
	hold := make(chan struct{})
	var once sync.Once
	accept := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, h *http.Request) {
		<-hold
		r.ServeHTTP(w, h)
	}))
	t.Cleanup(accept.Close)
	t.Cleanup(func() { once.Do(func() { close(hold) }) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", accept.URL)
	of, log, stderr := sending(t)
	if full, failed := dropped(of, "queue_full"), dropped(of, "export_failed"); full != "0" || failed != "0" {
		t.Errorf("before any line, %q and %q are dropped; want 0", full, failed)
	}
	for range 100 {
		log.InfoContext(t.Context(), "a line")
	}
	if full := dropped(of, "queue_full"); full != "90" {
		t.Errorf("%s lines are dropped; want 90", full)
	}
	once.Do(func() { close(hold) })
	if err := of.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.lines) != 10 || r.largest > 4 || strings.Count(stderr.String(), "\n") != 100 || dropped(of, "export_failed") != "0" {
		t.Errorf("%d lines came, %d at once; want 10 and at most 4. Standard error has %d; want 100", len(r.lines), r.largest, strings.Count(stderr.String(), "\n"))
	}
}

// TestAFailedExportIsCountedAndNotLogged: the lines of a batch that is refused are dropped,
// no further line comes of it, and the end of the program is no failure.
func TestAFailedExportIsCountedAndNotLogged(t *testing.T) {
	r := newReceiver(t)
	r.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "10")
	of, log, stderr := r.sending(t)
	for n := range 3 {
		log.InfoContext(t.Context(), "a line")
		until(t, "the line is dropped", func() bool { return dropped(of, "export_failed") == fmt.Sprint(n+1) })
	}
	if err := of.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if r.requests != 3 || strings.Count(stderr.String(), "\n") != 3 || dropped(of, "queue_full") != "0" {
		t.Errorf("%d requests for 3 lines\n%s", r.requests, stderr)
	}
}

// TestTheEndWaitsForTheReceiverWithinItsTime, and counts the lines that it did not take.
func TestTheEndWaitsForTheReceiverWithinItsTime(t *testing.T) {
	r := newReceiver(t)
	r.answer = func(_ http.ResponseWriter, h *http.Request) { <-h.Context().Done() }
	of, log, _ := r.sending(t)
	for range 5 {
		log.InfoContext(t.Context(), "a line")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- of.Close(ctx) }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(8 * time.Second): // less than the time of an export
		t.Fatal("it waits for the receiver")
	}
	if n := dropped(of, "export_failed"); n != "5" {
		t.Errorf("%s lines are counted as dropped; want 5", n)
	}
}

// TestTheTimeOfAnExportIsBounded by the variable of OpenTelemetry.
func TestTheTimeOfAnExportIsBounded(t *testing.T) {
	r := newReceiver(t)
	r.answer = func(_ http.ResponseWriter, h *http.Request) { <-h.Context().Done() }
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BLRP_EXPORT_TIMEOUT", "100")
	of, log, _ := r.sending(t)
	log.InfoContext(t.Context(), "a line")
	until(t, "the line is dropped", func() bool { return dropped(of, "export_failed") == "1" })
	if err := of.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
