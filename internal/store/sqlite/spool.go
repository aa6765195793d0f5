package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// Where changes do nothing but append records, the writer puts these into a
// journal beside the file: one write and one fsync for all that wait, no SQL. They
// have their places in the log by then, and their hashes and signatures. The file
// takes them in behind, in that order, many in a transaction: with the next change
// that reads or writes anything else, before anybody reads records, and after
// [takeInAfter] at the latest.

// takeInAfter is how long a record that was acknowledged waits, about, until its
// leaf is in the tree.
const takeInAfter = 100 * time.Millisecond

const (
	spoolSuffix = "-spool"
	// maxTaken is how many records the file takes in at once.
	maxTaken = 512
	// maxWaiting is how many records may wait for the file. Where it cannot take
	// them in, nothing more is acknowledged.
	maxWaiting = 1 << 14
	// resetBytes is the size from which a journal begins anew when nothing in it
	// waits, and fullBytes the one at which it must.
	resetBytes, fullBytes = 4 << 20, 64 << 20
	// maxIDs is the number of ids in one generation of those that are remembered.
	maxIDs = 1 << 13
)

// journalState is what the writer knows of the log ahead of the file. It is the
// writer's alone.
type journalState struct {
	journal *spool.Journal
	next    int64                        // place of the next record in the log
	heads   map[rows.Chain]evidence.Head // of chains that records were appended to
	ids     ids
}

// ids tells whether the id of a record was used without asking the file. Ids begin
// with the time of their making, so that almost every one is higher than all that
// are no longer remembered.
type ids struct {
	floor       string // no id above it was forgotten
	now, before map[string]struct{}
}

// unused is false where an id was used, or may have been: the file knows.
func (k *ids) unused(id string) bool {
	_, now := k.now[id]
	_, before := k.before[id]
	return id > k.floor && !now && !before
}

func (k *ids) use(id string) {
	if len(k.now) >= maxIDs {
		for old := range k.before {
			k.floor = max(k.floor, old)
		}
		k.now, k.before = nil, k.now
	}
	if k.now == nil {
		k.now = make(map[string]struct{}, maxIDs)
	}
	k.now[id] = struct{}{}
}

// openSpool opens the journal and has the file take in its records.
func (s *Store) openSpool(ctx context.Context) error {
	journal, entries, err := spool.OpenJournal(s.config.Path + spoolSuffix)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	s.ahead.journal, s.ahead.heads = journal, map[rows.Chain]evidence.Head{}
	t := s.transaction(ctx, batchOptions{})
	defer t.leave()
	if err = t.enter(); err == nil {
		err = t.restore(entries)
	}
	if err == nil {
		err = t.grow()
	}
	if err := t.end(err); err != nil {
		return fmt.Errorf("sqlite: %s: %w", s.config.Path+spoolSuffix, err)
	}
	s.ahead.next = s.tail.size
	if err := journal.Reset(); err != nil {
		return err
	}
	return s.conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), '') FROM record").Scan(&s.ahead.ids.floor)
}

// restore appends the records of a journal that the file does not have. They
// were acknowledged, so that one that is missing, or is not the next of its chain,
// is damage.
func (t *transaction) restore(entries [][]byte) error {
	for _, e := range entries {
		if len(e) < 8 {
			return errors.New("an entry has no place")
		}
		place := int64(binary.BigEndian.Uint64(e))
		if place < t.tail.size {
			continue // it was taken in before the end
		}
		sealed, err := evidence.ParseSealed(e[8:])
		if err == nil {
			err = sealed.CheckHash()
		}
		if err != nil {
			return fmt.Errorf("record %d of the log: %w", place, err)
		}
		name, d := rows.ChainOf(sealed.Record()), sealed.Record().Details
		head, err := t.head(name)
		if err != nil {
			return err
		}
		if place != t.place() || d.ChainID != head.ChainID || d.Sequence != head.Sequence || sealed.Prev() != head.Hash {
			return fmt.Errorf("record %q, %d of the log, does not follow what the store ends with, record %d: acknowledged records are missing; is the store older than its spool?",
				sealed.Record().ID, place, t.place()-1)
		}
		t.move(name, end{sealed.Head(), place})
		t.pending = append(t.pending, sealed)
	}
	t.signed = len(t.pending)
	return nil
}

// crowded reports whether the file has to take in what waits before anything
// more is acknowledged.
func (s *Store) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) >= s.mayWait || s.ahead.journal.Size() >= fullBytes
}

// spool makes the records of a batch durable, ahead of the file.
func (s *Store) spool(t *transaction) error {
	if len(t.pending) == 0 {
		return nil
	}
	if err := rows.Sign(t.pending[t.signed:], t.config.Signer); err != nil {
		return err
	}
	if err := s.reset(resetBytes); err != nil {
		return err
	}
	err := s.ahead.journal.Append(len(t.pending), uint64(t.first+int64(len(t.pending))), func(to []byte, i int) []byte {
		return t.pending[i].AppendTo(binary.BigEndian.AppendUint64(to, uint64(t.first+int64(i))))
	})
	if err != nil {
		return err
	}
	s.ahead.follow(t)
	s.mu.Lock()
	s.waiting = append(s.waiting, t.pending...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
	return nil
}

// repair makes sure that the journal has nothing in the places of records that the
// file is about to have.
func (s *Store) repair() error {
	if s.ahead.journal == nil {
		return nil
	}
	return s.ahead.journal.Repair()
}

// reset begins a journal of some size anew, where the file has all that is in it.
func (s *Store) reset(size int64) error {
	if s.ahead.journal == nil || s.ahead.journal.Size() < size {
		return nil
	}
	s.mu.Lock()
	waits := len(s.waiting) > 0
	s.mu.Unlock()
	if waits {
		return nil
	}
	return s.ahead.journal.Reset()
}

// follow takes over what a batch did that is on the disk.
func (a *journalState) follow(t *transaction) {
	if len(a.heads) > maxEnds {
		a.heads = map[rows.Chain]evidence.Head{} // the file, or what waits for it, has them
	}
	for name, e := range t.ends {
		a.heads[name] = e.head
	}
	for _, p := range t.pending[t.taken:] {
		a.ids.use(p.Record().ID)
	}
	a.next = t.first + int64(len(t.pending))
}

// takeIn has the file take in what waits for it, until the store is closed.
func (s *Store) takeIn() {
	defer close(s.takenIn)
	for range s.wake {
		wait := time.NewTimer(takeInAfter)
		select {
		case <-wait.C:
		case <-s.closing:
			wait.Stop()
		}
		if err := s.settle(context.Background()); err != nil {
			s.config.Behind(err)
		}
	}
}

// settle returns when the file has every record that was acknowledged before.
func (s *Store) settle(ctx context.Context) error {
	s.mu.Lock()
	n := len(s.waiting)
	s.mu.Unlock()
	for n > 0 {
		took, err := s.takeSome(ctx)
		if err != nil {
			return fmt.Errorf("sqlite: records that are on the disk are not in the store yet: %w", err)
		}
		if took == 0 {
			return nil // another goroutine was first
		}
		n -= took
	}
	return nil
}

// takeSome has the file take in some records, in order, and returns how many.
func (s *Store) takeSome(ctx context.Context) (int, error) {
	s.filing.Lock()
	defer s.filing.Unlock()
	// A look that is begun for one reader serves all, regardless of who gives up.
	t := s.transaction(context.WithoutCancel(ctx), batchOptions{})
	t.polite = true
	err := t.begin(maxTaken)
	if err == nil {
		err = t.grow()
	}
	return t.taken, t.end(err)
}

// giveWay lets calls continue that came meanwhile, unless the writer waits for the file
// and they for it: to take in some hundred records at once takes milliseconds, and
// all others would wait for the processor.
func (t *transaction) giveWay() {
	if t.polite && t.store.wanted.Load() == 0 {
		runtime.Gosched()
	}
}

// settled is a reader that sees every record that was acknowledged before it asks
// for records. It asks for nothing else first: what a transaction has read
// something before stays as it was.
type settled struct {
	rows.Reader
	ctx   context.Context //nolint:containedctx // lives as long as one snapshot
	store *Store
}

// Record implements [issuer.Reader].
func (r settled) Record(id string) (evidence.Sealed, error) {
	if err := r.store.settle(r.ctx); err != nil {
		return evidence.Sealed{}, err
	}
	return r.Reader.Record(id)
}

// Records implements [issuer.Reader].
func (r settled) Records(q issuer.RecordQuery) (issuer.RecordPage, error) {
	if err := r.store.settle(r.ctx); err != nil {
		return issuer.RecordPage{}, err
	}
	return r.Reader.Records(q)
}
