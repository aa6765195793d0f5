package powerboxa2a

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox"
)

// ErrExpired is the cause with which the context of an execution ends when the
// capability that it works under does.
var ErrExpired = errors.New("powerbox: the capability that the task works under has expired")

// Guard returns an executor that works under a [Task] and not beyond it: without
// one it refuses to begin, and when the capability expires the context is
// cancelled with [ErrExpired] as its cause, and nothing that the executor says
// after that goes out. [TaskFrom] has the task.
//
// A call without a capability, let through in mode observe or prefer, has no end
// of its own. Revocation is not seen here, see the package's documentation.
func (in *Inbound) Guard(executor a2asrv.AgentExecutor) a2asrv.AgentExecutor {
	g := &guarded{in: in, next: executor}
	if cleaner, ok := executor.(a2asrv.AgentExecutionCleaner); ok {
		return &guardedCleaner{g, cleaner}
	}
	return g
}

type guarded struct {
	in   *Inbound
	next a2asrv.AgentExecutor
}

type guardedCleaner struct {
	*guarded
	a2asrv.AgentExecutionCleaner
}

// Execute implements [a2asrv.AgentExecutor].
func (g *guarded) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return g.run(ctx, x, g.next.Execute)
}

// Cancel implements [a2asrv.AgentExecutor].
func (g *guarded) Cancel(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return g.run(ctx, x, g.next.Cancel)
}

type step func(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error]

func (g *guarded) run(ctx context.Context, x *a2asrv.ExecutorContext, next step) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		task, ok := TaskFrom(ctx)
		if !ok || task.in != g.in {
			yield(nil, unauthenticated("No context of the gateway came with this call; nothing is executed without one."))
			return
		}
		ctx, cancel := task.limited(ctx)
		defer cancel()
		if expired(ctx) {
			yield(nil, task.ended())
			return
		}
		for event, err := range next(ctx, x) {
			if expired(ctx) {
				yield(nil, task.ended())
				return
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// limited ends a context when the authority of the task does.
func (t *Task) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	until, bounded := t.Expires()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, until.Sub(t.in.config.Now()), ErrExpired)
}

// Expires is when what the task works under ends; bounded is false where
// nothing says so.
func (t *Task) Expires() (until time.Time, bounded bool) {
	return t.Context.Authority.Window().Until, t.bounded()
}

func expired(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrExpired) }

func (t *Task) ended() error {
	return t.denied(*worded(powerbox.Reason{Code: powerbox.CodeExpired}))
}
