package gate

import (
	"context"
	"log/slog"
	"sync"

	"github.com/powerbox-project/powerbox/evidence"
)

// maxBehind bounds the outcomes that are on their way behind their answers. Answers wait
// for further ones.
const maxBehind = 1024

// Behind has outcomes recorded behind the answers of calls that change nothing, where the
// operator chose so. Each is on its way to the recorder when its answer leaves. The zero
// Behind is ready.
type Behind struct {
	mu    sync.Mutex
	open  int
	ended bool
	idle  chan struct{} // closed with the last one, once it is ended
}

func (b *Behind) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.open >= maxBehind {
		return false
	}
	b.open++
	return true
}

func (b *Behind) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open--; b.open == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// End returns when every outcome was recorded, or failed. From then on answers wait for
// their outcomes. It is called before the recorder is closed.
func (b *Behind) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.ended = true
	if b.open > 0 && b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// mayFollow reports whether the outcome of a call may be recorded behind its answer: the
// call is known to change nothing, takes nothing from a budget, has a record, and its
// caller gets no proof of the outcome.
func (g *Gate) mayFollow(v Verdict) bool {
	return g.Behind != nil && v.call != nil && v.call.Behind && v.call.Reads && len(v.take) == 0 && !v.gap
}

// behind records an outcome behind the answer, and reports whether it does. If the record
// cannot be written, or the process ends before, the decision stands without an outcome:
// evidence says that it is unknown.
func (g *Gate) behind(ctx context.Context, r evidence.Record) bool {
	if !g.Behind.begin() {
		return false
	}
	ctx = context.WithValue(context.WithoutCancel(ctx), lazily{}, true)
	go func() {
		defer g.Behind.done()
		if _, err := g.Recorder.Record(ctx, r); err != nil {
			g.Log.ErrorContext(ctx, "an outcome was not recorded behind its answer, so the evidence says that it is unknown",
				slog.String("agent", r.AgentID), slog.String("record", r.Details.OutcomeOf), slog.Any("error", err))
		}
	}()
	return true
}

type lazily struct{}

// IsLazy reports whether no answer waits for a record, which a [Recorder] is told by the
// context: it may wait for other records to share a commit with.
func IsLazy(ctx context.Context) bool { return ctx.Value(lazily{}) != nil }
