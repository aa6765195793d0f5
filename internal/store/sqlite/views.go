package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// maxViews is how many views there are at a time; others wait for one to end. As many
// connections are for reads without one, such as exports.
const maxViews = 8

// views are the connections of views. The one that was used last is the next to be used, since
// its statements are compiled and its pages in memory. Its methods can be called by many
// goroutines.
type views struct {
	open  func(context.Context) (*statements, error)
	turns chan struct{} // as many as may be used at a time
	over  chan struct{} // closed when no more views begin

	mu   sync.Mutex // guards idle
	idle []*statements
}

func newViews(open func(context.Context) (*statements, error)) *views {
	return &views{open: open, turns: make(chan struct{}, maxViews), over: make(chan struct{})}
}

// take waits for a connection, which keep or drop gives back.
func (v *views) take(ctx context.Context) (*statements, error) {
	select {
	case <-v.over:
		return nil, errClosed
	default:
	}
	select {
	case v.turns <- struct{}{}:
	case <-v.over:
		return nil, errClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("sqlite: %w", ctx.Err())
	}
	if last := v.last(); last != nil {
		return last, nil
	}
	made, err := v.open(ctx)
	if err != nil {
		<-v.turns
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return made, nil
}

// last takes the connection that was used last, nil where every one is in use.
func (v *views) last() *statements {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := len(v.idle) - 1
	if n < 0 {
		return nil
	}
	last := v.idle[n]
	v.idle = v.idle[:n]
	return last
}

// keep takes a connection back.
func (v *views) keep(used *statements) {
	v.mu.Lock()
	v.idle = append(v.idle, used)
	v.mu.Unlock()
	<-v.turns
}

// drop closes a connection that is not to be used again.
func (v *views) drop(used *statements) {
	_ = used.close() // the error before it is the one that matters
	<-v.turns
}

// close closes the connections when the last view has ended. It does nothing for a nil v.
func (v *views) close() error {
	if v == nil {
		return nil
	}
	close(v.over)
	for range maxViews {
		v.turns <- struct{}{}
	}
	var errs []error
	for last := v.last(); last != nil; last = v.last() {
		errs = append(errs, last.close())
	}
	return errors.Join(errs...)
}
