package until

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSet holds the set against one map, while ids are added one by one and many at
// once, and their times go by.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		want := map[string]int64{}
		now := int64(1_000)
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			more := map[string]int64{}
			for range rapid.SampledFrom([]int{1, 2, 30, 200}).Draw(t, "ids") {
				more[fmt.Sprint(rapid.IntRange(0, 400).Draw(t, "id"))] = rapid.SampledFrom([]int64{0, now - 1, now, now + 5, now + 500}).Draw(t, "until")
			}
			before := maps.Collect(s.All())
			next := s.With(more, time.Unix(now, 0))
			if !maps.Equal(before, maps.Collect(s.All())) {
				t.Fatal("the set before was changed")
			}
			s = next
			for id, end := range more {
				if old, ok := want[id]; !ok || old != 0 && (end == 0 || end > old) {
					want[id] = end
				}
			}
			all := maps.Collect(s.All())
			for id, end := range want {
				got, has := all[id]
				if over := end != 0 && end < now; !over && (!has || got != end || !s.Has(id)) {
					t.Fatalf("%s until %d: %d, %t", id, end, got, has)
				}
				if !has {
					delete(want, id) // it was over, and forgotten
				}
			}
			for id := range all {
				if _, known := want[id]; !known || !s.Has(id) {
					t.Fatalf("%s was never added", id)
				}
			}
			if s.Has("another") {
				t.Fatal("another one is there")
			}
			now += rapid.Int64Range(0, 50).Draw(t, "time")
		}
	})
}

// Expired entries are forgotten, so that the set does not grow for ever.
func TestForgets(t *testing.T) {
	var s Set
	for n := range int64(10_000) {
		s = s.With(map[string]int64{fmt.Sprint(n): n + 100}, time.Unix(n, 0))
	}
	if n := len(maps.Collect(s.All())); n > 1_000 {
		t.Errorf("%d ids are kept; 100 count", n)
	}
}

func BenchmarkWith(b *testing.B) {
	all := map[string]int64{}
	for n := range 1_000_000 {
		all[fmt.Sprintf("rv_%026d", n)] = 0
	}
	s := Set{}.With(all, time.Unix(0, 0))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		s = s.With(map[string]int64{fmt.Sprint(n): 0}, time.Unix(0, 0))
	}
}

func BenchmarkHas(b *testing.B) {
	all := map[string]int64{}
	ids := make([]string, 1_000_000)
	for n := range ids {
		ids[n] = fmt.Sprintf("rv_%026d", n)
		all[ids[n]] = 0
	}
	s := Set{}.With(all, time.Unix(0, 0))
	n := 0
	for b.Loop() {
		n = (n + 7919) % len(ids)
		if !s.Has(ids[n]) {
			b.Fatal(n)
		}
	}
}
