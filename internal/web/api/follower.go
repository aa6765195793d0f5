package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/periodic"
)

// The times of a node that follows the writes of others.
const (
	// followEvery is how often it looks without a request, so that streams under a
	// capability that was revoked elsewhere are cut within a second (EXT-16).
	followEvery = 250 * time.Millisecond
	// followLease is how long it relies on its memory while its database does not answer;
	// after it every decision is stale, and calls are refused.
	followLease = 3 * time.Second
	// followAgain is how long the body of a request may take before the node looks again.
	followAgain = 10 * time.Millisecond
	// followTime bounds one look.
	followTime = 5 * time.Second
)

// Shared is the part of a store of several nodes beside [issuer.Store].
type Shared interface {
	Versions(ctx context.Context) (issuer.Versions, error)
	// Seen returns the counts that the last change of this node found.
	Seen() issuer.Versions
}

// Follower updates a node's memory of a shared store from the store. No request is
// answered from a memory older than the request: it waits until the node knows the
// writes that other nodes had committed by then.
type Follower struct {
	Store Shared
	// Take takes over the state of the store, up to these versions and possibly more. It is
	// called by one goroutine at a time.
	Take func(ctx context.Context, v issuer.Versions) error
	Now  func() time.Time
	Log  *slog.Logger
	// Patience is how long a request waits for a look; 5 s where it is 0.
	Patience time.Duration

	mu      sync.Mutex // guards the fields below
	waits   *look      // begins when the one before has ended; nil for none
	looking bool
	good    time.Time // when a look that succeeded began
	taken   issuer.Versions
}

// look is one look at the store, for all who came before it began.
type look struct {
	done chan struct{}
	err  error
}

// CatchUp returns when everything is known that was committed before it was called.
func (f *Follower) CatchUp(ctx context.Context) error {
	f.mu.Lock()
	if f.waits == nil {
		f.waits = &look{done: make(chan struct{})}
	}
	mine := f.waits
	if !f.looking {
		f.looking = true
		go f.run() // for all waiters, even when one gives up
	}
	f.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run looks for as long as someone waits for it.
func (f *Follower) run() {
	for {
		f.mu.Lock()
		one := f.waits
		f.waits = nil
		if one == nil {
			f.looking = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		began := f.Now()
		var taken issuer.Versions
		if taken, one.err = f.once(); one.err == nil {
			f.mu.Lock()
			f.good, f.taken = began, taken
			f.mu.Unlock()
		}
		close(one.done)
	}
}

func (f *Follower) once() (issuer.Versions, error) {
	ctx, cancel := context.WithTimeout(context.Background(), followTime)
	defer cancel()
	v, err := f.Store.Versions(ctx)
	if err != nil {
		return v, err
	}
	return v, f.Take(ctx, v)
}

// Current returns when everything is known that was committed before the last change of this
// node. It looks only where that change found something that is not known yet.
func (f *Follower) Current(ctx context.Context) error {
	f.mu.Lock()
	known := f.taken.Covers(f.Store.Seen())
	f.mu.Unlock()
	if known {
		return nil
	}
	return f.Within(ctx)
}

// Stale reports whether the node's knowledge is too old to decide by.
func (f *Follower) Stale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Now().Sub(f.good) > followLease
}

// Run looks now and then until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	failed := false
	periodic.Later(ctx, followEvery, func(ctx context.Context) {
		err := f.CatchUp(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			f.Log.ErrorContext(ctx, "the store does not answer; nothing is allowed until it does", slog.Any("error", err))
		}
		failed = err != nil
	})
}

// Within is CatchUp for a request, which does not wait for ever.
func (f *Follower) Within(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.Patience, followTime))
	defer cancel()
	return f.CatchUp(ctx)
}

// Handler has every request wait until the node knows all writes that were committed
// before it. Where that cannot be found out it refuses the request: no decision rests on
// a capability that may have been revoked.
func (f *Follower) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
			known := f.Now()
			if err := f.Within(r.Context()); err != nil {
				w.Header().Set("Retry-After", "1")
				problem(w, http.StatusServiceUnavailable, "the store does not answer, so that nothing can be decided now; try again")
				return
			}
			if r.Body != nil && r.Body != http.NoBody {
				r.Body = &lateBody{r.Body, f, r.Context(), known}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// lateBody is the body of a request. If it came slowly, its end is read only when the node knows
// what others wrote meanwhile: the decision on a body comes after its end (ATK-144).
type lateBody struct {
	io.ReadCloser
	follower *Follower
	ctx      context.Context //nolint:containedctx // of the request, as the body is
	known    time.Time       // everything before it is known
}

// Read implements [io.Reader].
func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	now := b.follower.Now()
	if !errors.Is(err, io.EOF) || now.Sub(b.known) < followAgain {
		return n, err
	}
	if late := b.follower.Within(b.ctx); late != nil {
		return n, late
	}
	b.known = now
	return n, err
}
