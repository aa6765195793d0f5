package app

import (
	"context"
	"errors"
	"testing"
)

// TestCallsHaveTheProcessorAlone takes over nothing while calls write many records, until too
// many wait, and does not look again at what it has.
func TestCallsHaveTheProcessorAlone(t *testing.T) {
	var size, taken int64
	asked := 0
	gone := error(nil)
	b := behind{
		size: func(context.Context) (int64, error) { return size, gone },
		steps: []func(context.Context) (bool, error){func(context.Context) (bool, error) {
			asked++
			taken = min(size, taken+4*busy)
			return taken == size, nil
		}},
	}
	for _, one := range []struct {
		what        string
		more, taken int64
		asked       int
	}{
		{"an empty log", 0, 0, 0},
		{"some records", busy, busy, 1},
		{"no more", 0, busy, 1},
		{"many", 3 * busy, busy, 1},
		{"many again", 2 * busy, busy, 1},
		{"few", 1, 5 * busy, 2},
		{"the rest", 0, 6*busy + 1, 3},
		{"too many", mostBehind, 10*busy + 1, 4},
	} {
		size += one.more
		if err := b.look(t.Context()); err != nil || taken != one.taken || asked != one.asked {
			t.Errorf("%s: %d records were taken over in %d steps: %v; want %d in %d", one.what, taken, asked, err, one.taken, one.asked)
		}
	}
	if gone = errors.New("the disk is gone"); !errors.Is(b.look(t.Context()), gone) {
		t.Error("a log that cannot be read is no error")
	}
}
