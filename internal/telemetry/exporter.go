package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// spanExporter chooses where spans are sent to, by the variables of OpenTelemetry; nil
// for nowhere. The package autoexport would link the exporters of logs and metrics too.
func spanExporter(ctx context.Context) (sdk.SpanExporter, error) {
	switch name := cmp.Or(os.Getenv("OTEL_TRACES_EXPORTER"), "otlp"); name {
	case "otlp":
	case "console":
		return stdouttrace.New()
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; want otlp, console or none", name)
	}
	variable := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if os.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(os.Getenv(variable), "http/protobuf"); protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	default:
		return nil, fmt.Errorf("%s is %q; want http/protobuf or grpc", variable, protocol)
	}
}
