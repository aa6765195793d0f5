package shed

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Deadline has the requests to next answered in time. A handler that neither began its
// answer nor said that it progresses within patience is answered by late instead, which
// writes an answer with status 503. The handler continues: the change that it waits for may
// still take effect, and what it writes afterwards is discarded. 0 is as long as it takes.
func Deadline(patience time.Duration, late http.HandlerFunc, next http.Handler) http.Handler {
	if patience == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &countdown{patience: patience, timer: time.NewTimer(patience)}
		defer c.timer.Stop()
		// The change outlives an answer that came too early, and nothing else.
		ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(r.Context()), countdownKey{}, c))
		left := context.AfterFunc(r.Context(), cancel)
		inner := r.WithContext(ctx)
		if r.Body != nil {
			inner.Body = &timedBody{ReadCloser: r.Body, countdown: c}
		}
		out := &answering{real: w, header: w.Header().Clone()}
		done := make(chan any, 1)
		go func() {
			defer cancel()
			defer func() { done <- recover() }()
			next.ServeHTTP(out, inner)
			out.begin()
		}()
		select {
		case failed := <-done:
			again(failed)
		case <-c.timer.C:
			if out.giveUp() {
				left()
				late(w, r)
				return
			}
			again(<-done)
		}
	})
}

// again has the server treat the panic of a handler as its own.
func again(failed any) {
	if failed != nil {
		panic(failed)
	}
}

// LateMessage is what the sender of a request is told that was not answered in time.
func LateMessage(method string) string {
	if method == http.MethodGet {
		return "the store did not answer in time; ask again after the time that Retry-After says"
	}
	return "the server could not make this durable in time; it may still take effect. Look whether it did before you repeat it"
}

// LogLate has the log say which request was not answered in time.
func LogLate(log *slog.Logger, r *http.Request) {
	log.ErrorContext(r.Context(), "the store did not answer in time, so the server refused a request", slog.String("method", r.Method), slog.String("path", r.URL.Path))
}

type countdownKey struct{}

// countdown is the time that a request has left.
type countdown struct {
	patience time.Duration
	timer    *time.Timer

	mu     sync.Mutex
	paused int
}

func (c *countdown) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused++
	c.timer.Stop()
}

func (c *countdown) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 {
		c.timer.Reset(c.patience)
	}
}

// Progress gives a request its whole time again: for work of many steps, after each of
// them. Without [Deadline] it does nothing.
func Progress(ctx context.Context) { Pause(ctx)() }

// Pause stops the time of a request while it waits for something that has a limit of its
// own, until the function that it returns is called.
func Pause(ctx context.Context) (resume func()) {
	c, ok := ctx.Value(countdownKey{}).(*countdown)
	if !ok {
		return func() {}
	}
	c.pause()
	return c.resume
}

// timedBody stops the time while the client sends: slow clients have another limit.
type timedBody struct {
	io.ReadCloser
	countdown *countdown
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.countdown.pause()
	defer b.countdown.resume()
	return b.ReadCloser.Read(p)
}

// answering is the answer of a handler, until another one was given.
type answering struct {
	real   http.ResponseWriter
	header http.Header // until the answer begins

	mu           sync.Mutex
	begun, given bool
}

// giveUp reports whether another answer can be given; the handler's is discarded then.
func (a *answering) giveUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.given = !a.begun
	return a.given
}

// begin reports whether the answer is the handler's.
func (a *answering) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given {
		return false
	}
	if !a.begun {
		a.begun = true
		h := a.real.Header()
		clear(h)
		maps.Copy(h, a.header)
	}
	return true
}

// Header implements [http.ResponseWriter].
func (a *answering) Header() http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun {
		return a.real.Header()
	}
	return a.header
}

// WriteHeader implements [http.ResponseWriter].
func (a *answering) WriteHeader(status int) {
	if a.begin() {
		a.real.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (a *answering) Write(p []byte) (int, error) {
	if !a.begin() {
		return 0, http.ErrHandlerTimeout
	}
	return a.real.Write(p)
}

// FlushError is for [http.ResponseController].
func (a *answering) FlushError() error {
	if !a.begin() {
		return http.ErrHandlerTimeout
	}
	return http.NewResponseController(a.real).Flush()
}

// SetReadDeadline is for [http.ResponseController].
func (a *answering) SetReadDeadline(t time.Time) error {
	return a.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline is for [http.ResponseController].
func (a *answering) SetWriteDeadline(t time.Time) error {
	return a.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// control changes the connection as long as no other answer was given on it.
func (a *answering) control(change func(*http.ResponseController) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given {
		return http.ErrHandlerTimeout
	}
	return change(http.NewResponseController(a.real))
}
