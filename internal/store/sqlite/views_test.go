package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// No more views begin at a time than there are connections for. One that waits begins when
// another ends, or gives up with its caller. After Close none begins.
func TestViewsWaitForEachOther(t *testing.T) {
	s := newStore(t)
	end, begun, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	for range maxViews {
		go func() {
			ended <- s.View(t.Context(), func(issuer.Reader) error { begun <- struct{}{}; <-end; return nil })
		}()
	}
	for range maxViews {
		<-begun
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.View(hurried, func(issuer.Reader) error { t.Error("one more view has begun"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a view whose caller gives up: %v", err)
	}
	go func() {
		ended <- s.View(t.Context(), func(r issuer.Reader) error { _, err := r.Modes(); return err })
	}()
	close(end)
	for range maxViews + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := len(s.views.idle); n == 0 || n > maxViews {
		t.Errorf("%d connections are kept; want 1 to %d", n, maxViews)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.View(t.Context(), func(issuer.Reader) error { t.Error("a view of a closed store has begun"); return nil }); !errors.Is(err, errClosed) || !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("a view of a closed store: %v", err)
	}
}
