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
	if err := j.Append(len(entries), 0, func(to []byte, i int) []byte { return append(to, entries[i]...) }); err != nil {
		t.Fatal(err)
	}
}

// Anything that was appended is there after any end, until it is reset.
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
	whole = whole[:slotsSize+j.Size()-markSize]
	for n := slotsSize + first; n < int64(len(whole)); n++ {
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
	if _, _, err := OpenJournal(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v; want that it is damaged", err)
	}
}

// After a failed write the journal ends with the records acknowledged before,
// and it acknowledges nothing until that is certain.
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
		if err := j.Append(1, 0, func(to []byte, _ int) []byte { return append(to, "two"...) }); err == nil {
			t.Fatal("it was acknowledged")
		}
	}
	j.file = good
	// The disk may have it all the same.
	if _, err := good.WriteAt(appendFrame(nil, j.batch, true, []byte("two")), j.base+j.size); err != nil {
		t.Fatal(err)
	}
	if err := j.Repair(); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path, "one")
	put(t, j, "three")
	if err := readOnly.Close(); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path, "one", "three")
	if err := j.Append(1, 0, func(to []byte, _ int) []byte { return append(to, make([]byte, maxRecord+1)...) }); err == nil {
		t.Error("an entry that could not be read back was taken")
	}
}

// The journal overwrites forgotten records in place. However many bytes of that
// reach the disk, no forgotten record comes back, and damage is told apart from it.
func TestEXT24_AJournalIsWrittenOverInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for _, e := range []string{"one", "two", "three", "four", "five"} {
		put(t, j, e)
	}
	if err := j.Reset(); err != nil {
		t.Fatal(err)
	}
	old := readFile(t, path)
	put(t, j, "six and a half")
	one := j.Size()
	put(t, j, "seven")
	data := readFile(t, path)
	if !bytes.Contains(data, []byte("five")) {
		t.Error("the file was cut, not written over")
	}
	for n := slotsSize; n <= slotsSize+int(j.Size()); n++ {
		writeFile(t, path, append(bytes.Clone(data[:n]), old[n:]...))
		var want []string
		if int64(n) >= slotsSize+one-markSize { // a mark that is not whole says nothing
			want = append(want, "six and a half")
		}
		if int64(n) >= slotsSize+j.Size()-markSize {
			want = append(want, "seven")
		}
		openJournal(t, path, want...)
	}
	writeFile(t, path, bytes.Replace(data, []byte("half"), []byte("flah"), 1))
	if _, _, err := OpenJournal(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v; want that it is damaged", err)
	}
}

// A journal that was closed ends with its last entry, and keeps nothing that was
// forgotten.
func TestEXT24_AClosedJournalKeepsNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, j, "one, which is long")
	if err := j.Reset(); err != nil {
		t.Fatal(err)
	}
	put(t, j, "two")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if data := readFile(t, path); bytes.Contains(data, []byte("long")) || int64(len(data)) != slotsSize+j.Size() {
		t.Errorf("it keeps %q", data[slotsSize:])
	}
	openJournal(t, path, "two")
}

// A slot that is not whole does not count: the one before it does, whose entries
// are all there.
func TestEXT24_ATornSlotOfAJournalDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	put(t, j, "one")
	for _, e := range []string{"two", "three"} {
		if err := j.Reset(); err != nil {
			t.Fatal(err)
		}
		put(t, j, e)
	}
	before := readFile(t, path)
	if err := j.Reset(); err != nil {
		t.Fatal(err)
	}
	after := readFile(t, path)
	torn := 0
	for n := range slotsSize {
		if before[n] == after[n] {
			continue
		}
		data := append(bytes.Clone(after[:n]), before[n:]...)
		writeFile(t, path, data)
		openJournal(t, path, "three")
		torn++
	}
	if torn == 0 {
		t.Error("the slots are as they were")
	}
}

// A file from before there were slots is read, and becomes one with slots.
func TestEXT27_AJournalWithoutSlotsIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	writeFile(t, path, appendFrame(appendFrame(nil, 1, true, []byte("one")), 2, true, []byte("two")))
	j := openJournal(t, path, "one", "two")
	put(t, j, "three")
	j = openJournal(t, path, "one", "two", "three")
	if err := j.Reset(); err != nil {
		t.Fatal(err)
	}
	put(t, j, "four")
	openJournal(t, path, "four")
}

// TestATK88_DamageInTheLastBatchOfAJournal flips every bit of the last batch: it was
// acknowledged, so nothing is cut off, and a salvage knows how many entries are gone.
func TestATK88_DamageInTheLastBatchOfAJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	for range 3 { // forgotten records are behind
		put(t, j, "an entry that is forgotten", "another one")
	}
	if err := j.Reset(); err != nil {
		t.Fatal(err)
	}
	put(t, j, "one")
	first := slotsSize + int(j.Size())
	entries := []string{"two", "three", "four"}
	if err := j.Append(3, 4, func(to []byte, i int) []byte { return append(to, entries[i]...) }); err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, path)
	for at := first; at < slotsSize+int(j.Size())-markSize; at++ {
		for bit := range 8 {
			changed := bytes.Clone(whole)
			changed[at] ^= 1 << bit
			writeFile(t, path, changed)
			if _, _, err := OpenJournal(path); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, bit %d: %v; want that it is damaged", at, bit, err)
			}
			read, err := ReadJournal(path)
			if err != nil || len(read.Holes) != 1 || len(read.Entries) != 3 || read.Until != 4 || read.Holes[0].From != read.Holes[0].To-1 && read.Holes[0].From != read.Holes[0].To {
				t.Fatalf("byte %d, bit %d: %+v %v", at, bit, read, err)
			}
			if !read.Entries[0].Sure || read.Entries[1].Sure {
				t.Fatalf("byte %d, bit %d: want the batch before alone as it was: %+v", at, bit, read.Entries)
			}
		}
	}
	// The mark itself is no entry, so that nothing is lost with it.
	for at := slotsSize + int(j.Size()) - markSize; at < slotsSize+int(j.Size()); at++ {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		writeFile(t, path, changed)
		openJournal(t, path, "one", "two", "three", "four")
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
