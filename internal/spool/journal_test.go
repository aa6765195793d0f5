package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func openJournal(t *testing.T, path string, want ...string) *Journal {
	t.Helper()
	j, entries, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	var got []string
	for _, e := range entries {
		got = append(got, string(e))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	return j
}

func put(t *testing.T, j *Journal, entries ...string) {
	t.Helper()
	if err := j.Append(len(entries), func(to []byte, i int) []byte { return append(to, entries[i]...) }); err != nil {
		t.Fatal(err)
	}
}

// What was appended is there after any end, until it is reset.
func TestEXT27_AJournalKeepsWhatItAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	put(t, j, "one", "two")
	put(t, j, "three")
	j = openJournal(t, path, "one", "two", "three")
	put(t, j, "four")
	j = openJournal(t, path, "one", "two", "three", "four")
	if err := j.Reset(); err != nil || j.Size() != 0 {
		t.Fatal(err, j.Size())
	}
	j = openJournal(t, path)
	put(t, j, "five")
	openJournal(t, path, "five")
}

// A batch that was cut off was never acknowledged; damage before the last one was.
func TestEXT24_ATornBatchOfAJournalIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	put(t, j, "one")
	first := j.Size()
	put(t, j, "two", "three")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:j.Size()]
	for n := first; n < int64(len(whole)); n++ {
		for _, tail := range [][]byte{nil, make([]byte, 64)} {
			if err := os.WriteFile(path, append(bytes.Clone(whole[:n]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			put(t, openJournal(t, path, "one"), "four")
			openJournal(t, path, "one", "four")
		}
	}
	if err := os.WriteFile(path, bytes.Replace(whole, []byte("one"), []byte("eno"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenJournal(path); !errors.Is(err, errDamaged) {
		t.Errorf("%v; want that it is damaged", err)
	}
}

// After a write that failed the journal ends with what was acknowledged before,
// and nothing is acknowledged until that is known.
func TestEXT27_AJournalGoesOnAfterAWriteThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	put(t, j, "one")
	good := j.file
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	j.file = readOnly
	for range 2 {
		if err := j.Append(1, func(to []byte, _ int) []byte { return append(to, "two"...) }); err == nil {
			t.Fatal("it was acknowledged")
		}
	}
	j.file = good
	// The disk may have it all the same.
	if _, err := good.WriteAt(appendFrame(nil, j.batch, true, []byte("two")), j.size); err != nil {
		t.Fatal(err)
	}
	if err := j.Mend(); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path, "one")
	put(t, j, "three")
	if err := readOnly.Close(); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path, "one", "three")
	if err := j.Append(1, func(to []byte, _ int) []byte { return append(to, make([]byte, maxRecord+1)...) }); err == nil {
		t.Error("an entry that could not be read back was taken")
	}
}
