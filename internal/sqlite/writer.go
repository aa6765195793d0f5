package sqlite

import (
	"context"
	"errors"
	"fmt"

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
	t := &transaction{reader: reader{ctx, s.statements}, config: s.config, heads: map[chainName]evidence.Head{}}
	err := run(t)
	if t.broken != nil {
		err = t.broken
	}
	if err == nil {
		_, err = s.statements.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, rollback := s.statements.ExecContext(ctx, "ROLLBACK")
		// A transaction that SQLite has ended by itself cannot be ended again.
		_ = rollback
	}
	return err
}

// transaction is what a batch of changes shares. Heads and leaves of a change
// that fails are taken back with its savepoint.
type transaction struct {
	reader
	config Config
	heads  map[chainName]evidence.Head // by chain, as they are after the changes so far
	leaves [][]byte
	size   int64 // records in the log before the leaves; read by the first append
	loaded bool
	broken error // the transaction ended by itself; nothing of it may be answered with yes
}

// change runs one change in a savepoint.
func (t *transaction) change(c *change) (err error) {
	if t.broken != nil {
		return fmt.Errorf("sqlite: %w: %w", evidence.ErrNotWritten, t.broken)
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if _, err := t.db.ExecContext(t.ctx, "SAVEPOINT change"); err != nil {
		return fmt.Errorf("sqlite: %w: %w", evidence.ErrNotWritten, err)
	}
	heads, leaves := cloneHeads(t.heads), len(t.leaves)
	defer func() {
		if err == nil {
			_, err = t.db.ExecContext(t.ctx, "RELEASE change")
		}
		if err != nil {
			t.heads, t.leaves = heads, t.leaves[:leaves]
			t.broken = t.takeBack()
			err = errors.Join(err, t.broken)
		}
	}()
	return c.run(t)
}

// takeBack undoes a change. It fails where SQLite has ended the transaction by
// itself, as on a full disk: a savepoint after that would be a transaction of
// its own, which commits without the leaves and the checkpoint.
func (t *transaction) takeBack() error {
	if _, err := t.db.ExecContext(t.ctx, "ROLLBACK TO change"); err != nil {
		return err
	}
	_, err := t.db.ExecContext(t.ctx, "RELEASE change")
	return err
}

func cloneHeads(heads map[chainName]evidence.Head) map[chainName]evidence.Head {
	clone := make(map[chainName]evidence.Head, len(heads))
	for agent, head := range heads {
		clone[agent] = head
	}
	return clone
}

// grow stores the heads, brings the new leaves into the tree and signs the checkpoint over them.
func (t *transaction) grow() error {
	if len(t.leaves) == 0 {
		return nil
	}
	if err := t.storeHeads(); err != nil {
		return err
	}
	stored, size, root, err := evidence.Grow(t.size, t, t.leaves)
	if err != nil {
		return err
	}
	first := tlog.StoredHashCount(t.size)
	for i, hash := range stored {
		if _, err := t.db.ExecContext(t.ctx, "INSERT INTO tree (place, hash) VALUES (?, ?)", first+int64(i), hash[:]); err != nil {
			return err
		}
	}
	signed, err := evidence.SignCheckpoint(evidence.Checkpoint{Origin: t.config.Origin, Size: size, Root: root}, t.config.Checkpoint)
	if err != nil {
		return err
	}
	_, err = t.db.ExecContext(t.ctx, "INSERT INTO checkpoint (only, size, note) VALUES (0, ?, ?) ON CONFLICT (only) DO UPDATE SET size = excluded.size, note = excluded.note", size, signed)
	return err
}
