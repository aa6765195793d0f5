package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracing makes spans and sends them on.
type tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	// Of what callers send, traceparent and tracestate alone are understood:
	// baggage is words of theirs, which would continue under our name.
	headers propagation.TraceContext
}

// Trace begins to trace. Where spans are sent to, and how many, the OTEL_*
// variables of the environment say, as OpenTelemetry has them.
func (t *Telemetry) Trace(ctx context.Context, b Build) error {
	e, err := spanExporter(ctx)
	if err != nil {
		return fmt.Errorf("telemetry.traces: %w", err)
	}
	// What OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say goes over ours.
	r, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "powerbox"), attribute.String("service.version", b.Version)), resource.Environment())
	if err != nil {
		return fmt.Errorf("telemetry.traces: %w", err)
	}
	of := []sdk.TracerProviderOption{sdk.WithResource(r)}
	if e != nil {
		of = append(of, sdk.WithBatcher(e))
	}
	p := sdk.NewTracerProvider(of...)
	t.tracing = &tracing{provider: p, tracer: p.Tracer("powerbox")}
	return nil
}

// Begin begins the span of a call, as part of the trace that the caller's
// headers name. It returns the trace's id, "" where nothing is traced.
func (t *Telemetry) Begin(ctx context.Context, h http.Header, agent, binding string) (context.Context, string) {
	if t == nil || t.tracing == nil {
		return ctx, ""
	}
	ctx = t.tracing.headers.Extract(ctx, propagation.HeaderCarrier(h))
	ctx, span := t.tracing.tracer.Start(ctx, "powerbox", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("powerbox.agent", agent), attribute.String("powerbox.binding", binding)))
	return ctx, span.SpanContext().TraceID().String()
}

// Continue makes the headers of a request to the agent behind name the call's
// span as the parent. Where nothing is traced they stay as they are.
func (t *Telemetry) Continue(ctx context.Context, h http.Header) {
	if t == nil || t.tracing == nil {
		return
	}
	h.Del("tracestate") // set again where the trace has one
	t.tracing.headers.Inject(ctx, propagation.HeaderCarrier(h))
}

// end says what became of a call. Arguments, tokens and bodies have no place in
// it.
func (t *tracing) end(ctx context.Context, s Seen) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetName(spanName(s))
	span.SetAttributes(
		attribute.String("powerbox.method", s.Method), attribute.String("powerbox.decision", s.Decision), attribute.String("powerbox.basis", s.Basis),
		attribute.String("powerbox.mode", s.Mode), attribute.String("powerbox.decision_id", s.DecisionID), attribute.StringSlice("powerbox.reasons", s.Reasons),
	)
	span.SetAttributes(conventional(s)...)
	denials(span, s)
	if s.Decision == "error" {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
