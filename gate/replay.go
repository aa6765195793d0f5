package gate

import (
	"maps"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/steady"
)

// Memory is a [Replay] in memory, for one gateway. It holds a bounded number
// of ids and refuses every proof while it is full: forgetting one would let it
// be used again.
type Memory struct {
	limit int
	clock steady.Clock

	mu   sync.Mutex
	ids  map[string]time.Time // until when an id may not be used again
	next time.Time            // when expired ids are forgotten
}

// NewMemory returns a memory for that many ids.
func NewMemory(limit int) *Memory { return &Memory{limit: limit, ids: map[string]time.Time{}} }

// Use implements [Replay].
func (m *Memory) Use(id string, until, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	past := m.clock.Past(now)
	if !past.Before(m.next) {
		for id, end := range m.ids {
			if end.Before(past) {
				delete(m.ids, id)
			}
		}
		m.next = past.Add(10 * time.Second)
	}
	if end, used := m.ids[id]; used && !end.Before(past) || len(m.ids) >= m.limit {
		return false
	}
	m.ids[id] = until
	return true
}

// Used returns the ids that may not be used again, and until when.
func (m *Memory) Used() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.ids)
}

// Restore adds ids that were used before a restart. It is called before the memory is
// used.
func (m *Memory) Restore(ids map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.ids, ids)
}
