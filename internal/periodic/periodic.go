// Package periodic calls functions at an interval, until a context ends.
package periodic

import (
	"context"
	"time"
)

// Run calls do at once and then every interval, until ctx ends.
func Run(ctx context.Context, every time.Duration, do func(context.Context)) {
	do(ctx)
	Later(ctx, every, do)
}

// Later calls do every interval until ctx ends, for the first time after one interval.
func Later(ctx context.Context, every time.Duration, do func(context.Context)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}
