package gateway

import "sync"

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
