package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestATK88_DamageInTheLastBatchOfASpool flips bytes of the last record of a process that
// was killed: it was acknowledged, so it is not cut off, and a salvage says that it is
// lost.
func TestATK88_DamageInTheLastBatchOfASpool(t *testing.T) {
	for _, records := range []int{1, 3} {
		c := config(t, filepath.Join(t.TempDir(), "spool"))
		s := open(t, c)
		ids := fill(t, s, records)
		if err := errors.Join(s.Close(), os.Remove(filepath.Join(c.Dir, endName))); err != nil { // it was killed
			t.Fatal(err)
		}
		path := s.segments[0].path
		whole := readFile(t, path)
		start := 0
		for range records - 1 {
			f, _ := readFrame(whole[start:])
			start += f.size
		}
		for at := start; at < len(whole)-markSize; at += 13 {
			changed := slices.Clone(whole)
			changed[at] ^= 1
			writeFile(t, path, changed)
			if _, err := Open(c); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d records, byte %d: %v; want that it is damaged", records, at, err)
			}
			found, err := Check(c.Dir, recordKey(t))
			if err != nil || len(found.Damage) != 1 || found.Damage[0].From != int64(records-1) || found.Damage[0].To != int64(records) {
				t.Fatalf("%d records, byte %d: %+v %v", records, at, found, err)
			}
		}
		to := &server{}
		done := salvaged(t, c, to)
		if len(done.Lost) != 1 || done.Lost[0].From != int64(records-1) || done.Lost[0].To != int64(records) {
			t.Errorf("lost of %d: %+v", records, done.Lost)
		}
		drained(t, open(t, c), to)
		if got, want := to.got(), append(ids[:records-1], "rec_loss"); !slices.Equal(got, want) {
			t.Errorf("at the server: %v, want %v", got, want)
		}
	}
}
