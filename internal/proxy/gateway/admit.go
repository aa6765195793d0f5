package gateway

import (
	"net/http"
	"sync"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// holds counts what callers have open.
type holds struct {
	limit int // of one caller; 0 for none

	mu   sync.Mutex
	open map[string]int // callers that have something open alone
}

func newHolds(limit int) *holds { return &holds{limit: limit, open: map[string]int{}} }

// take reports whether a caller may open one more.
func (h *holds) take(caller string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limit > 0 && h.open[caller] >= h.limit {
		return false
	}
	h.open[caller]++
	return true
}

func (h *holds) leave(caller string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[caller]--; h.open[caller] <= 0 {
		delete(h.open, caller)
	}
}

// admit answers a call that comes too fast, or while this server ends, or that
// would be one stream too many of its caller. What is admitted leaves at its
// end.
func (g *Gateway) admit(w http.ResponseWriter, x *decoded) (leave func(), admitted bool) {
	if g.leaving(w, x) {
		return nil, false
	}
	if !x.call.Streaming {
		return func() {}, true
	}
	caller := limited(x.caller, x.request)
	if !g.streams.take(caller) {
		w.Header().Set("Retry-After", "1")
		g.deny(w, x, a2a.Denial{Reason: "too_many_streams", Message: "this caller has as many streams open as the operator allows; close one", Retryable: true})
		return nil, false
	}
	return func() { g.streams.leave(caller) }, true
}
