package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuer"
)

// maxBatch is the number of changes that share one commit at the most.
const maxBatch = 256

// change is one call of Update on its way through the writer.
type change struct {
	ctx    context.Context
	run    func(issuer.Tx) error
	answer func(error)
}

var errClosed = fmt.Errorf("sqlite: the store is closed: %w", evidence.ErrNotWritten)

// Update implements [issuer.Store].
func (s *Store) Update(ctx context.Context, run func(issuer.Tx) error) error {
	result := make(chan error, 1)
	if err := s.hand(&change{ctx: ctx, run: run, answer: func(err error) { result <- err }}); err != nil {
		return err
	}
	// From here on the change may commit, so its true result is awaited even
	// when the caller has gone: nobody is told "no" for what happened.
	return <-result
}

// hand gives a change to the writer, which answers every one that it is given.
func (s *Store) hand(c *change) error {
	s.handing.RLock()
	defer s.handing.RUnlock()
	if s.closed {
		return errClosed
	}
	select {
	case s.changes <- c:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// copyEvery is the number of commits after which what they wrote is copied from
// the log into the file: some hundred pages, so that it takes a few milliseconds.
const copyEvery = 256

func (s *Store) write() {
	defer close(s.done)
	commits := 0
	for first := range s.changes {
		s.commit(s.gather(first))
		if commits++; commits%copyEvery == 0 {
			select {
			case s.copy <- struct{}{}:
			default: // it is being copied
			}
		}
	}
}

// copyLog copies the write-ahead log into the file while the writer goes on,
// which it would otherwise do itself, all at once, with everybody waiting. Where
// this fails the writer still does so when the log has its full length, which is
// also where the log begins anew.
func (s *Store) copyLog() {
	defer close(s.copied)
	for range s.copy {
		_, _ = s.copies.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
	}
}

// maxYields is how often in a row the writer lets others run without a change
// coming of it. After a commit as many changes as it answered are on their way.
const maxYields = 3

// gather takes the changes that wait, and lets those who are about to bring one
// do so: a commit costs the disk the same for one change as for many.
func (s *Store) gather(first *change) []*change {
	batch := []*change{first}
	for yielded := 0; len(batch) < maxBatch; {
		select {
		case c, more := <-s.changes:
			if !more {
				return batch
			}
			batch, yielded = append(batch, c), 0
		default:
			if yielded == maxYields {
				return batch
			}
			runtime.Gosched()
			yielded++
		}
	}
	return batch
}

// commit runs a batch in one transaction and answers every change of it, but
// only after the transaction is on the disk.
func (s *Store) commit(batch []*change) {
	// The batch belongs to many callers: none of them may cancel it.
	ctx := context.Background()
	results, err := s.try(ctx, batch, false)
	if usedTwice(err) {
		// The file refuses an id only when all records are written, and does
		// not say whose it is. So the changes run again, and each id is looked
		// up before: the change that repeats one fails alone.
		results, err = s.try(ctx, batch, true)
	}
	for i, c := range batch {
		if results[i] == nil && err != nil {
			results[i] = fmt.Errorf("sqlite: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, err)
		}
		c.answer(results[i])
	}
}

// usedTwice tells whether the id of a record is in the file already.
func usedTwice(err error) bool {
	var refused *sqlite.Error
	return errors.As(err, &refused) && refused.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE
}

// try runs a batch in one transaction and returns what became of each change,
// and of all of them.
func (s *Store) try(ctx context.Context, batch []*change, careful bool) ([]error, error) {
	results := make([]error, len(batch))
	if _, err := s.statements.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return results, err
	}
	t := &transaction{
		config: s.config, raw: s.statements, tail: &s.tail, careful: careful,
		ends: make(map[chainName]end, len(batch)), pending: make([]evidence.Sealed, 0, len(batch)),
	}
	t.reader = reader{ctx, (*lazy)(t)}
	for i, c := range batch {
		results[i] = t.change(c)
	}
	err := t.grow()
	if t.broken != nil {
		err = t.broken
	}
	if err == nil {
		begin := s.config.Now()
		if _, err = s.statements.ExecContext(ctx, "COMMIT"); err == nil {
			s.config.Committed(len(batch), s.config.Now().Sub(begin))
		}
	}
	if err != nil {
		s.tail = tail{} // what is known of the file is read anew
		_, rollback := s.statements.ExecContext(ctx, "ROLLBACK")
		// A transaction that SQLite has ended by itself cannot be ended again.
		_ = rollback
		return results, err
	}
	s.tail.follow(t)
	return results, nil
}

// transaction is what a batch of changes shares. Nothing that is appended is
// written before all changes have run: a change that only appends needs no
// savepoint, and the records go into the file together.
type transaction struct {
	reader
	config  Config
	raw     *statements
	tail    *tail
	ends    map[chainName]end // of the chains that moved, after the changes so far
	pending []evidence.Sealed // records of the batch, in the order of the log
	grown   []tlog.Hash       // hashes that the batch adds to the tree
	noted   int64             // what the tail's becomes
	careful bool              // ids of records are looked up before they are used
	settled bool              // rows of the chains are brought up to date with this batch
	saved   bool              // the change under way has a savepoint
	undo    []undone
	broken  error // the transaction ended by itself; nothing of it may be answered with yes
}

// undone is the end of a chain before a change moved it.
type undone struct {
	name  chainName
	end   end
	known bool
}

// change runs one change. What it did is taken back when it fails.
func (t *transaction) change(c *change) error {
	if t.broken != nil {
		return fmt.Errorf("sqlite: %w: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable, t.broken)
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	t.saved, t.undo = false, t.undo[:0]
	before := len(t.pending)
	err := c.run(t)
	if err == nil && t.saved {
		_, err = t.raw.ExecContext(t.ctx, "RELEASE change")
	}
	if err == nil {
		return nil
	}
	t.pending = t.pending[:before]
	for i := len(t.undo) - 1; i >= 0; i-- {
		if u := t.undo[i]; u.known {
			t.ends[u.name] = u.end
		} else {
			delete(t.ends, u.name)
		}
	}
	if t.saved {
		t.broken = t.takeBack()
	}
	return errors.Join(err, t.broken)
}

// move notes where a chain ends now.
func (t *transaction) move(name chainName, to end) {
	old, known := t.ends[name]
	t.undo = append(t.undo, undone{name, old, known})
	t.ends[name] = to
}

// save makes the savepoint of the change under way, before its first write.
func (t *transaction) save() error {
	if t.saved {
		return nil
	}
	_, err := t.raw.ExecContext(t.ctx, "SAVEPOINT change")
	t.saved = err == nil
	return err
}

// takeBack undoes a change. It fails where SQLite has ended the transaction by
// itself, as on a full disk: a savepoint after that would be a transaction of
// its own, which commits without the leaves and the checkpoint.
func (t *transaction) takeBack() error {
	if _, err := t.raw.ExecContext(t.ctx, "ROLLBACK TO change"); err != nil {
		return err
	}
	_, err := t.raw.ExecContext(t.ctx, "RELEASE change")
	return err
}

// lazy is what a change writes through: the first write makes its savepoint.
type lazy transaction

// ExecContext implements queryer.
func (l *lazy) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := (*transaction)(l).save(); err != nil {
		return nil, err
	}
	return l.raw.ExecContext(ctx, query, args...)
}

// QueryContext implements queryer.
func (l *lazy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return l.raw.QueryContext(ctx, query, args...)
}

// QueryRowContext implements queryer. What returns rows of what it wrote has
// its savepoint too; where that cannot be had the row carries the error of a
// transaction that is over.
func (l *lazy) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if !strings.HasPrefix(query, "SELECT") {
		if err := (*transaction)(l).save(); err != nil {
			over, cancel := context.WithCancelCause(ctx)
			cancel(err)
			return l.raw.QueryRowContext(over, query, args...)
		}
	}
	return l.raw.QueryRowContext(ctx, query, args...)
}
