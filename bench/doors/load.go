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

// openLoop sends requests at a fixed rate. A slow answer delays no other request. Several
// contestants take turns, each at that rate, so that all meet the same state of the disk.
func openLoop(ctx context.Context, s settings, asks ...asking) ([]quantiles, error) {
	each := max(1, int(float64(s.rate)*s.cell.Seconds()))
	total := each * len(asks)
	sends := make([]func(context.Context) (time.Duration, error), total)
	for n := range sends {
		var err error
		if sends[n], err = asks[n%len(asks)](n); err != nil {
			return nil, err
		}
	}
	took, failed := make([]time.Duration, total), make([]error, total)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(s.rate*len(asks)))
	defer tick.Stop()
	for n := range sends {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		all.Go(func() { took[n], failed[n] = sends[n](ctx) })
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("a request failed: %w", err)
		}
	}
	out := make([]quantiles, len(asks))
	for c := range asks {
		var own []time.Duration
		for n := c; n < total; n += len(asks) {
			own = append(own, took[n])
		}
		slices.Sort(own)
		out[c] = quantiles{own[each/2], own[each*99/100]}
	}
	return out, nil
}
