package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// waiter is a request that waits for its answer, or, without an id, who follows by
// GET. One of them at a time gets the unasked messages of the process: the follower, and
// without one the request that waits longest. Whatever wakes it, it looks at the
// session and not at the event that woke it, so that the same messages come of the same lines.
type waiter struct {
	id   string
	wake chan struct{} // says that there may be something

	// Guarded by the session's mu.
	answer []byte // nil until it came
	wrong  bool   // it is no result
	before int    // how many messages had been queued when it came
}

// take brings one message to who waits for it. Anything that is no object is talk, which
// servers should not write there; an object that could be read in two ways is an
// error.
func (one *session) take(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	if line[0] != '{' {
		one.log.Warn("an MCP server writes what is no message to its standard output")
		return nil
	}
	v, err := powerbox.DecodeValue(line, powerbox.Limits{Bytes: MaxLine, Depth: 64})
	if err != nil {
		return fmt.Errorf("it wrote a message that cannot be read: %w", err)
	}
	id, hasID := v.Get("id")
	_, named := v.Get("method")
	one.mu.Lock()
	defer one.mu.Unlock()
	if hasID && !named {
		key := string(id.AppendJSON(nil))
		if w := one.waits[key]; w != nil {
			delete(one.waits, key)
			_, result := v.Get("result")
			w.answer, w.wrong, w.before = line, !result, one.said
			w.look()
		}
		return nil // the caller has gone
	}
	one.said++
	one.put(append(one.queue, line))
	return nil
}

func (w *waiter) look() {
	select {
	case w.wake <- struct{}{}:
	default: // it will
	}
}

// put makes a queue of these, the oldest of which are dropped where they are too many,
// and wakes who gets them. The session is locked.
func (one *session) put(queue [][]byte) {
	size := 0
	for _, line := range queue {
		size += len(line)
	}
	from := 0
	for len(queue)-from > maxQueue || size > maxHeld {
		size -= len(queue[from])
		from++
	}
	if from > 0 {
		one.log.Warn("messages of an MCP server are dropped: no client follows them")
	}
	one.queue = slices.Clone(queue[from:]) // nothing holds dropped messages
	if first := one.first(); first != nil && len(one.queue) > 0 {
		first.look()
	}
}

// first gets the unasked messages of the process. The session is locked.
func (one *session) first() *waiter {
	switch {
	case one.follows != nil:
		return one.follows
	case len(one.asking) > 0:
		return one.asking[0]
	}
	return nil
}

// join has a request wait. It answers with a status where it cannot.
func (one *session) join(id string) (*waiter, int) {
	one.mu.Lock()
	defer one.mu.Unlock()
	switch {
	case len(one.asking) >= maxWait:
		return nil, http.StatusTooManyRequests
	case one.waits[id] != nil:
		return nil, http.StatusBadRequest // the id is in use
	}
	w := &waiter{id: id, wake: make(chan struct{}, 1)}
	one.waits[id] = w
	one.asking = append(one.asking, w)
	return w, 0
}

// leave ends a wait. Unsent is what it got and could not pass on; that and the
// queue is for the next.
func (one *session) leave(w *waiter, unsent [][]byte) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.waits[w.id] == w {
		delete(one.waits, w.id)
	}
	one.asking = slices.DeleteFunc(one.asking, func(other *waiter) bool { return other == w })
	if one.follows == w {
		one.follows = nil
	}
	one.used = one.now()
	one.put(slices.Concat(unsent, one.queue))
}

// next is the data for w: unasked messages of the process, if they are for w,
// and its answer behind earlier messages.
func (one *session) next(w *waiter) (lines [][]byte, answer []byte) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.first() == w {
		n := len(one.queue)
		if w.answer != nil {
			n = min(n, max(0, w.before-(one.said-n)))
		}
		lines = slices.Clone(one.queue[:n])
		one.put(one.queue[n:])
	}
	return lines, w.answer
}

// await waits until there is something for w, its client has gone, or nothing more
// comes from the process.
func (one *session) await(ctx context.Context, w *waiter) (lines [][]byte, answer []byte, err error) {
	for {
		ended := false
		select {
		case <-one.gone: // after which everything that it wrote is there
			ended = true
		default:
		}
		lines, answer = one.next(w)
		switch {
		case len(lines) > 0 || answer != nil:
			return lines, answer, nil
		case ended:
			return nil, nil, errors.New("the MCP server ended")
		}
		select {
		case <-w.wake:
		case <-one.gone:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// ask gives the process a request, and answers with its response: as JSON, or, where
// the process says something before that and no other caller listens, as events. A session
// that begins with it ends if it does not succeed, because its id is unknown.
func (one *session) ask(r *http.Request, id string, body []byte, begins bool) (*http.Response, error) {
	w, status := one.join(id)
	if w == nil {
		return said(r, status, "", nil), nil
	}
	over := func(unsent [][]byte, passed bool) {
		one.leave(w, unsent)
		if begins && (!passed || w.wrong) {
			one.end()
		}
	}
	if err := one.write(body); err != nil {
		over(nil, false)
		return nil, err
	}
	lines, answer, err := one.await(r.Context(), w)
	switch {
	case err != nil:
		over(nil, false)
		return nil, err
	case len(lines) == 0:
		over(nil, true)
		return one.whole(r, answer), nil
	}
	from, to := io.Pipe()
	go func() {
		unsent, err := one.events(r.Context(), to, w, lines, answer)
		over(unsent, errors.Is(err, io.EOF))
		_ = to.CloseWithError(err)
	}()
	return one.streamed(r, from), nil
}

// follow is the stream of unasked messages. There is one at a time.
func (one *session) follow(r *http.Request) *http.Response {
	w := &waiter{wake: make(chan struct{}, 1)}
	one.mu.Lock()
	if one.follows != nil {
		one.mu.Unlock()
		return said(r, http.StatusConflict, "", nil)
	}
	one.follows = w
	one.mu.Unlock()
	from, to := io.Pipe()
	go func() {
		unsent, err := one.events(r.Context(), to, w, nil, nil)
		one.leave(w, unsent)
		_ = to.CloseWithError(err)
	}()
	return one.streamed(r, from)
}

// events writes these lines and what comes behind them as events, until the answer,
// with io.EOF, or, without one, until the client or the process has gone. Unsent is
// what could not be written and is no answer.
func (one *session) events(ctx context.Context, to io.Writer, w *waiter, lines [][]byte, answer []byte) (unsent [][]byte, err error) {
	for {
		for i, line := range lines {
			if err := event(to, line); err != nil {
				return lines[i:], err
			}
		}
		if answer != nil {
			if err := event(to, answer); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		if lines, answer, err = one.await(ctx, w); err != nil {
			return nil, err
		}
	}
}

func event(to io.Writer, line []byte) error {
	_, err := fmt.Fprintf(to, "event: message\ndata: %s\n\n", line)
	return err
}

func (one *session) whole(r *http.Request, data []byte) *http.Response {
	answer := said(r, http.StatusOK, "application/json", data)
	answer.Header.Set(mcp.HeaderSession, one.id)
	return answer
}

func (one *session) streamed(r *http.Request, body io.ReadCloser) *http.Response {
	answer := said(r, http.StatusOK, "text/event-stream", nil)
	answer.Body, answer.ContentLength = body, -1
	if !one.stateless {
		answer.Header.Set(mcp.HeaderSession, one.id)
	}
	return answer
}
