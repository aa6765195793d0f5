package spool

import (
	"errors"
	"fmt"
	"os"

	"github.com/powerbox-project/powerbox/evidence"
)

// ErrForked says that the records of a spool do not continue those at the server. The
// server takes none of them.
var ErrForked = errors.New("the records here do not continue those that the server has of this gateway")

// Continues compares the spool with the end of its chain at the server. It returns
// [ErrForked] for the spool of another gateway, for an older copy, and where another
// process wrote records with a copy.
func (s *Spool) Continues(server evidence.Head) error {
	if server.Sequence == 0 {
		return nil
	}
	s.mu.Lock()
	head := s.head
	s.mu.Unlock()
	switch {
	case head.ChainID != server.ChainID:
		return fmt.Errorf("%w: here is chain %s, and the server has chain %s", ErrForked, head.ChainID, server.ChainID)
	case server.Sequence > head.Sequence:
		return fmt.Errorf("%w: the server has %d, and here are %d", ErrForked, server.Sequence, head.Sequence)
	}
	last, known, err := s.hashBefore(server.Sequence)
	if err == nil && known && last != server.Hash {
		err = fmt.Errorf("%w: record %d is another one there", ErrForked, server.Sequence-1)
	}
	return err
}

// hashBefore returns the hash of the record before a place, and false where it is not
// here any more.
func (s *Spool) hashBefore(next int64) (evidence.Hash, bool, error) {
	s.mu.Lock()
	head, segments := s.head, append([]segment(nil), s.segments...)
	s.mu.Unlock()
	if next == head.Sequence {
		return head.Hash, true, nil
	}
	for _, g := range segments {
		if next < g.first || next >= g.first+g.count {
			continue
		}
		payload, err := g.payload(next - g.first)
		if err != nil {
			return evidence.Hash{}, false, err
		}
		sealed, err := evidence.ParseSealed(payload)
		return sealed.Prev(), err == nil, err
	}
	return evidence.Hash{}, false, nil
}

// payload returns one record of a segment.
func (g segment) payload(n int64) ([]byte, error) {
	data, err := os.ReadFile(g.path)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for at := 0; ; n-- {
		f, ok := readFrame(data[at:])
		if !ok {
			return nil, fmt.Errorf("spool: %s: %w at byte %d", g.path, ErrDamaged, at)
		}
		if n == 0 {
			return f.payload, nil
		}
		at += f.size
	}
}
