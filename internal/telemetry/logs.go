package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"
)

// logging sends the lines of the log on.
type logging struct {
	provider *sdk.LoggerProvider
	handler  slog.Handler
	lines    *lines
}

// SendLog begins to send the lines of the log to where the OTEL_* variables of the
// environment say. [Telemetry.Log] makes a logger of such lines.
func (t *Telemetry) SendLog(ctx context.Context, b Build) error {
	e, err := logExporter(ctx)
	if err != nil {
		return fmt.Errorf("telemetry.logs: %w", err)
	}
	if e == nil {
		return nil
	}
	r, err := resourceOf(b)
	if err != nil {
		return fmt.Errorf("telemetry.logs: %w", err)
	}
	m := instruments{Meter: t.provider.Meter("powerbox")}
	l := &lines{Exporter: e, most: queueSize(), dropped: m.counter("powerbox.logs.dropped", "Lines of the log that were not exported, by reason.")}
	if m.err != nil {
		return m.err
	}
	l.lose(0, queueFull)
	l.lose(0, notExported)
	batches := sdk.NewBatchProcessor(l, sdk.WithMaxQueueSize(int(l.most)))
	p := sdk.NewLoggerProvider(sdk.WithResource(r), sdk.WithProcessor(bounded{batches, l}))
	t.logging = &logging{provider: p, handler: otelslog.NewHandler("powerbox", otelslog.WithLoggerProvider(p)), lines: l}
	return nil
}

// Log returns a logger that writes each line as l does and sends it to the exporter too.
// Without an exporter it returns l.
func (t *Telemetry) Log(l *slog.Logger) *slog.Logger {
	if t == nil || t.logging == nil {
		return l
	}
	return slog.New(sending{l.Handler(), t.logging.handler})
}

// sending hands a line to the handler of standard error, which alone says which levels
// there are, and then to the exporter's.
type sending struct {
	slog.Handler
	exporter slog.Handler
}

// Handle implements [slog.Handler].
func (s sending) Handle(ctx context.Context, r slog.Record) error {
	err := s.Handler.Handle(ctx, r)
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		line.AddAttrs(asWritten(a))
		return true
	})
	return errors.Join(err, s.exporter.Handle(inSpan(ctx), line))
}

// WithAttrs implements [slog.Handler].
func (s sending) WithAttrs(all []slog.Attr) slog.Handler {
	return sending{s.Handler.WithAttrs(all), s.exporter.WithAttrs(allAsWritten(all))}
}

// WithGroup implements [slog.Handler].
func (s sending) WithGroup(name string) slog.Handler {
	if name == "" {
		return s
	}
	return sending{s.Handler.WithGroup(name), s.exporter.WithGroup(name)}
}

// inSpan makes the span of a call one that OpenTelemetry finds in the context. A line that
// is written before the span began is part of none: the message of the call can still name
// its parent.
func inSpan(ctx context.Context) context.Context {
	if c := callOf(ctx); c != nil {
		if id := c.id.Load(); id != nil {
			return trace.ContextWithSpanContext(ctx, *id)
		}
	}
	return ctx
}

func allAsWritten(all []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(all))
	for n, a := range all {
		out[n] = asWritten(a)
	}
	return out
}

// asWritten returns an attribute with the value that JSON on standard error shows. A type that
// redacts itself there is redacted here too: the bridge of OpenTelemetry would print the fields
// of the struct.
func asWritten(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() { //nolint:exhaustive // the others are the same in both
	case slog.KindGroup:
		a.Value = slog.GroupValue(allAsWritten(a.Value.Group())...)
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().Format(time.RFC3339Nano))
	case slog.KindAny:
		a.Value = slog.AnyValue(throughJSON(a.Value.Any()))
	}
	return a
}

// throughJSON encodes a value as package slog does and decodes it again, into types of package
// json. A value that panics must not end the call that logs it.
func throughJSON(v any) (out any) {
	defer func() {
		if p := recover(); p != nil {
			out = "!PANIC"
		}
	}()
	if err, ok := v.(error); ok {
		if _, own := v.(json.Marshaler); !own {
			return err.Error()
		}
	}
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return "!ERROR:" + err.Error()
	}
	return out
}

// The reasons for which lines are not exported.
const (
	queueFull   = "queue_full"
	notExported = "export_failed"
)

// lines counts the lines that wait for an exporter. It reports lost lines to the error handler
// of OpenTelemetry, whose messages go to standard error alone. So no message about an export is
// exported.
type lines struct {
	sdk.Exporter
	most    int64
	waiting atomic.Int64
	full    atomic.Int64 // dropped, and not said yet
	dropped metric.Int64Counter
}

func (l *lines) lose(n int64, reason string) {
	l.dropped.Add(context.Background(), n, metric.WithAttributes(attribute.String("reason", reason)))
}

// Export implements [sdk.Exporter]. It reports every failure itself, also that of the last
// export, which the processor would leave to the caller of Shutdown.
func (l *lines) Export(ctx context.Context, records []sdk.Record) error {
	if full := l.full.Swap(0); full > 0 {
		otel.Handle(fmt.Errorf("logs export: %d lines were dropped, because %d were waiting", full, l.most))
	}
	err := l.Exporter.Export(ctx, records)
	n := int64(len(records))
	if left := l.waiting.Add(-n); err == nil || left < 0 { // below zero: the end has counted them
		return nil
	}
	l.lose(n, notExported)
	otel.Handle(fmt.Errorf("logs export: %d lines were dropped: %w", n, err))
	return nil
}

// bounded drops lines above the bound. The processor would drop older ones in their place,
// and count them where nothing reads it.
type bounded struct {
	*sdk.BatchProcessor
	lines *lines
}

// OnEmit implements [sdk.Processor].
func (b bounded) OnEmit(ctx context.Context, r *sdk.Record) error {
	if b.lines.waiting.Add(1) > b.lines.most {
		b.lines.waiting.Add(-1)
		b.lines.full.Add(1)
		b.lines.lose(1, queueFull)
		return nil
	}
	return b.BatchProcessor.OnEmit(ctx, r)
}

// queueSize is how many lines wait at most, as the batch processor reads it.
func queueSize() int64 {
	n, err := strconv.ParseInt(os.Getenv("OTEL_BLRP_MAX_QUEUE_SIZE"), 10, 32)
	if err != nil || n < 1 {
		n = 0
	}
	return cmp.Or(n, 2048)
}

// close exports the lines that wait, until ctx ends.
func (l *logging) close(ctx context.Context) {
	err := l.provider.Shutdown(ctx)
	if left := l.lines.waiting.Swap(0); left > 0 {
		l.lines.lose(left, notExported)
		otel.Handle(fmt.Errorf("logs export: %d lines were not exported before the end: %w", left, err))
	}
}
