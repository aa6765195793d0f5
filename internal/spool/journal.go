package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// roomStep is how many bytes a journal's file is made longer at once, ahead of
// what is written: a write into room that is there already costs the disk less
// than one that makes the file longer.
const roomStep = 1 << 20

// A Journal is one file of entries that somebody else is about to keep. An entry
// whose Append returned without an error is on the disk until Reset. It is for
// one goroutine.
type Journal struct {
	file  *os.File
	batch uint64
	size  int64  // of the entries
	room  int64  // of the file
	data  []byte // of the last batch, of whose memory the next is made
	fault error  // of the last write; what is behind size is then not known
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
	previous := frame{last: true} // that of batch 0: the first batch of a journal is 1
	frames, good, err := readSegment(data, previous, true)
	if err != nil {
		return nil, err
	}
	entries := make([][]byte, len(frames))
	for i, f := range frames {
		entries[i], previous = f.payload, f
	}
	j.batch, j.size, j.fault = next(previous), int64(good), errNotLooked
	return entries, j.Mend()
}

var errNotLooked = errors.New("what is behind the entries is not known")

// Mend makes the file end with the last entry that was acknowledged, where that is
// not known. Whoever means to keep other entries in the place of those that failed
// calls it before.
func (j *Journal) Mend() error {
	if j.fault == nil {
		return nil
	}
	if err := errors.Join(j.file.Truncate(j.size), j.file.Sync()); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	j.room, j.fault = j.size, nil
	return nil
}

// Append makes n entries durable, all of them or none; entry appends one of them to
// what it is given. After an error it can be tried again.
func (j *Journal) Append(n int, entry func(to []byte, i int) []byte) error {
	data := j.data[:0]
	for i := range n {
		at := len(data)
		data = entry(append(data, make([]byte, frameHeader)...), i)
		if size := len(data) - at - frameHeader; size > maxRecord {
			return fmt.Errorf("spool: an entry of %d bytes; want at most %d", size, maxRecord)
		}
		putHeader(data[at:], j.batch, i == n-1)
	}
	if err := j.Mend(); err != nil {
		return err
	}
	if err := j.write(data); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	j.batch, j.size = j.batch+1, j.size+int64(len(data))
	if j.data = data; cap(data) > roomStep {
		j.data = nil // one large batch is not kept for ever
	}
	return nil
}

// write puts data behind the entries. What fails leaves a fault, since nobody
// knows what is on the disk then.
func (j *Journal) write(data []byte) error {
	if end := j.size + int64(len(data)); end > j.room {
		if j.fault = j.extend(end + roomStep); j.fault != nil {
			return j.fault
		}
	}
	_, err := j.file.WriteAt(data, j.size)
	if err == nil {
		err = syncData(j.file)
	}
	j.fault = err
	return err
}

// extend makes room of zeros, which are no entry.
func (j *Journal) extend(to int64) error {
	zeros := make([]byte, 64<<10)
	for at := j.room; at < to; at += int64(len(zeros)) {
		if _, err := j.file.WriteAt(zeros[:min(int64(len(zeros)), to-at)], at); err != nil {
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

// Reset forgets all entries: somebody else has made them durable. Nothing is
// written again before the file is known to be empty.
func (j *Journal) Reset() error {
	j.batch, j.size, j.fault = 1, 0, errNotLooked
	return j.Mend()
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
