package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Found describes a spool, whole or damaged.
type Found struct {
	Records int64  `json:"records"` // whole records
	First   int64  `json:"first"`   // number of the first of them
	Next    int64  `json:"next"`    // the number after the last of them
	Shipped int64  `json:"shipped"` // the server has the records before this one, as noted here
	Damage  []Hole `json:"damage,omitempty"`

	chain   evidence.ChainID
	end     int64 // the record that came next when the spool was closed; -1 where that is not known
	marked  int64 // the record that came after those that were acknowledged, as far as a mark says; -1 where none does
	records map[int64]evidence.Sealed
}

// Hole is a place of a spool that holds no whole record.
type Hole struct {
	File  string `json:"file"`
	At    int64  `json:"at"`    // byte of the file
	Bytes int64  `json:"bytes"` // 0 where the file is missing or was cut off
	From  int64  `json:"from"`  // the record that should be there
	To    int64  `json:"to"`    // the first record behind it; -1 where none is
	Why   string `json:"why"`
}

func (h Hole) String() string {
	records := fmt.Sprintf("records %d to %d are lost", h.From, h.To-1)
	switch {
	case h.To < 0:
		records = fmt.Sprintf("records from %d on may be lost", h.From)
	case h.To <= h.From:
		records = "no record is lost by it"
	}
	return fmt.Sprintf("%s, byte %d, %d bytes: %s; %s", h.File, h.At, h.Bytes, h.Why, records)
}

// Whole reports whether nothing is damaged.
func (f Found) Whole() bool { return len(f.Damage) == 0 }

// Check reads a spool without changing it. Records count as whole where their hashes
// and the signature by key hold.
func Check(dir string, key evidence.Key) (Found, error) {
	f := Found{First: -1, Shipped: -1, end: -1, marked: -1, records: map[int64]evidence.Sealed{}}
	if err := f.readNotes(dir); err != nil {
		return f, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f, fmt.Errorf("spool: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	sorting.Sort(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for n, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return f, fmt.Errorf("spool: %w", err)
		}
		f.readFile(name, data, key, n == len(names)-1)
	}
	f.finish()
	return f, nil
}

// readNotes reads the small files beside the segments.
func (f *Found) readNotes(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "chain"))
	if err == nil {
		err = f.chain.UnmarshalText(text)
	}
	if err != nil {
		f.chain = evidence.ChainID{}
		f.Damage = append(f.Damage, Hole{File: "chain", Why: "it does not name the chain", Bytes: int64(len(text))})
	}
	for name, to := range map[string]*int64{"shipped": &f.Shipped, endName: &f.end} {
		n, ok, err := readNumber(filepath.Join(dir, name))
		switch {
		case errors.Is(err, ErrDamaged):
			f.Damage = append(f.Damage, Hole{File: name, Why: "it holds no number"})
		case err != nil:
			return fmt.Errorf("spool: %w", err)
		case ok:
			*to = n
		}
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("spool: there is no %s", dir)
	}
	return nil
}

// readFile takes the whole records of a segment, and notes the damage between them.
func (f *Found) readFile(name string, data []byte, key evidence.Key, last bool) {
	first, err := strconv.ParseInt(strings.TrimSuffix(name, suffix), 10, 64)
	if err == nil && len(f.records) > 0 && first > f.Next {
		f.Damage = append(f.Damage, Hole{File: name, From: f.Next, To: first, Why: "the file before it is missing or was cut off"})
	}
	if err == nil && len(f.records) == 0 && f.Shipped >= 0 && first > f.Shipped {
		f.Damage = append(f.Damage, Hole{File: name, From: f.Shipped, To: first, Why: "the file before it is missing"})
	}
	if err == nil && len(f.records) == 0 {
		f.Next = first
	}
	complete := 0 // bytes up to the end of the last whole batch
	for at := 0; at < len(data); {
		if sealed, size, batchEnds, ok := f.wholeAt(data[at:], key); ok {
			f.take(sealed)
			at += size
			if batchEnds {
				complete = at
			}
			continue
		}
		behind := at + 1 + nextWhole(data[at+1:], func(d []byte) bool { _, _, _, ok := f.wholeAt(d, key); return ok })
		if last && behind >= len(data) {
			f.tail(name, at, data)
			return
		}
		f.hole(name, at, behind, data, key)
		at = behind
	}
	if last && complete < len(data) {
		f.Damage = append(f.Damage, Hole{File: name, At: int64(complete), Bytes: int64(len(data) - complete), From: f.Next, To: f.Next, Why: "the last batch is not whole: it was never acknowledged"})
	}
}

// hole notes bytes before a whole record, or before the end of a file.
func (f *Found) hole(name string, at, behind int, data []byte, key evidence.Key) {
	h := Hole{File: name, At: int64(at), Bytes: int64(behind - at), From: f.Next, To: -1, Why: "no whole record"}
	if sealed, _, _, ok := f.wholeAt(data[behind:], key); ok {
		h.To = sealed.Record().Details.Sequence
	}
	f.Damage = append(f.Damage, h)
}

// tail notes bytes at the end of the last file. A crash leaves such a rest of a batch
// that was never acknowledged. A mark says that it was; without one, damage can look
// the same.
func (f *Found) tail(name string, at int, data []byte) {
	h := Hole{File: name, At: int64(at), Bytes: int64(len(data) - at), From: f.Next, To: -1, Why: "no whole record up to the end of the file: a batch that was never acknowledged, or damage"}
	if m := lastMark(data[at:], 0); m.batch > 0 {
		f.marked = int64(m.until)
		h.To, h.Why = max(f.marked, f.Next), "no whole record up to the end of the file, of a batch that was acknowledged"
	}
	if f.end == f.Next {
		h.To = f.Next
	}
	f.Damage = append(f.Damage, h)
}

// wholeAt returns the record that data begins with.
func (f *Found) wholeAt(data []byte, key evidence.Key) (sealed evidence.Sealed, size int, batchEnds, ok bool) {
	one, ok := readFrame(data)
	if !ok {
		return sealed, 0, false, false
	}
	sealed, err := evidence.ParseSealed(one.payload)
	if err == nil {
		err = errors.Join(sealed.CheckHash(), sealed.CheckSignature(key))
	}
	if err != nil || f.chain != (evidence.ChainID{}) && sealed.Record().Details.ChainID != f.chain {
		return sealed, 0, false, false
	}
	return sealed, one.size, one.last, true
}

// nextWhole returns how far the next whole record is, and the length of data where
// none is.
func nextWhole(data []byte, whole func([]byte) bool) int {
	for at := 0; ; at++ {
		n := bytes.Index(data[at:], magic)
		if n < 0 {
			return len(data)
		}
		at += n
		if whole(data[at:]) {
			return at
		}
	}
}

func (f *Found) take(s evidence.Sealed) {
	n := s.Record().Details.Sequence
	if _, there := f.records[n]; !there {
		f.records[n] = s
	}
	f.chain = s.Record().Details.ChainID
	f.Next = max(f.Next, n+1)
}

// finish counts, and compares the end with the note.
func (f *Found) finish() {
	f.Records = int64(len(f.records))
	for n := range f.records {
		if f.First < 0 || n < f.First {
			f.First = n
		}
	}
	if f.First < 0 {
		f.First = f.Next
	}
	if f.end > f.Next {
		f.Damage = append(f.Damage, Hole{File: endName, From: f.Next, To: f.end, Why: "the last file was cut off or is missing"})
	}
	if f.Shipped > f.Next {
		f.Damage = append(f.Damage, Hole{File: "shipped", From: f.Next, To: f.Shipped, Why: "records that the server has are not here"})
	}
}
