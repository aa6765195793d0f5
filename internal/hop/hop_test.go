package hop_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/powerbox-project/powerbox/internal/hop"
)

// broken is a connection that nothing can be written to any more once it is told.
type broken struct {
	net.Conn
	now *atomic.Bool
}

func (b broken) Write(p []byte) (int, error) {
	if b.now.Load() {
		return 0, errors.New("broken")
	}
	return b.Conn.Write(p)
}

// TestATK42_SentOnce ends a connection that was used before, once a request has
// been written to it and once before anything could be.
func TestATK42_SentOnce(t *testing.T) {
	var got atomic.Int32
	abort := false
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != "{}" || r.Header.Get("Idempotency-Key") != "k" || r.Header.Get("X-Idempotency-Key") != "k" {
			t.Errorf("the server got %q %v", body, r.Header)
		}
		got.Add(1)
		if abort {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	var now atomic.Bool
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		now.Store(false) // the new one is whole
		return broken{conn, &now}, err
	}}
	defer transport.CloseIdleConnections()
	send := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}
		hop.Onward(r, []byte("{}"), false)
		answer, err := transport.RoundTrip(r)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	now.Store(true)
	if err := send(); err != nil || got.Load() != 2 {
		t.Errorf("what was never written: %v, and the server got %d; want 2", err, got.Load())
	}
	abort = true
	if err := send(); err == nil || got.Load() != 3 {
		t.Errorf("ATK-42 what was written: %v, and the server got %d; want 3", err, got.Load())
	}
}

// TestATK31_AnExpectationEndsHere: what reads the body has met the expectation, so that
// the next hop is asked for nothing.
func TestATK31_AnExpectationEndsHere(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://agent.example/", http.NoBody)
	r.Header.Set("Expect", "100-continue")
	r.Header.Set("Accept", "application/json")
	hop.Onward(r, []byte("{}"), false)
	if r.Header["Expect"] != nil || r.Header.Get("Accept") == "" {
		t.Errorf("what continues has %v", r.Header)
	}
}
