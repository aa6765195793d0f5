package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuer"
)

// maxBatch is the number of changes that share one commit at the most.
const maxBatch = 256

// change is one call of Update on its way through the writer.
type change struct {
	ctx    context.Context
	run    func(issuer.Tx) error
	result chan error
}

var errClosed = fmt.Errorf("sqlite: the store is closed: %w", evidence.ErrNotWritten)

// Update implements [issuer.Store].
func (s *Store) Update(ctx context.Context, run func(issuer.Tx) error) error {
	c := &change{ctx, run, make(chan error, 1)}
	select {
	case s.changes <- c:
	case <-s.closing:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	// From here on the change may commit, so its true result is awaited even
	// when the caller has gone: nobody is told "no" for what happened.
	select {
	case err := <-c.result:
		return err
	case <-s.done:
		select {
		case err := <-c.result:
			return err
		default:
			return errClosed
		}
	}
}

func (s *Store) write() {
	defer close(s.done)
	for {
		select {
		case <-s.closing:
			return
		case first := <-s.changes:
			s.commit(s.gather(first))
		}
	}
}

func (s *Store) gather(first *change) []*change {
	batch := []*change{first}
	for len(batch) < maxBatch {
		select {
		case c := <-s.changes:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch in one transaction and answers every change of it, but
// only after the transaction is on the disk.
func (s *Store) commit(batch []*change) {
	// The batch belongs to many callers: none of them may cancel it.
	ctx := context.Background()
	results := make([]error, len(batch))
	err := s.transact(ctx, func(t *transaction) error {
		for i, c := range batch {
			results[i] = t.change(c)
		}
		return t.grow()
	})
	for i, c := range batch {
		if results[i] == nil && err != nil {
			results[i] = fmt.Errorf("sqlite: %w: %w", evidence.ErrNotWritten, err)
		}
		c.result <- results[i]
	}
}

func (s *Store) transact(ctx context.Context, run func(*transaction) error) error {
	if _, err := s.statements.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	t := &transaction{config: s.config, raw: s.statements, tail: &s.tail, heads: map[chainName]evidence.Head{}}
	t.reader = reader{ctx, (*lazy)(t)}
	err := run(t)
	if t.broken != nil {
		err = t.broken
	}
	if err == nil {
		_, err = s.statements.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		s.tail = tail{} // what is known of the file is read anew
		_, rollback := s.statements.ExecContext(ctx, "ROLLBACK")
		// A transaction that SQLite has ended by itself cannot be ended again.
		_ = rollback
		return err
	}
	s.tail.follow(t)
	return nil
}

// transaction is what a batch of changes shares. Nothing that is appended is
// written before all changes have run: a change that only appends needs no
// savepoint, and the records go into the file together.
type transaction struct {
	reader
	config  Config
	raw     *statements
	tail    *tail
	heads   map[chainName]evidence.Head // by chain, as they are after the changes so far
	pending []evidence.Sealed           // records of the batch, in the order of the log
	grown   []tlog.Hash                 // hashes that the batch adds to the tree
	size    int64                       // records in the log before the batch; known after the first append
	loaded  bool
	saved   bool // the change under way has a savepoint
	undo    []undone
	broken  error // the transaction ended by itself; nothing of it may be answered with yes
}

// undone is the head of a chain before a change moved it.
type undone struct {
	name  chainName
	head  evidence.Head
	known bool
}

// change runs one change. What it did is taken back when it fails.
func (t *transaction) change(c *change) error {
	if t.broken != nil {
		return fmt.Errorf("sqlite: %w: %w", evidence.ErrNotWritten, t.broken)
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
			t.heads[u.name] = u.head
		} else {
			delete(t.heads, u.name)
		}
	}
	if t.saved {
		t.broken = t.takeBack()
	}
	return errors.Join(err, t.broken)
}

// move notes where a chain ends now.
func (t *transaction) move(name chainName, head evidence.Head) {
	old, known := t.heads[name]
	t.undo = append(t.undo, undone{name, old, known})
	t.heads[name] = head
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

// tail is what the writer remembers of the end of its file, so that it need not
// be read for every batch. The zero tail knows nothing.
type tail struct {
	heads  map[chainName]evidence.Head
	hashes map[int64]tlog.Hash
	size   int64
	known  bool // whether size is
}

// What a tail holds at the most.
const (
	maxHeads  = 1 << 16
	maxHashes = 1 << 14
)

// follow takes over what a batch that has committed did.
func (k *tail) follow(t *transaction) {
	if len(t.pending) == 0 {
		return
	}
	if k.heads == nil || len(k.heads) > maxHeads {
		k.heads = map[chainName]evidence.Head{}
	}
	for name, head := range t.heads {
		k.heads[name] = head
	}
	if k.hashes == nil || len(k.hashes) > maxHashes {
		k.hashes = map[int64]tlog.Hash{}
	}
	first := tlog.StoredHashCount(t.size)
	for i, hash := range t.grown {
		k.hashes[first+int64(i)] = hash
	}
	k.size, k.known = t.size+int64(len(t.pending)), true
}
