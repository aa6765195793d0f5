package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/powerbox-project/powerbox/internal/periodic"
)

// pruneEvery is how often bodies are looked at that may have been kept for long
// enough.
const pruneEvery = time.Minute

// strayRetention is how long bodies are kept of an agent that the configuration
// does not name any more: the default.
const strayRetention = 720 * time.Hour

// retention is how long the bodies of an agent are kept.
func (i *Instance) retention(agent string) time.Duration {
	for _, c := range i.current().Agents {
		if c.ID == agent {
			return c.Bodies.Retention
		}
	}
	return strayRetention
}

// prune erases bodies whose retention is over, now and from time to time until ctx ends.
// The channel that it returns is closed then.
func (i *Instance) prune(ctx context.Context, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		periodic.Run(ctx, pruneEvery, func(ctx context.Context) {
			n, err := i.Issuer.PruneBodies(ctx, i.retention)
			switch {
			case err != nil && ctx.Err() == nil:
				log.ErrorContext(ctx, "bodies that were kept for long enough are not erased yet", slog.Any("error", err))
			case n > 0:
				log.InfoContext(ctx, "bodies that were kept for long enough are erased", slog.Int("bodies", n))
			}
		})
	}()
	return done
}
