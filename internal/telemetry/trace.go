package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

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
	r, err := resourceOf(b)
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

// resourceOf is what spans and lines of the log are of. What OTEL_RESOURCE_ATTRIBUTES and
// OTEL_SERVICE_NAME say goes over ours.
func resourceOf(b Build) (*resource.Resource, error) {
	return resource.Merge(resource.NewSchemaless(attribute.String("service.name", "powerbox"), attribute.String("service.version", b.Version)), resource.Environment())
}

// call is a call that is under way. Its span begins once its message was read, since that
// can name the parent, or else when the span is first needed. It has the time at which the
// call was received.
type call struct {
	tracing *tracing
	at      time.Time
	ambient context.Context // with the trace of the headers
	of      trace.SpanStartOption

	once sync.Once
	span trace.Span
	id   atomic.Pointer[trace.SpanContext] // of the span; nil until it has begun
}

type callKey struct{}

// callOf is the call of a context, nil for none.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Begin notes a call, with the trace that the caller's headers name. The returned function
// begins its span under the trace that the message names, or else under that of the headers.
// It returns the trace's id, "" where nothing is traced.
func (t *Telemetry) Begin(ctx context.Context, at time.Time, h http.Header, agent, binding string) (of context.Context, joined func(parent, state string) string) {
	if t == nil || t.tracing == nil {
		return ctx, func(string, string) string { return "" }
	}
	c := &call{
		tracing: t.tracing, at: at, ambient: t.tracing.headers.Extract(ctx, propagation.HeaderCarrier(h)),
		of: trace.WithAttributes(attribute.String("powerbox.agent", agent), attribute.String("powerbox.binding", binding)),
	}
	return context.WithValue(ctx, callKey{}, c), func(parent, state string) string {
		return c.begun(parent, state).SpanContext().TraceID().String()
	}
}

// begun is the span, which begins with the first use. OpenTelemetry's conventions for MCP
// have the trace in a message be the parent, and that of its transport be linked. A trace
// that cannot be read is none.
func (c *call) begun(parent, state string) trace.Span {
	c.once.Do(func() {
		ctx, options := c.ambient, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(c.at), c.of}
		named := trace.SpanContextFromContext(c.tracing.headers.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state}))
		if named.IsValid() {
			if transport := trace.SpanContextFromContext(ctx); transport.IsValid() {
				options = append(options, trace.WithLinks(trace.Link{SpanContext: transport}))
			}
			ctx = trace.ContextWithRemoteSpanContext(ctx, named)
		}
		_, c.span = c.tracing.tracer.Start(ctx, "powerbox", options...)
		id := c.span.SpanContext()
		c.id.Store(&id)
	})
	return c.span
}

// Continue makes the headers of a request to the agent behind name the call's
// span as the parent. Where nothing is traced they stay as they are.
func (t *Telemetry) Continue(ctx context.Context, h http.Header) {
	if t == nil || t.tracing == nil {
		return
	}
	h.Del("tracestate") // set again where the trace has one
	if c := callOf(ctx); c != nil {
		ctx = trace.ContextWithSpan(ctx, c.begun("", ""))
	}
	t.tracing.headers.Inject(ctx, propagation.HeaderCarrier(h))
}

// end says what became of a call. Arguments, tokens and bodies have no place in
// it.
func (t *tracing) end(ctx context.Context, s Seen) {
	c := callOf(ctx)
	if t == nil || c == nil {
		return
	}
	span := c.begun("", "")
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
	span.End(trace.WithTimestamp(c.at.Add(s.Took)))
}
