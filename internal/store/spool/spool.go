// Package spool keeps the records of a remote gateway in
// append-only files, until the server has them. A [Journal] is one such file for
// someone who seals by himself.
//
// The laws: a record that was answered is on the disk (fsync, shared by what
// waits); the files hold one chain of one agent and one recorder, sealed and
// signed here; records that were never acknowledged may be cut off after a crash,
// acknowledged ones may not; a spool that cannot write any more writes nothing more.
//
// # Form
//
// Files are named by their first sequence. A frame has a magic number, the batch
// number, a flag on the last of a batch, the length, a CRC-32C and the sealed
// record. A batch is what one fsync covers, and begins only after the batch before
// it is on the disk. So an incomplete batch at the end was never acknowledged and is
// cut off. Damage before a later batch was acknowledged, and the spool refuses to
// open. Segments are plain files and not bbolt, because a torn write of a list is
// easier to explain to an auditor. The spool is not part of package evidence, which
// opens no files.
//
// # Full disk
//
// A failed write differs from a failed sync. After a failed write the file is cut
// back to the synced length, and the next record may be written. After a failed sync
// the spool stops: the kernel may have dropped pages that it calls clean. Some file
// systems (NFS, some quotas) report a full disk only at the sync, so a gateway there
// must be restarted.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/filelock"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Config is what a spool needs. Every field but the bounds is required.
type Config struct {
	Dir      string          // made with mode 0700 where it is missing
	Agent    string          // whose records these are
	Recorder string          // under which name they are written
	Signer   evidence.Signer // signs them
	Random   io.Reader       // source of the chain's id
	Segment  int64           // bytes after which a segment ends; 0 for 16 MiB
	Limit    int64           // bytes that wait for the server at the most; 0 for 1 GiB
	// Patience is how long a record waits for the disk; 0 for as long as it takes.
	Patience time.Duration
	// WentBack is called when the server lacks records that it had: it has records
	// before has, and had those before had. It can be nil.
	WentBack func(had, has int64)
}

const (
	defaultSegment = 16 << 20
	defaultLimit   = 1 << 30
	maxBatch       = 256
	suffix         = ".seg"
)

// segment is one file.
type segment struct {
	first int64 // sequence of its first record
	count int64
	size  int64
	path  string
}

// Spool is an open spool. Its methods can be called by many goroutines.
type Spool struct {
	config Config
	lock   *os.File

	requests chan *request
	closing  chan struct{}
	done     chan struct{}
	once     sync.Once

	// The writer's alone once Open is done.
	file  *os.File
	batch uint64
	fault error

	mu       sync.Mutex // guards the fields below
	head     evidence.Head
	segments []segment
	appended chan struct{}
	bodies   map[int64]int64 // sizes of bodies that the server does not have, by sequence
	progress
}

// progress is how far the shipping of records is.
type progress struct {
	shipped int64 // sequence of the first record that the server does not have
	halved  int   // how often the next shipment is halved
	came    int   // shipments of that size that came, one after the other
}

// request is one record on its way to the disk.
type request struct {
	ctx    context.Context //nolint:containedctx // lives as long as one append
	record evidence.Record
	probe  bool        // it is no record
	gone   atomic.Bool // no caller waits for it any more
	result chan result
}

type result struct {
	sealed evidence.Sealed
	err    error
}

// Open opens the spool of a directory and recovers it. It refuses one that
// another process has open, or whose acknowledged records cannot be read.
func Open(c Config) (*Spool, error) {
	if c.Dir == "" || c.Agent == "" || c.Recorder == "" || c.Signer == nil || c.Random == nil {
		return nil, errors.New("spool: Dir, Agent, Recorder, Signer and Random are required")
	}
	if c.Segment == 0 {
		c.Segment = defaultSegment
	}
	if c.Limit == 0 {
		c.Limit = defaultLimit
	}
	if err := finishSalvage(c.Dir); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	lock, err := filelock.Take(filepath.Join(c.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Spool{
		config: c, lock: lock, requests: make(chan *request, maxBatch), closing: make(chan struct{}), done: make(chan struct{}),
		appended: make(chan struct{}),
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("spool: %s: %w", c.Dir, err), s.release())
	}
	go s.write()
	return s, nil
}

// Close ends the spool after the records that it has taken.
func (s *Spool) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		<-s.done
		err = errors.Join(s.noteEnd(), s.release())
	})
	return err
}

func (s *Spool) release() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	return errors.Join(err, s.lock.Close())
}

// recover reads the files.
func (s *Spool) recover() error {
	if err := s.chain(); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return fmt.Errorf("%s is no segment; want the number of its first record", e.Name())
		}
		s.segments = append(s.segments, segment{first: first, path: filepath.Join(s.config.Dir, e.Name())})
	}
	sorting.Sort(s.segments, func(a, b segment) int { return int(a.first - b.first) })
	previous := frame{last: true}
	for n := range s.segments {
		if previous, err = s.recoverSegment(n, previous); err != nil {
			return fmt.Errorf("%s: %w", s.segments[n].path, err)
		}
	}
	s.batch = next(previous)
	if err := s.readShipped(); err != nil {
		return err
	}
	if err := s.checkEnd(); err != nil {
		return err
	}
	return s.recoverBodies()
}

// endName is the file that says which record comes next, of a spool that was closed:
// records that a file lost at its end are missed then.
const endName = "end"

func (s *Spool) noteEnd() error {
	if s.fault != nil {
		return nil // the state of the disk is unknown
	}
	return replace(filepath.Join(s.config.Dir, endName), []byte(strconv.FormatInt(s.head.Sequence, 10)))
}

// checkEnd compares the end of the spool with the note that was written at the close, and
// removes the note before anything is written.
func (s *Spool) checkEnd() error {
	n, noted, err := readNumber(filepath.Join(s.config.Dir, endName))
	switch {
	case err != nil:
		return err
	case !noted:
		return nil
	case n != s.head.Sequence:
		return fmt.Errorf("%w: it was closed before record %d, and record %d comes next", ErrDamaged, n, s.head.Sequence)
	}
	if err := os.Remove(filepath.Join(s.config.Dir, endName)); err != nil {
		return err
	}
	return syncDir(s.config.Dir)
}

// readNumber reads the number of a record from a small file, and whether there is one.
func readNumber(path string) (n int64, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if n, err = strconv.ParseInt(string(text), 10, 64); err != nil || n < 0 {
		return 0, false, fmt.Errorf("%w: %s says %q; want the number of a record", ErrDamaged, filepath.Base(path), text)
	}
	return n, true, nil
}

// chain reads the id of the chain, or makes it.
func (s *Spool) chain() error {
	path := filepath.Join(s.config.Dir, "chain")
	text, err := os.ReadFile(path)
	var id evidence.ChainID
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := io.ReadFull(s.config.Random, id[:]); err != nil {
			return err
		}
		s.head = evidence.Genesis(id)
		return replace(path, []byte(id.String()))
	}
	if err == nil {
		err = id.UnmarshalText(text)
	}
	s.head = evidence.Genesis(id)
	return err
}

// recoverSegment reads one segment and follows the chain through it.
func (s *Spool) recoverSegment(n int, previous frame) (frame, error) {
	g := &s.segments[n]
	data, err := os.ReadFile(g.path)
	if err != nil {
		return previous, err
	}
	if n == 0 {
		// Earlier records are at the server, so any begin is right.
		if f, ok := readFrame(data); ok {
			previous = frame{batch: f.batch - 1, last: true}
		}
	}
	isLast := n == len(s.segments)-1
	frames, good, err := readSegment(data, previous, isLast)
	if err != nil {
		return previous, err
	}
	for i, f := range frames {
		if err := s.follow(f.payload, g.first+int64(i), n == 0 && i == 0); err != nil {
			return previous, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		previous = f
	}
	if g.first != s.head.Sequence-int64(len(frames)) {
		return previous, fmt.Errorf("%w: its name says that it begins with record %d", ErrDamaged, g.first)
	}
	g.count, g.size = int64(len(frames)), int64(good)
	if good < len(data) {
		return previous, os.Truncate(g.path, int64(good))
	}
	return previous, nil
}

// follow checks that a record is the next of the chain.
func (s *Spool) follow(payload []byte, sequence int64, begins bool) error {
	sealed, err := evidence.ParseSealed(payload)
	if err != nil {
		return err
	}
	if err := sealed.CheckHash(); err != nil {
		return err
	}
	d := sealed.Record().Details
	if by := sealed.Record(); by.AgentID != s.config.Agent || d.Recorder != s.config.Recorder {
		return fmt.Errorf("record %q is of %s by %s, and this is the spool of %s by %s", by.ID, by.AgentID, d.Recorder, s.config.Agent, s.config.Recorder)
	}
	if begins {
		s.head.Sequence, s.head.Hash = sequence, sealed.Prev()
	}
	if d.ChainID != s.head.ChainID || d.Sequence != s.head.Sequence || sealed.Prev() != s.head.Hash {
		return fmt.Errorf("record %q is not the next of the chain", sealed.Record().ID)
	}
	s.head = sealed.Head()
	return nil
}

// replace writes a small file as a whole.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
