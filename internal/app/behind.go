package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/periodic"
)

const (
	// indexEvery is how often the index of the log is brought up to date, and indexSteps how many
	// segments are added then, at the most: a long log does not take the processor from calls.
	indexEvery = time.Second
	indexSteps = 4
)

// followLog makes of the log what no commit does: scores and graph, and the index of searches. It
// does so until ctx ends. The channel that it returns is closed then.
func (i *Instance) followLog(ctx context.Context, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		if i.asksTrust() {
			i.scores.Follow(ctx)
		} else {
			i.scores.FollowBehind(ctx)
		}
	})
	both.Go(func() {
		periodic.Later(ctx, indexEvery, func(ctx context.Context) {
			for range indexSteps {
				more, err := i.Store.Index(ctx)
				if err != nil && ctx.Err() == nil {
					log.WarnContext(ctx, "new records are not in the index yet; searches read them without it", slog.Any("error", err))
				}
				if err != nil || !more {
					return
				}
			}
		})
	})
	go func() {
		defer close(done)
		both.Wait()
	}()
	return done
}
