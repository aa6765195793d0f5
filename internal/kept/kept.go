// Package kept keeps fetched documents, such as key sets, by its address:
// fetched once for all who ask at the same time, never more often than it is worth, and
// in bounded memory.
package kept

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Times say how long a value is used, and how often it is fetched.
type Times struct {
	Fresh time.Duration // after which it is fetched again
	Stale time.Duration // after which one that cannot be fetched is not used
	Pause time.Duration // between two fetches, whatever is looked for
}

// Values keeps values by their addresses. [New] makes one.
type Values[T any] struct {
	times  Times
	most   int
	load   func(ctx context.Context, address string) (T, error)
	flight singleflight.Group

	mu   sync.Mutex
	kept map[string]value[T]
}

type value[T any] struct {
	is      T
	fetched time.Time // zero for none
	tried   time.Time
}

// New returns an empty cache of at most so many values, which load fetches.
func New[T any](times Times, most int, load func(ctx context.Context, address string) (T, error)) *Values[T] {
	return &Values[T]{times: times, most: most, load: load, kept: map[string]value[T]{}}
}

// Get returns the value at an address. One in which does not find the wanted entry,
// or that is not fresh, is fetched again, unless that was tried a moment ago. Where it
// cannot be had, the one from before serves until it is stale; then ok is false, with
// the error of the fetch, nil where none was tried.
func (v *Values[T]) Get(ctx context.Context, address string, now func() time.Time, does func(T) bool) (is T, ok bool, err error) {
	at := now()
	known := v.known(address)
	if at.Sub(known.fetched) < v.times.Fresh && does(known.is) {
		return known.is, true, nil
	}
	if known.tried.IsZero() || at.Sub(known.tried) >= v.times.Pause {
		err = v.fetch(ctx, address, now)
		known = v.known(address)
	}
	if known.fetched.IsZero() || at.Sub(known.fetched) >= v.times.Stale {
		var none T
		return none, false, err
	}
	return known.is, true, nil
}

func (v *Values[T]) known(address string) value[T] {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept[address]
}

// fetch fetches a value, once for all who ask at the same time. The first to ask can be
// a stranger who goes away: that does not take the value from the others.
func (v *Values[T]) fetch(ctx context.Context, address string, now func() time.Time) error {
	done := v.flight.DoChan(address, func() (any, error) { return nil, v.refresh(context.WithoutCancel(ctx), address, now) })
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refresh fetches a value, and notes that it was tried.
func (v *Values[T]) refresh(ctx context.Context, address string, now func() time.Time) error {
	is, err := v.load(ctx, address)
	v.mu.Lock()
	defer v.mu.Unlock()
	one, kept := v.kept[address]
	if !kept && len(v.kept) >= v.most {
		v.forget()
	}
	one.tried = now()
	if err == nil {
		one.is, one.fetched = is, one.tried
	}
	v.kept[address] = one
	return err
}

// forget makes room: the value that was tried longest ago goes.
func (v *Values[T]) forget() {
	oldest, found := "", false
	for address, one := range v.kept {
		if !found || one.tried.Before(v.kept[oldest].tried) {
			oldest, found = address, true
		}
	}
	delete(v.kept, oldest)
}
