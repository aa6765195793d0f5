package gateway

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// holds counts what callers have open.
type holds struct {
	limit int // of one caller; 0 for none

	mu   sync.Mutex
	open map[string]int // callers that have something open alone
}

func newHolds(limit int) *holds { return &holds{limit: limit, open: map[string]int{}} }

// take reports whether a caller may open one more. It counts in all shares, or in none.
func (h *holds) take(shares ...share) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range shares {
		if h.limit > 0 && h.open[s.name] >= h.limit*s.times {
			return false
		}
	}
	for _, s := range shares {
		h.open[s.name]++
	}
	return true
}

func (h *holds) leave(shares ...share) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range shares {
		if h.open[s.name]--; h.open[s.name] <= 0 {
			delete(h.open, s.name)
		}
	}
}

// codeOverloaded is the code of calls that are turned away because too many wait.
const codeOverloaded = "overloaded"

// retryOverloaded is after how many seconds a call that was turned away may be sent again.
const retryOverloaded = "1"

// full turns a call away before anything of it is verified, if it would wait for too long,
// and reports whether it did. A revocation is let through.
func (g *Gateway) full(w http.ResponseWriter, r *received) bool {
	if !g.config.Queue.Full() {
		return false
	}
	i := &identified{received: r}
	x := g.glance(i)
	if x.call.Method == a2a.CapabilitiesRevoke {
		return false
	}
	g.config.Queue.Refused()
	g.overloaded(w, x)
	return true
}

// enter waits for a place to decode and decide a call, and turns it away if there is none in
// time. The place is given back by [tally.leave]. A revocation by someone who is known
// waits for no place.
func (g *Gateway) enter(w http.ResponseWriter, i *identified, body []byte) bool {
	known := i.caller.Holder.ID != "" || i.caller.Principal != ""
	if known && g.config.Queue.Busy() && g.of(i, body).call.Method == a2a.CapabilitiesRevoke {
		return true
	}
	rank := shed.Unknown
	if known || i.count.shows() {
		rank = shed.Known
	}
	leave, ok := g.config.Queue.Enter(i.request.Context(), rank)
	if !ok {
		g.overloaded(w, g.of(i, body))
		return false
	}
	i.count.place = leave
	return true
}

// overloaded answers a call that is turned away: nothing of it was executed or recorded.
func (g *Gateway) overloaded(w http.ResponseWriter, x *decoded) {
	d := a2a.Denial{
		Code: a2a.CodeInternal, Reason: codeOverloaded, Retryable: true, Away: true, At: g.config.Now(),
		Message: "this gateway has more calls than it can decide in time, so it did nothing with this one; send it again after the time that Retry-After says",
	}
	w.Header().Set("Retry-After", retryOverloaded)
	if !x.by().hasID() {
		g.deny(w, x, d)
		return
	}
	x.notes.code = d.Reason
	w.Header().Set(HeaderOutcome, "denied")
	w.Header().Set(HeaderReason, d.Reason)
	g.write(w, http.StatusServiceUnavailable, typeJSON, d.JSONRPC(x.call.ID))
}

// unread puts back the bytes that were read of a body.
func unread(body io.ReadCloser, read []byte) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), body), body}
}
