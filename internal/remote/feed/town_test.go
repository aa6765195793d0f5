package feed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

const server = "https://powerbox.example"

// history is a source in memory.
type history struct {
	mu      sync.Mutex
	events  []Event
	changed chan struct{}
	broken  error
}

func (h *history) Events(_ context.Context, after int64) ([]Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return nil, h.broken
	}
	return append([]Event(nil), h.events[min(after, int64(len(h.events))):]...), nil
}

func (h *history) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *history) add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Sequence = int64(len(h.events) + 1)
	h.events = append(h.events, e)
	close(h.changed)
	h.changed = make(chan struct{})
}

// wire carries requests to a handler within the process, and can be cut or
// changed on the way.
type wire struct {
	handler http.Handler
	mu      sync.Mutex
	cut     bool                       // nothing arrives any more, without an error
	change  func(line string) []string // what a relay makes of one line
	paths   []string
}

func (w *wire) set(change func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	a := &answering{header: http.Header{}, body: write, wire: w, status: make(chan int, 1)}
	w.set(func(w *wire) { w.paths = append(w.paths, r.URL.RequestURI()) })
	go func() {
		w.handler.ServeHTTP(a, r)
		a.WriteHeader(http.StatusOK)
		_ = write.Close()
	}()
	context.AfterFunc(r.Context(), func() { _ = read.CloseWithError(context.Cause(r.Context())) })
	select {
	case code := <-a.status:
		return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: a.header, Body: read, Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

type answering struct {
	header http.Header
	body   *io.PipeWriter
	wire   *wire
	status chan int
	begun  bool
}

func (a *answering) Header() http.Header              { return a.header }
func (a *answering) SetWriteDeadline(time.Time) error { return nil }
func (a *answering) Flush()                           {}
func (a *answering) WriteHeader(code int) {
	if !a.begun {
		a.begun, _ = true, code
		a.status <- code
	}
}

func (a *answering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.wire.mu.Lock()
	cut, change := a.wire.cut, a.wire.change
	a.wire.mu.Unlock()
	if cut {
		return len(p), nil
	}
	out := []string{string(p)}
	if change != nil {
		out = change(string(p))
	}
	for _, s := range out {
		if _, err := io.WriteString(a.body, s); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func key(t *testing.T, b byte) signed.Key {
	t.Helper()
	k, err := signed.NewKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// town is a publisher, a wire and a subscriber.
type town struct {
	t          *testing.T
	history    *history
	publisher  *Publisher
	wire       *wire
	subscriber *Subscriber
	log        *lockedLog
}

type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedLog) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func now() time.Time { return time.Now() } //nolint:forbidigo // the clock of the bubble

func newTown(t *testing.T, change ...func(*Config)) *town {
	t.Helper()
	w := &town{t: t, history: &history{changed: make(chan struct{})}, log: &lockedLog{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	var err error
	w.publisher, err = NewPublisher(PublisherConfig{
		Source: w.history, Key: key(t, 1), Issuer: server, Heartbeat: 5 * time.Second, Streams: 2, Now: now, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wire = &wire{handler: w.publisher.Handler()}
	c := Config{Server: server, Issuer: server, Keys: []signed.Public{key(t, 1).Public()}, Transport: w.wire, Now: now, Log: log}
	for _, f := range change {
		f(&c)
	}
	if w.subscriber, err = New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

// run follows the feed until the test ends.
func (w *town) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.subscriber.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// after lets time pass.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// in runs a test in a bubble, where nothing takes time but what waits.
func in(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }
