package telemetry_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/powerbox-project/powerbox/internal/telemetry"
)

// TestTheExporterIsChosenByTheEnvironment: a value that is not supported is refused at
// the start, with the variable and the values that are.
func TestTheExporterIsChosenByTheEnvironment(t *testing.T) {
	const all, otlp, traces = "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // in the error; "" for none
	}{
		{"nothing is said", nil, ""},
		{"none", map[string]string{all: "none"}, ""},
		{"console", map[string]string{all: "console"}, ""},
		{"otlp over http", map[string]string{all: "otlp", otlp: "http/protobuf"}, ""},
		{"otlp over grpc", map[string]string{otlp: "grpc"}, ""},
		{"traces go before all", map[string]string{otlp: "carrier/pigeon", traces: "grpc"}, ""},
		{"an exporter that is not linked", map[string]string{all: "zipkin"}, `telemetry.traces: OTEL_TRACES_EXPORTER is "zipkin"; want otlp, console or none`},
		{"a protocol that is not linked", map[string]string{otlp: "http/json"}, `telemetry.traces: OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"; want http/protobuf or grpc`},
		{"a protocol of traces that is not linked", map[string]string{otlp: "grpc", traces: "http/json"}, `telemetry.traces: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "http/json"; want http/protobuf or grpc`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{all, otlp, traces} {
				t.Setenv(name, c.env[name])
			}
			of, err := telemetry.New(telemetry.Build{})
			if err != nil {
				t.Fatal(err)
			}
			err = of.Trace(t.Context(), telemetry.Build{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Fatalf("got %v; want %q", err, c.want)
			}
			if err := of.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

type spans struct {
	collector.UnimplementedTraceServiceServer

	names chan string
}

func (s spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.names <- r.ResourceSpans[0].ScopeSpans[0].Spans[0].Name
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestSpansOverGRPC: a collector that speaks gRPC gets the span of a call.
func TestSpansOverGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := spans{names: make(chan string, 1)}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, got)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	of, err := telemetry.New(telemetry.Build{})
	if err == nil {
		err = of.Trace(t.Context(), telemetry.Build{})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, joined := of.Begin(t.Context(), time.Unix(0, 0), http.Header{}, "documents", "GRPC")
	id := joined("", "")
	of.End(ctx, telemetry.Seen{Agent: "documents", Method: "SendMessage", Decision: "allow"})
	if err := of.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name := <-got.names; name != "invoke_agent documents" || strings.Trim(id, "0") == "" {
		t.Errorf("span %q of trace %q", name, id)
	}
}
