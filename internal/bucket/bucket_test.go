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

// TestATK117_WhatOneLimitRefusesUsesUpNoOther: a request that one bucket refuses takes nothing from
// the others, in whatever order they are named.
func TestATK117_WhatOneLimitRefusesUsesUpNoOther(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	own, shared, none := PerMinute("own", 1), PerMinute("shared", 3), PerMinute("none", 0)
	for _, order := range [][]Bucket{{own, shared, none}, {none, shared, own}} {
		var table Table
		if _, ok := table.TakeAll(now, order...); !ok {
			t.Fatal("ATK-117: the first request is refused")
		}
		for range 10 {
			if wait, ok := table.TakeAll(now, order...); ok || wait < 1 || wait > 61 {
				t.Fatalf("ATK-117: a request too many: %t, wait %d s; want a refusal for about a minute", ok, wait)
			}
		}
		for range 2 {
			if _, ok := table.TakeAll(now, PerMinute("another", 9), shared); !ok {
				t.Error("ATK-117: requests that were refused have used up what all share")
			}
		}
		if _, ok := table.TakeAll(now, shared); ok {
			t.Error("ATK-117: a fourth request of all; want it refused")
		}
	}
}
