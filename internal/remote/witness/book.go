package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/filelock"
)

// ErrUnknownLog says that a witness is not configured for a log.
var ErrUnknownLog = errors.New("witness: this log is not known here")

// errDisk says that a checkpoint could not be stored before cosigning.
var errDisk = errors.New("witness: not kept")

// bookName is the file that a book is in: a JSON object with, by origin, the
// checkpoint that was cosigned last, as a signed note with our own cosignature.
const bookName = "cosigned.json"

// Book is what a witness has cosigned. It is for many goroutines; the folder is
// one process's.
type Book struct {
	dir      string
	lock     *os.File
	cosigner evidence.Cosigner
	logs     map[string][]note.Verifier // keys by origin
	now      func() time.Time

	mu   sync.Mutex
	kept map[string]kept
}

// kept is a checkpoint that was cosigned.
type kept struct {
	checkpoint evidence.Checkpoint
	note       string
}

// BookConfig says what a book is for.
type BookConfig struct {
	Directory string                     // required; exists, and is the owner's alone
	Cosigner  evidence.Cosigner          // required
	Logs      map[string][]note.Verifier // keys by origin
	Now       func() time.Time           // required
}

// Begin makes the empty book of a witness that has no key yet. It is called before
// the key is made, so that a key without a book is one whose book was lost.
func Begin(directory string) error {
	b := &Book{dir: directory}
	if _, err := os.Stat(filepath.Join(directory, bookName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return b.write()
}

// Begun reports whether a witness has cosigned anything in a directory.
func Begun(directory string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(directory, bookName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("witness: %w", err)
	}
	var notes map[string]string
	err = json.Unmarshal(data, &notes)
	return len(notes) > 0 || err != nil, nil // a damaged book is of a witness that had a key
}

// Open reads the book. Every checkpoint in it must have a cosignature of our own,
// or the file was changed.
func Open(c BookConfig) (*Book, error) {
	lock, err := filelock.Take(filepath.Join(c.Directory, "witness.lock"))
	if err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	b := &Book{dir: c.Directory, lock: lock, cosigner: c.Cosigner, logs: c.Logs, now: c.Now, kept: map[string]kept{}}
	if err := b.read(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return b, nil
}

// Close gives the folder up.
func (b *Book) Close() error { return b.lock.Close() }

func (b *Book) read() error {
	name := filepath.Join(b.dir, bookName)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("witness: %s is gone, and with it what this key has cosigned: it could cosign what contradicts that. "+
			"Begin a witness with another key in an empty directory, and tell the logs and their verifiers its key", name)
	}
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	var notes map[string]string
	if err := json.Unmarshal(data, &notes); err != nil {
		return fmt.Errorf("witness: %s is damaged: %w", name, err)
	}
	for origin, signed := range notes {
		checkpoint, err := b.own(origin, signed)
		if err != nil {
			return fmt.Errorf("witness: %s is damaged: the checkpoint of %s: %w", name, origin, err)
		}
		b.kept[origin] = kept{checkpoint, signed}
	}
	return nil
}

// own reads a checkpoint that we have cosigned.
func (b *Book) own(origin, signed string) (evidence.Checkpoint, error) {
	quorum := evidence.Quorum{Witnesses: []evidence.WitnessKey{b.cosigner.Key()}, Number: 1}
	if _, err := quorum.Check([]byte(signed)); err != nil {
		return evidence.Checkpoint{}, err
	}
	checkpoint, err := evidence.ReadCheckpoint([]byte(signed))
	if err == nil && checkpoint.Origin != origin {
		err = fmt.Errorf("it is of %q", checkpoint.Origin)
	}
	return checkpoint, err
}

// Size returns the size of the log as cosigned last, 0 where it never was.
func (b *Book) Size(origin string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[origin].checkpoint.Size
}

// Cosigned returns the signed checkpoint that was cosigned last, "" for none.
func (b *Book) Cosigned(origin string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[origin].note
}

// Add checks a submission against the last cosigned checkpoint, keeps it on the disk,
// and only then returns the cosignature. Errors are [ErrUnknownLog], those of
// [Submission.Check], or of the disk.
func (b *Book) Add(s Submission) (line string, err error) {
	origin, err := s.Origin()
	if err != nil {
		return "", err
	}
	keys, known := b.logs[origin]
	if !known {
		return "", fmt.Errorf("%w: %q", ErrUnknownLog, origin)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.kept[origin]
	checkpoint, err := s.Check(before.checkpoint, keys...)
	if err != nil {
		return "", err
	}
	signed, err := evidence.OnlySignedBy(s.Checkpoint, keys...)
	if err != nil {
		return "", err
	}
	line = b.cosigner.Cosign(checkpoint, b.now())
	if had && before.checkpoint == checkpoint {
		return line, nil // it is on the disk already
	}
	b.kept[origin] = kept{checkpoint, string(signed) + line}
	if err := b.write(); err != nil {
		b.kept[origin] = before
		if !had {
			delete(b.kept, origin)
		}
		return "", fmt.Errorf("%w: %w", errDisk, err)
	}
	return line, nil
}

// write puts the book on the disk: whole, or as it was. It is called with the lock.
func (b *Book) write() error {
	notes := map[string]string{}
	for origin, k := range b.kept {
		notes[origin] = k.note
	}
	data, err := json.MarshalIndent(notes, "", "  ")
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	f, err := os.CreateTemp(b.dir, "new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(b.dir, bookName))
	}
	if err != nil {
		return fmt.Errorf("witness: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return syncDirectory(b.dir)
}

// syncDirectory makes a rename outlast a loss of power.
func syncDirectory(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	return nil
}
