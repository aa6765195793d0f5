package evidence

import (
	"hash/maphash"
	"iter"
)

// entries are the readable records of a bundle in the order of their lines. A bundle can have
// millions, so they stand in pieces that never move, and their ids have an index of numbers.
type entries struct {
	pieces [][]entry
	seed   maphash.Seed
	ids    map[uint64]uint32 // from the hash of an id, or one of the next numbers, to its first entry
}

// piece is how many entries stand together. The first piece is smaller, as most bundles are.
const (
	piece      = 4096
	firstPiece = 64
)

func newEntries() entries { return entries{seed: maphash.MakeSeed(), ids: map[uint64]uint32{}} }

func (s *entries) len() int {
	switch whole := len(s.pieces); whole {
	case 0:
		return 0
	case 1:
		return len(s.pieces[0])
	default:
		return firstPiece + piece*(whole-2) + len(s.pieces[whole-1])
	}
}

func (s *entries) add(e entry) {
	switch whole := len(s.pieces); {
	case whole == 0:
		s.pieces = append(s.pieces, make([]entry, 0, firstPiece))
	case len(s.pieces[whole-1]) == cap(s.pieces[whole-1]):
		s.pieces = append(s.pieces, make([]entry, 0, piece))
	}
	last := &s.pieces[len(s.pieces)-1]
	*last = append(*last, e)
}

func (s *entries) at(n int) *entry {
	if n < firstPiece {
		return &s.pieces[0][n]
	}
	n -= firstPiece
	return &s.pieces[1+n/piece][n%piece]
}

func (s *entries) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for n := range s.len() {
			if !yield(s.at(n)) {
				return
			}
		}
	}
}

// first returns the entry that has an id already. If none has, the next entry that is added
// gets the id.
func (s *entries) first(id string) *entry {
	for at := maphash.String(s.seed, id); ; at++ {
		n, taken := s.ids[at]
		if !taken {
			s.ids[at] = uint32(s.len()) // memory ends before 4 billion entries
			return nil
		}
		if e := s.at(int(n)); e.id == id {
			return e
		}
	}
}
