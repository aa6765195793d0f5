package app

import (
	"context"
	"log/slog"
	"time"
)

// settleEvery is how often the server tries to record the number of calls that continued
// without a record, if there are any.
const settleEvery = time.Second

// warnDegraded names the agents whose calls may continue without a record.
func (i *Instance) warnDegraded(ctx context.Context, log *slog.Logger) {
	for _, c := range i.Config.Agents {
		if c.Degraded.Calls == "none" {
			continue
		}
		log.WarnContext(ctx, "while records cannot be written, calls of this agent continue without them, as agents.degraded allows",
			slog.String("agent", c.ID), slog.String("calls", c.Degraded.Calls), slog.String("for", c.Degraded.For.String()))
	}
}

// settle records how many calls continued without a record as soon as it can, until ctx
// ends, and then a last time. The channel that it returns is closed after that.
func (i *Instance) settle(ctx context.Context, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(settleEvery)
		defer tick.Stop()
		for ended := false; !ended; {
			select {
			case <-ctx.Done():
				ended = true
			case <-tick.C:
			}
			// The store is open until this has ended, whatever ended before.
			err := i.gate.Settle(context.WithoutCancel(ctx))
			if _, untold := i.gate.Unrecorded(); ended && len(untold) > 0 {
				log.ErrorContext(ctx, "calls went on without a record, and how many cannot be recorded", slog.Any("calls", untold), slog.Any("error", err))
			}
		}
	}()
	return done
}
