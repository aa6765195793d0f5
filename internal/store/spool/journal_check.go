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

// JournalRead describes a journal, whole or damaged.
type JournalRead struct {
	Entries []JournalEntry // whole ones
	Holes   []Hole         // the damage between them; From and To are batches
	Until   uint64         // the number of the entry after those that were acknowledged; 0 where no mark says it
}

// ReadJournal reads a journal without changing it. Bytes at the end that hold no entry
// and no mark are no damage: they were never acknowledged, or are left of entries that
// were forgotten.
func ReadJournal(path string) (JournalRead, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return JournalRead{}, fmt.Errorf("spool: %w", err)
	}
	j := &Journal{first: 1, base: slotsSize}
	if bytes.HasPrefix(data, magic) {
		j.base = 0
	} else {
		j.readSlots(data)
	}
	last := lastMark(data[min(j.base, int64(len(data))):], j.first)
	entries, frames, holes := j.scan(filepath.Base(path), data, last.batch)
	// The last batch counts only where it is whole, or was acknowledged.
	for n := len(frames); n > 0 && !frames[n-1].last && frames[n-1].batch > last.batch; n-- {
		entries, frames = entries[:n-1], frames[:n-1]
	}
	if len(holes) > 0 {
		bad := holes[0].From // the batch that the first damage is in
		for i := range entries {
			entries[i].Sure = int64(frames[i].batch) < bad
		}
	}
	return JournalRead{entries, holes, last.until}, nil
}

// scan takes every frame that counts, in order, and the missing ones up to the last batch
// that has a mark.
func (j *Journal) scan(name string, data []byte, marked uint64) (entries []JournalEntry, frames []frame, holes []Hole) {
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
			if marked >= next(previous) {
				size := nextWhole(data[at:], func(d []byte) bool { m, ok := readMark(d); return ok && m.batch == marked })
				holes = append(holes, Hole{File: name, At: int64(at), Bytes: int64(size), From: int64(next(previous)), To: int64(marked) + 1, Why: "no whole entry"})
			}
			break
		}
		f, _ = readFrame(data[behind:])
		holes = append(holes, Hole{File: name, At: int64(at), Bytes: int64(behind - at), From: int64(next(previous)), To: int64(f.batch), Why: "no whole entry"})
		entries, frames, previous = append(entries, JournalEntry{Payload: f.payload}), append(frames, f), f
		at = behind + f.size
	}
	return entries, frames, holes
}
