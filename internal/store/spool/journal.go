package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// roomStep is how many bytes a journal's file is made longer at once, ahead of
// the data: a write into existing room costs the disk less
// than one that makes the file longer.
const roomStep = 1 << 20

// A journal's file begins with two slots of a sector each, of which the one that is
// whole and has the higher number holds: magic, the number of the first batch that
// counts (8 bytes), CRC-32C of the number (4). Entries are behind them. Reset writes
// the other slot, and the bytes behind are overwritten in place, since to cut a file
// and make it longer again costs the disk more than to write: the rest there of
// batches before the first has lower numbers, so that it is not taken for entries.
const (
	slotSize     = 512
	slotsSize    = 2 * slotSize
	slotContents = 4 + 8 + 4
)

var slotMagic = []byte("PBJ1")

// A Journal is one file of entries that someone else is about to keep. An entry
// whose Append returned without an error is on the disk until Reset, and may be
// there after it. It is for one goroutine.
type Journal struct {
	file  *os.File
	first uint64 // the first batch since Reset
	slot  int64  // the slot that says so
	batch uint64
	base  int64  // where entries begin in the file
	size  int64  // of the entries
	room  int64  // of the file, without the bytes before the entries
	data  []byte // of the last batch, whose memory the next one reuses
	fault error  // of the last write; the bytes behind size are then unknown
}

// OpenJournal opens the journal of a file, made with mode 0600 where it is missing,
// and returns the entries in it. A batch at the end that is not whole was never
// acknowledged and is cut off. It refuses a file in which acknowledged entries
// cannot be read.
func OpenJournal(path string) (*Journal, [][]byte, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("spool: %w", err)
	}
	j := &Journal{file: file}
	entries, err := j.recover()
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("spool: %s: %w", path, err), file.Close())
	}
	return j, entries, nil
}

func (j *Journal) recover() ([][]byte, error) {
	data, err := io.ReadAll(j.file)
	if err != nil {
		return nil, err
	}
	j.first, j.slot, j.base = 1, 1, slotsSize
	if bytes.HasPrefix(data, magic) {
		j.base = 0 // as it was written before there were slots
	} else {
		j.readSlots(data)
	}
	previous := frame{batch: j.first - 1, last: true}
	frames, good, err := readSegment(data[min(j.base, int64(len(data))):], previous, true)
	if err != nil {
		return nil, err
	}
	entries := make([][]byte, len(frames))
	for i, f := range frames {
		entries[i], previous = f.payload, f
	}
	j.batch, j.size, j.fault = next(previous), int64(good), errNotLooked
	return entries, j.Repair()
}

// readSlots finds the first batch. Where neither slot is whole nothing was reset.
func (j *Journal) readSlots(data []byte) {
	for slot := range int64(2) {
		at := slot * slotSize
		if int64(len(data)) < at+slotContents || !bytes.HasPrefix(data[at:], slotMagic) {
			continue
		}
		first := binary.BigEndian.Uint64(data[at+4:])
		if binary.BigEndian.Uint32(data[at+12:]) == crc32.Checksum(data[at+4:at+12], castagnoli) && first > j.first {
			j.first, j.slot = first, slot
		}
	}
}

func (j *Journal) writeSlot() error {
	data := binary.BigEndian.AppendUint64(bytes.Clone(slotMagic), j.first)
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(data[4:], castagnoli))
	_, err := j.file.WriteAt(data, j.slot*slotSize)
	return err
}

var errNotLooked = errors.New("what is behind the entries is not known")

// Repair makes the file end with the last entry that was acknowledged, where that is
// not known. A caller that means to keep other entries instead of those that failed
// calls it before.
func (j *Journal) Repair() error {
	if j.fault == nil {
		return nil
	}
	err := j.file.Truncate(j.base + j.size)
	if err == nil && j.base > 0 {
		err = j.writeSlot()
	}
	if err := errors.Join(err, j.file.Sync()); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	j.room, j.fault = j.size, nil
	return nil
}

// Append makes n entries durable, all of them or none; entry appends one of them to
// what it is given. until is the number of the entry that comes next, by which a
// salvage knows how many are gone. After an error it can be tried again.
func (j *Journal) Append(n int, until uint64, entry func(to []byte, i int) []byte) error {
	data := j.data[:0]
	for i := range n {
		at := len(data)
		data = entry(append(data, make([]byte, frameHeader)...), i)
		if size := len(data) - at - frameHeader; size > maxRecord {
			return fmt.Errorf("spool: an entry of %d bytes; want at most %d", size, maxRecord)
		}
		putHeader(data[at:], j.batch, i == n-1)
	}
	if err := j.Repair(); err != nil {
		return err
	}
	if err := j.write(data); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	j.size += int64(len(data))
	j.mark(mark{j.batch, until})
	j.batch++
	if j.data = data; cap(data) > roomStep {
		j.data = nil // one large batch is not kept for ever
	}
	return nil
}

// write puts data behind the entries. A failed write leaves a fault, since the state
// of the disk is then unknown.
func (j *Journal) write(data []byte) error {
	if end := j.size + int64(len(data)) + markSize; end > j.room {
		if j.fault = j.extend(end + roomStep); j.fault != nil {
			return j.fault
		}
	}
	_, err := j.file.WriteAt(data, j.base+j.size)
	if err == nil {
		err = syncData(j.file)
	}
	j.fault = err
	return err
}

// mark says that the last batch is on the disk. It is whether or not that can be
// said, and the rest of a mark is cut off with the next batch.
func (j *Journal) mark(m mark) {
	if _, j.fault = j.file.WriteAt(appendMark(nil, m), j.base+j.size); j.fault == nil {
		j.size += markSize
	}
}

// extend makes room of zeros, which are no entry.
func (j *Journal) extend(to int64) error {
	zeros := make([]byte, 64<<10)
	for at := j.room; at < to; at += int64(len(zeros)) {
		if _, err := j.file.WriteAt(zeros[:min(int64(len(zeros)), to-at)], j.base+at); err != nil {
			return err
		}
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.room = to
	return nil
}

// Size is how many bytes the entries take.
func (j *Journal) Size() int64 { return j.size }

// Reset forgets all entries: someone else has made them durable. After an error
// they may be there or not.
func (j *Journal) Reset() error {
	if j.base == 0 {
		if err := j.file.Truncate(0); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		j.base, j.room = slotsSize, 0
	}
	j.first, j.slot, j.size = j.batch, 1-j.slot, 0
	if err := j.Repair(); err != nil {
		return err
	}
	// Nothing is written over before the disk knows that it may be.
	if j.fault = errors.Join(j.writeSlot(), syncData(j.file)); j.fault != nil {
		return fmt.Errorf("spool: %w", j.fault)
	}
	return nil
}

// Close closes the file, and cuts off forgotten entries. Entries that are stored elsewhere by
// then are not found here before the next write.
func (j *Journal) Close() error {
	var err error
	if j.fault == nil { // an unknown state stays for the next open
		err = j.file.Truncate(j.base + j.size)
	}
	return errors.Join(err, j.file.Close())
}
