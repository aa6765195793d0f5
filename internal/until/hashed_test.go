package until

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hash is a key whose part and order follow from a small number.
func hash(n int) Key { return Key{uint64(n%3) << 52, uint64(n)} }

// all returns the hashes of a set with their ends.
func (s Hashed) all() map[Key]int64 {
	out := map[Key]int64{}
	if s.parts != nil {
		for _, p := range s.parts {
			for i := range p.sized() {
				out[p.keys[i]] = int64(p.ends[i])
			}
		}
	}
	return out
}

func (p *part) sized() int {
	if p == nil {
		return 0
	}
	return len(p.keys)
}

// TestHashed holds the set of hashes against a map, while some are added one by one, and some were
// read before.
func TestHashed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Hashed
		want := map[Key]int64{}
		now := int64(1_000)
		drawn := func() (Key, int64) {
			return hash(rapid.IntRange(0, 60).Draw(t, "id")), rapid.SampledFrom([]int64{now - 1, now, now + 5, now + 500}).Draw(t, "until")
		}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			more, before := map[Key]int64{}, s.all()
			for range rapid.SampledFrom([]int{0, 1, 2, 30}).Draw(t, "ids") {
				k, end := drawn()
				more[k] = max(more[k], end)
			}
			var next Hashed
			if rapid.Bool().Draw(t, "read") {
				g := &Growing{}
				for k, end := range more {
					g.Add(k, end-1)
					g.Add(k, end)
				}
				next = g.Set().And(s)
				if len(more) == 0 {
					next = s.And(g.Set())
				}
			} else {
				next = s.With(more, time.Unix(now, 0))
			}
			if !maps.Equal(before, s.all()) {
				t.Fatal("the set before was changed")
			}
			s = next
			for k, end := range more {
				want[k] = max(want[k], end)
			}
			all := s.all()
			for k, end := range want {
				got, has := all[k]
				if has != s.Has(k) || !has && end >= now || has && got != end {
					t.Fatalf("%v until %d: %d, %t, %t", k, end, got, has, s.Has(k))
				}
				if !has {
					delete(want, k) // it was over, and forgotten
				}
			}
			if len(all) != len(want) || s.Has(hash(61)) {
				t.Fatalf("%d hashes are there; want %d", len(all), len(want))
			}
			now += rapid.Int64Range(0, 50).Draw(t, "time")
		}
	})
}

// Hashes that are over are forgotten, so that the set does not grow for ever.
func TestHashedForgets(t *testing.T) {
	var s Hashed
	for n := range 10_000 {
		s = s.With(map[Key]int64{hash(n): int64(n) + 100}, time.Unix(int64(n), 0))
	}
	if n := len(s.all()); n > 1_000 {
		t.Errorf("%d hashes are kept; 100 count", n)
	}
}

// An end that does not fit counts as none.
func TestHashedNeverEnds(t *testing.T) {
	for _, end := range []int64{0, 1 << 40} {
		s := Hashed{}.With(map[Key]int64{hash(1): end}, time.Unix(0, 0)).With(map[Key]int64{hash(4): end}, time.Unix(1<<32-1, 0))
		if !s.Has(hash(1)) || !s.Has(hash(4)) {
			t.Errorf("an end of %d is over", end)
		}
	}
}
