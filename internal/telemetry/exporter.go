package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	logs "go.opentelemetry.io/otel/sdk/log"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// spanExporter chooses where spans are sent to, by the variables of OpenTelemetry; nil
// for nowhere. The package autoexport would link the exporters of metrics too.
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
	switch protocol, err := protocolOf("TRACES"); protocol {
	case overGRPC:
		return otlptracegrpc.New(ctx)
	case overHTTP:
		return otlptracehttp.New(ctx)
	default:
		return nil, err
	}
}

// logExporter is spanExporter for lines of the log. Those are on standard error already,
// so there is no exporter to the console.
func logExporter(ctx context.Context) (logs.Exporter, error) {
	switch name := cmp.Or(os.Getenv("OTEL_LOGS_EXPORTER"), "otlp"); name {
	case "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("OTEL_LOGS_EXPORTER is %q; want otlp or none", name)
	}
	switch protocol, err := protocolOf("LOGS"); protocol {
	case overGRPC:
		return otlploggrpc.New(ctx)
	case overHTTP:
		return otlploghttp.New(ctx)
	default:
		return nil, err
	}
}

// The protocols of OTLP that are linked.
const (
	overHTTP = "http/protobuf"
	overGRPC = "grpc"
)

// protocolOf is the protocol of a signal, "" with an error for one that is not linked.
func protocolOf(signal string) (string, error) {
	variable := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	if os.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch protocol := cmp.Or(os.Getenv(variable), overHTTP); protocol {
	case overGRPC, overHTTP:
		return protocol, nil
	default:
		return "", fmt.Errorf("%s is %q; want %s or %s", variable, protocol, overHTTP, overGRPC)
	}
}
