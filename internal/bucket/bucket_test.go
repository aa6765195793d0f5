package bucket

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// TestAAPF3_Evicted: a full table drops its least used entry.
func TestAAPF3_Evicted(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	var table Table
	for n := range evictFrom {
		for range n + 1 {
			table.Take(now, string(rune('a'+n)), 1, evictFrom)
		}
	}
	for range evictFrom - 1 {
		table.evict(now)
	}
	if len(table.of) != 1 || table.of[string(rune('a'+evictFrom-1))] == nil {
		t.Errorf("AAP-F3: %v are left; want the one that was used up", slices.Collect(maps.Keys(table.of)))
	}
}
