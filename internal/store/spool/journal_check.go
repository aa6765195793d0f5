package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// JournalEntry is a whole entry of a journal that may be damaged.
type JournalEntry struct {
	Payload []byte
	// Sure says that nothing before the entry, nor in its batch, is damaged.
	Sure bool
}

// ReadJournal reads the whole entries of a journal without changing it, and what is
// between them. Bytes at the end that hold none are no damage: they were never
// acknowledged, or are left of entries that were forgotten.
func ReadJournal(path string) ([]JournalEntry, []Hole, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("spool: %w", err)
	}
	j := &Journal{first: 1, base: slotsSize}
	if bytes.HasPrefix(data, magic) {
		j.base = 0
	} else {
		j.readSlots(data)
	}
	entries, frames, holes := j.scan(filepath.Base(path), data)
	// The last batch counts only where it is whole.
	for n := len(frames); n > 0 && !frames[n-1].last; n-- {
		entries, frames = entries[:n-1], frames[:n-1]
	}
	if len(holes) > 0 {
		bad := holes[0].From // the batch that the first damage is in
		for i := range entries {
			entries[i].Sure = int64(frames[i].batch) < bad
		}
	}
	return entries, holes, nil
}

// scan takes every frame that counts, in order. From and To of a hole are batches.
func (j *Journal) scan(name string, data []byte) (entries []JournalEntry, frames []frame, holes []Hole) {
	previous := frame{batch: j.first - 1, last: true}
	counts := func(d []byte) bool {
		f, ok := readFrame(d)
		return ok && f.batch >= next(previous)
	}
	for at := int(min(j.base, int64(len(data)))); at < len(data); {
		f, ok := readFrame(data[at:])
		if ok && f.batch == next(previous) {
			entries, frames, previous = append(entries, JournalEntry{Payload: f.payload, Sure: true}), append(frames, f), f
			at += f.size
			continue
		}
		behind := at + nextWhole(data[at:], counts)
		if behind >= len(data) {
			break
		}
		f, _ = readFrame(data[behind:])
		holes = append(holes, Hole{File: name, At: int64(at), Bytes: int64(behind - at), From: int64(next(previous)), To: int64(f.batch), Why: "no whole entry"})
		entries, frames, previous = append(entries, JournalEntry{Payload: f.payload}), append(frames, f), f
		at = behind + f.size
	}
	return entries, frames, holes
}
