// Package until has the set of ids that count until a time, such as revocations:
// read without a lock by everybody, and replaced by its next state with every change,
// at a cost that grows with the square root of its size.
package until

import (
	"iter"
	"maps"
	"time"
)

// Set is a set of ids, each with the time after which it does not matter, in Unix
// seconds, 0 for never. It is never changed; [Set.With] makes the next one. The zero Set
// is empty.
//
// It is a large map that is shared by many sets, and a small one of what came since.
type Set struct{ base, delta map[string]int64 }

// few is how many ids may come to a small set before it is made anew.
const few = 64

// Has reports whether an id is in the set. One whose time is over may still be.
func (s Set) Has(id string) bool {
	_, ok := s.until(id)
	return ok
}

func (s Set) until(id string) (int64, bool) {
	if end, ok := s.delta[id]; ok {
		return end, true
	}
	end, ok := s.base[id]
	return end, ok
}

// With returns the set with more ids. Of two ends of one id the later counts. Ids
// whose time is over by now may be forgotten.
func (s Set) With(more map[string]int64, now time.Time) Set {
	delta := maps.Clone(s.delta)
	if delta == nil {
		delta = make(map[string]int64, len(more))
	}
	for id, end := range more {
		if old, ok := s.until(id); !ok || old != 0 && (end == 0 || end > old) {
			delta[id] = end
		}
	}
	if len(delta)*len(delta) <= len(s.base)+few*few {
		return Set{s.base, delta}
	}
	base := make(map[string]int64, len(s.base)+len(delta))
	for _, from := range []map[string]int64{s.base, delta} {
		for id, end := range from {
			if end == 0 || end >= now.Unix() {
				base[id] = end
			}
		}
	}
	return Set{base: base}
}

// All returns the ids with their ends.
func (s Set) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for id, end := range s.delta {
			if !yield(id, end) {
				return
			}
		}
		for id, end := range s.base {
			if _, later := s.delta[id]; !later && !yield(id, end) {
				return
			}
		}
	}
}
