package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// sharedStub is a store that answers, or does not.
type sharedStub struct {
	asked atomic.Int64
	away  atomic.Bool
}

func (s *sharedStub) Versions(context.Context) (issuer.Versions, error) {
	n := s.asked.Add(1)
	if s.away.Load() {
		return issuer.Versions{}, errors.New("the connection is refused")
	}
	return issuer.Versions{Stops: n}, nil
}

func (*sharedStub) Seen() issuer.Versions { return issuer.Versions{} }

// EXT-16: where a node cannot find out what others have revoked, nothing is answered,
// and what it knows is stale when its time is over.
func TestEXT16_WithoutTheStoreNothingIsAnswered(t *testing.T) {
	var clock atomic.Int64
	store := &sharedStub{}
	f := &Follower{
		Store: store, Take: func(context.Context, issuer.Versions) error { return nil },
		Now: func() time.Time { return time.Unix(clock.Load(), 0) }, Log: slog.New(slog.DiscardHandler),
	}
	h := f.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	clock.Store(1000)
	if !f.Stale() {
		t.Error("what was never looked at is not stale")
	}
	if get("/agents/documents") != http.StatusNoContent || f.Stale() {
		t.Error("with a store nothing is answered")
	}
	store.away.Store(true)
	if code := get("/agents/documents"); code != http.StatusServiceUnavailable {
		t.Errorf("without the store: %d", code)
	}
	if get("/livez") != http.StatusNoContent {
		t.Error("a process that runs says that it does not")
	}
	clock.Store(1000 + int64(followLease/time.Second) + 1)
	if !f.Stale() {
		t.Error("what is known is as good as ever")
	}
	store.away.Store(false)
	if get("/agents/documents") != http.StatusNoContent || f.Stale() {
		t.Error("when the store is back nothing is answered")
	}
}

// Every caller gets a look that began after its request, and many share one.
func TestAFollowerLooksForAll(t *testing.T) {
	store := &sharedStub{}
	var taken atomic.Int64
	f := &Follower{Store: store, Now: func() time.Time { return time.Unix(1000, 0) }, Log: slog.New(slog.DiscardHandler), Take: func(_ context.Context, v issuer.Versions) error {
		taken.Store(v.Stops)
		return nil
	}}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				before := store.asked.Load()
				if err := f.CatchUp(t.Context()); err != nil {
					t.Error(err)
				}
				if taken.Load() <= before {
					t.Errorf("look %d was taken, and %d had begun before", taken.Load(), before)
				}
			}
		})
	}
	all.Wait()
}
