// Package telemetry counts and traces what a server does, and sends its log on, for the
// people who run it. It is the only package beside cmd that links OpenTelemetry.
//
// Its laws: every label is from a set that configuration or code bounds, so that
// no caller can make the number of series grow; nothing names a principal, a
// task, an argument or a path; nothing is decided by it.
//
// # Address
//
// Metrics have their own address, off by default, without TLS and token. On
// the main address a scraper would need the operator's token, which also revokes and
// exports; without a token every caller would see the traffic of every agent. With
// telemetry.traces the span continues the caller's traceparent and tracestate, of the
// headers or of a message of MCP.
// baggage is not read: it would be words of a caller under Powerbox's name. There is
// no global provider, propagator or registry.
//
// # Log
//
// With telemetry.logs each line of the log is sent to a collector too, after it is written to
// standard error and with the same values. So nothing is sent that the log does not show. Lines
// wait in a bounded queue, and those that are dropped are counted. Messages about exports, and of other libraries, go to standard error alone.
package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/powerbox-project/powerbox/internal/steady"
)

// Build says which program this is.
type Build struct{ Version, Commit, Go string }

// State is read when the metrics are asked for.
type State struct {
	RevocationSequence func() int64
	Records            func() int64 // evidence records in the store
	// Waiting and Undelivered are messages to webhooks that are tried, and that were
	// given up; nil where none are told anything.
	Waiting, Undelivered func() int64
	Unrecorded           func() int64 // calls that continued without a record; nil where none can
	Shed                 func() int64 // calls that were turned away because too many waited; nil for none
}

// Telemetry is the meter of one server and, where it traces, its tracer. The
// zero pointer is none: its methods do nothing.
type Telemetry struct {
	registry *prometheus.Registry
	provider *sdk.MeterProvider
	tracing  *tracing // nil where there are no traces
	logging  *logging // nil where the log is not sent on

	calls, denials, streamsCut, signals metric.Int64Counter
	streams                             metric.Int64UpDownCounter
	decide, record, upstream            metric.Float64Histogram
	commit, operation                   metric.Float64Histogram
	batch                               metric.Int64Histogram
}

// seconds are the borders between times, from a memory access to a slow agent.
var seconds = metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)

// New returns a meter with its own registry.
func New(b Build) (*Telemetry, error) {
	t := &Telemetry{registry: prometheus.NewRegistry()}
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := t.registry.Register(c); err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
	}
	e, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.provider = sdk.NewMeterProvider(sdk.WithReader(e))
	m := instruments{Meter: t.provider.Meter("powerbox")}
	t.calls = m.counter("powerbox.calls", "Calls by agent, binding, method, decision, basis and mode.")
	t.denials = m.counter("powerbox.denials", "Reasons why calls were denied, or in mode observe would have been.")
	t.streamsCut = m.counter("powerbox.streams.cut", "Streams that were ended before the agent behind ended them, by reason.")
	t.signals = m.counter("powerbox.hijack.signals", "Bursts of denials of one caller.")
	t.streams, err = m.Int64UpDownCounter("powerbox.streams.open", metric.WithDescription("Streams that are open."))
	m.note(err)
	t.decide = m.times("powerbox.decide.duration", "Time to resolve and decide a call.")
	t.record = m.times("powerbox.record.duration", "Time until the record of a call was durable.")
	t.upstream = m.times("powerbox.upstream.duration", "Time until the agent behind began to answer.")
	t.commit = m.times("powerbox.commit.duration", "Time of one durable commit of the store, which many records may share.")
	t.batch, err = m.Int64Histogram("powerbox.commit.changes", metric.WithDescription("Changes that shared one commit of the store."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256))
	m.note(err)
	t.operation, err = m.Float64Histogram(operationDuration, metric.WithDescription("Time from the receipt of an MCP request or notification until its answer was sent."),
		metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300))
	m.note(err)
	m.info(b)
	return t, m.err
}

// instruments makes instruments and keeps the first error.
type instruments struct {
	metric.Meter
	err error
}

func (m *instruments) note(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *instruments) counter(name, meaning string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithDescription(meaning))
	m.note(err)
	return c
}

func (m *instruments) times(name, meaning string) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithDescription(meaning), metric.WithUnit("s"), seconds)
	m.note(err)
	return h
}

func (m *instruments) info(b Build) {
	is := metric.WithAttributes(attribute.String("version", b.Version), attribute.String("commit", b.Commit), attribute.String("go", b.Go))
	_, err := m.Int64ObservableGauge("powerbox.build.info", metric.WithDescription("What the program was built from; always 1."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(1, is)
			return nil
		}))
	m.note(err)
}

// Watch reads the state of a server whenever the metrics are asked for.
func (t *Telemetry) Watch(s State) error {
	if t == nil {
		return nil
	}
	m := instruments{Meter: t.provider.Meter("powerbox")}
	m.readCount("powerbox.evidence.unrecorded", "Calls that continued without a record since the start, by the operator's choice.", s.Unrecorded)
	m.readCount("powerbox.calls.shed", "Calls since the start that were turned away with 503 because they would have waited too long. They are not on record.", s.Shed)
	m.readCount("powerbox.clock.jumps", "Jumps of this machine's clock by more than two seconds since the start.", steady.Jumps)
	m.readGauge("powerbox.revocation.sequence", "Number of the last revocation, freeze or thaw that is in force.", s.RevocationSequence)
	m.readGauge("powerbox.webhook.waiting", "Messages to webhooks that are tried.", s.Waiting)
	m.readGauge("powerbox.webhook.undelivered", "Messages to webhooks that were given up.", s.Undelivered)
	m.readGauge("powerbox.evidence.records", "Records in the log of evidence.", s.Records)
	return m.err
}

// observed has an instrument read a state whenever the metrics are asked for.
func observed(read func() int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(read())
		return nil
	}
}

// readCount tells a state that only grows; nothing where read is nil.
func (m *instruments) readCount(name, meaning string, read func() int64) {
	if read == nil {
		return
	}
	_, err := m.Int64ObservableCounter(name, metric.WithDescription(meaning), metric.WithInt64Callback(observed(read)))
	m.note(err)
}

// readGauge tells a state that grows and shrinks; nothing where read is nil.
func (m *instruments) readGauge(name, meaning string, read func() int64) {
	if read == nil {
		return
	}
	_, err := m.Int64ObservableGauge(name, metric.WithDescription(meaning), metric.WithInt64Callback(observed(read)))
	m.note(err)
}

// Handler answers with the metrics, as text that Prometheus reads.
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{}))
	return mux
}

// Close sends the spans and the lines of the log that wait, and ends. Neither takes the
// other's time.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var lines sync.WaitGroup
	if t.logging != nil {
		lines.Go(func() { t.logging.close(ctx) })
	}
	defer lines.Wait()
	if t.tracing != nil {
		return t.tracing.provider.Shutdown(ctx)
	}
	return nil
}

// Seen is one call that is over: gateway.Seen.
type Seen = struct {
	Agent, Binding, Method, Decision, Basis, Mode string
	Reasons                                       []string
	DecisionID                                    string
	Signal                                        bool
	Tool                                          string
	Took                                          time.Duration
}

// End counts a call that is over, and ends its span.
func (t *Telemetry) End(ctx context.Context, s Seen) {
	if t == nil {
		return
	}
	agent, mode := attribute.String("agent", s.Agent), attribute.String("mode", s.Mode)
	t.calls.Add(ctx, 1, metric.WithAttributes(agent, attribute.String("binding", s.Binding), attribute.String("method", s.Method),
		attribute.String("decision", s.Decision), attribute.String("basis", s.Basis), mode))
	for _, code := range s.Reasons {
		t.denials.Add(ctx, 1, metric.WithAttributes(agent, attribute.String("reason", code), mode))
	}
	if s.Binding == mcpBinding {
		t.operation.Record(ctx, s.Took.Seconds(), metric.WithAttributes(mcpAttributes(s)...))
	}
	if s.Signal {
		t.signals.Add(ctx, 1, metric.WithAttributes(agent))
	}
	t.tracing.end(ctx, s)
}

// Took notes how long a step of a call took: decide, record or upstream.
func (t *Telemetry) Took(ctx context.Context, step, agent string, d time.Duration) {
	if t == nil {
		return
	}
	h := map[string]metric.Float64Histogram{"decide": t.decide, "record": t.record, "upstream": t.upstream}[step]
	if h != nil {
		h.Record(ctx, d.Seconds(), metric.WithAttributes(attribute.String("agent", agent)))
	}
}

// Stream counts a stream as open until closed is called, with the reason for
// which it was cut, "" if it ended normally.
func (t *Telemetry) Stream(ctx context.Context, agent string) (closed func(reason string)) {
	if t == nil {
		return func(string) {}
	}
	of := attribute.String("agent", agent)
	t.streams.Add(ctx, 1, metric.WithAttributes(of))
	return func(reason string) {
		t.streams.Add(ctx, -1, metric.WithAttributes(of))
		if reason != "" {
			t.streamsCut.Add(ctx, 1, metric.WithAttributes(of, attribute.String("reason", reason)))
		}
	}
}

// Committed notes one durable commit of the store.
func (t *Telemetry) Committed(changes int, took time.Duration) {
	if t == nil {
		return
	}
	t.commit.Record(context.Background(), took.Seconds())
	t.batch.Record(context.Background(), int64(changes))
}
