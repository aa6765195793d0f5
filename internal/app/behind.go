package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/periodic"
)

const (
	// behindEvery is how often the log is looked at for new records, and indexSteps how many
	// segments are added to the index then, at the most.
	behindEvery = time.Second
	indexSteps  = 2
	// busy is how many records the log gets between two looks from which calls have the
	// processor alone, and mostBehind how many may wait for that.
	busy       = 256
	mostBehind = 500_000
)

// behind makes of the log what no commit does, while calls leave time for it.
type behind struct {
	size  func(context.Context) (int64, error)          // of the log
	steps []func(context.Context) (all bool, err error) // each takes over some records

	seen, done int64 // the size at the last look, and up to where all was taken over
}

// look takes over some new records, unless calls write many and not too many wait.
func (b *behind) look(ctx context.Context) error {
	size, err := b.size(ctx)
	if err != nil || size == b.done {
		return err
	}
	came := size - b.seen
	b.seen = size
	if came > busy && size-b.done < mostBehind {
		return nil
	}
	whole := true
	for _, step := range b.steps {
		all, err := step(ctx)
		if err != nil {
			return err
		}
		whole = whole && all
	}
	if whole {
		b.done = size
	}
	return nil
}

// index adds some segments to the index of searches.
func (i *Instance) index(ctx context.Context) (all bool, err error) {
	for range indexSteps {
		if more, err := i.Store.Index(ctx); err != nil || !more {
			return err == nil, err
		}
	}
	return false, nil
}

// followLog makes of the log what no commit does: scores and graph, and the index of searches. It
// also reads the revocations that the start has left. It ends with ctx, and closes the channel that
// it returns.
func (i *Instance) followLog(ctx context.Context, log *slog.Logger) <-chan struct{} {
	b := behind{size: i.Store.Records, steps: []func(context.Context) (bool, error){i.index}}
	var all sync.WaitGroup
	all.Go(func() { i.readRevocations(ctx, log) })
	if i.asksTrust() {
		all.Go(func() { i.scores.Follow(ctx) })
	} else {
		b.steps = append(b.steps, i.scores.CatchUp)
	}
	all.Go(func() {
		periodic.Later(ctx, behindEvery, func(ctx context.Context) {
			if err := b.look(ctx); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "new records are not counted and in the index yet; pages read them themselves", slog.Any("error", err))
			}
		})
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	return done
}

// readEvery is how long reading revocations waits after an error.
const readEvery = 10 * time.Second

// readRevocations reads the revocations that the start has left, until it has or ctx ends. Until
// then the store is asked for them.
func (i *Instance) readRevocations(ctx context.Context, log *slog.Logger) {
	ctx, read := context.WithCancel(ctx)
	defer read()
	periodic.Run(ctx, readEvery, func(ctx context.Context) {
		switch err := i.Issuer.ReadRevocations(ctx); {
		case err == nil:
			read()
		case ctx.Err() == nil:
			log.WarnContext(ctx, "revocations are not read yet: the store is asked for each", slog.Any("error", err))
		}
	})
}
