package until

import (
	"sort"
	"time"
)

// Key is a hash of an id, whose bits are evenly spread.
type Key [2]uint64

// leaves is how many parts a set of hashes has.
const leaves = 1 << 12

// Hashed is a [Set] of hashes, which may be millions: each takes 20 bytes. The next set shares all parts
// except those that its new ids are in. The zero Hashed is empty.
type Hashed struct{ parts *[leaves]*part }

// part has the hashes that begin with the same bits, in order.
type part struct {
	keys []Key
	ends []uint32 // Unix seconds; the largest number for never
}

func partOf(k Key) int { return int(k[0] >> 52) }

// place returns where a hash is in a part, or where it belongs.
func (p *part) place(k Key) (at int, there bool) {
	low, high := 0, len(p.keys)
	for low < high {
		middle := (low + high) / 2
		if less(p.keys[middle], k) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(p.keys) && p.keys[low] == k
}

func less(a, b Key) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// stored returns an end in the form of [part].
func stored(end int64) uint32 {
	if end <= 0 || end > int64(^uint32(0)) {
		return ^uint32(0)
	}
	return uint32(end)
}

// Has reports whether a hash is in the set. One whose time is over may still be.
func (s Hashed) Has(k Key) bool {
	if s.parts == nil || s.parts[partOf(k)] == nil {
		return false
	}
	_, there := s.parts[partOf(k)].place(k)
	return there
}

// With returns the set with more hashes, as [Set.With].
func (s Hashed) With(more map[Key]int64, now time.Time) Hashed {
	if len(more) == 0 {
		return s
	}
	next := new([leaves]*part)
	if s.parts != nil {
		*next = *s.parts
	}
	for k, end := range more {
		n := partOf(k)
		if s.parts == nil && next[n] == nil || s.parts != nil && next[n] == s.parts[n] {
			next[n] = next[n].since(now)
		}
		p := next[n]
		at, there := p.place(k)
		if there {
			p.ends[at] = max(p.ends[at], stored(end))
			continue
		}
		p.keys, p.ends = append(p.keys, k), append(p.ends, 0)
		copy(p.keys[at+1:], p.keys[at:])
		copy(p.ends[at+1:], p.ends[at:])
		p.keys[at], p.ends[at] = k, stored(end)
	}
	return Hashed{next}
}

// since returns a copy of a part without hashes whose time is over. It has room for one more.
func (p *part) since(now time.Time) *part {
	if p == nil {
		return &part{}
	}
	next := &part{make([]Key, 0, len(p.keys)+1), make([]uint32, 0, len(p.keys)+1)}
	for i, end := range p.ends {
		if int64(end) >= now.Unix() {
			next.keys, next.ends = append(next.keys, p.keys[i]), append(next.ends, end)
		}
	}
	return next
}

// Growing is a set of hashes that is being read. It cannot be searched yet.
type Growing struct{ parts [leaves]part }

// Add adds a hash. Of two ends of one hash the later counts.
func (g *Growing) Add(k Key, end int64) {
	p := &g.parts[partOf(k)]
	p.keys, p.ends = append(p.keys, k), append(p.ends, stored(end))
}

// Set returns the set. The growing set must not be used any more.
func (g *Growing) Set() Hashed {
	out := Hashed{new([leaves]*part)}
	for n := range g.parts {
		if len(g.parts[n].keys) > 0 {
			out.parts[n] = g.parts[n].ordered()
		}
		g.parts[n] = part{}
	}
	return out
}

// And returns the set of all hashes of both. It is cheap if other is small.
func (s Hashed) And(other Hashed) Hashed {
	if s.parts == nil || other.parts == nil {
		if s.parts == nil {
			return other
		}
		return s
	}
	out := *s.parts
	for n, p := range other.parts {
		switch {
		case p == nil:
		case out[n] == nil:
			out[n] = p
		default:
			both := out[n].since(time.Unix(0, 0))
			both.keys, both.ends = append(both.keys, p.keys...), append(both.ends, p.ends...)
			out[n] = both.ordered()
		}
	}
	return Hashed{&out}
}

// ordered returns the part in order, each hash once, in no more memory than it needs.
func (p *part) ordered() *part {
	sort.Sort(p)
	n := 0
	for i, k := range p.keys {
		if i > 0 && k == p.keys[n-1] {
			p.ends[n-1] = max(p.ends[n-1], p.ends[i])
			continue
		}
		p.keys[n], p.ends[n] = k, p.ends[i]
		n++
	}
	return &part{append([]Key(nil), p.keys[:n:n]...), append([]uint32(nil), p.ends[:n:n]...)}
}

// Len implements [sort.Interface].
func (p *part) Len() int { return len(p.keys) }

// Less implements [sort.Interface].
func (p *part) Less(i, j int) bool { return less(p.keys[i], p.keys[j]) }

// Swap implements [sort.Interface].
func (p *part) Swap(i, j int) {
	p.keys[i], p.keys[j] = p.keys[j], p.keys[i]
	p.ends[i], p.ends[j] = p.ends[j], p.ends[i]
}
