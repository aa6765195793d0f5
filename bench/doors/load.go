package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// asking makes one request and returns a function that sends it and tells how long the
// decision took.
type asking func(n int) (func(context.Context) (time.Duration, error), error)

// quantiles are those of one contestant in one round.
type quantiles struct{ p50, p99 time.Duration }

// openLoop sends requests at a fixed rate. A slow answer delays no other request.
func openLoop(ctx context.Context, s settings, ask asking) (quantiles, error) {
	total := max(1, int(float64(s.rate)*s.cell.Seconds()))
	sends := make([]func(context.Context) (time.Duration, error), total)
	for n := range sends {
		var err error
		if sends[n], err = ask(n); err != nil {
			return quantiles{}, err
		}
	}
	took, failed := make([]time.Duration, total), make([]error, total)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(s.rate))
	defer tick.Stop()
	for n := range sends {
		select {
		case <-ctx.Done():
			return quantiles{}, ctx.Err()
		case <-tick.C:
		}
		all.Go(func() { took[n], failed[n] = sends[n](ctx) })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return quantiles{}, fmt.Errorf("a request failed: %w", err)
		}
	}
	slices.Sort(took)
	return quantiles{took[total/2], took[total*99/100]}, nil
}
