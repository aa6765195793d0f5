package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// Append implements [issuer.Tx].
func (t *transaction) Append(record evidence.Record) (evidence.Sealed, error) {
	if record.Detached != nil {
		// What it commits to is stored beside it, in the file, in one commit.
		if err := t.enter(); err != nil {
			return evidence.Sealed{}, err
		}
	}
	name := rows.ChainOf(record)
	head, err := t.head(name)
	if err == nil {
		err = t.unused(record.ID)
	}
	if err != nil {
		return evidence.Sealed{}, rows.NotWritten(err)
	}
	sealed, err := rows.Seal(head, record, t.config.Signer, t.config.Batches)
	if err != nil {
		return evidence.Sealed{}, err
	}
	t.move(name, end{sealed.Head(), t.place()})
	t.pending = append(t.pending, sealed)
	return sealed, nil
}

// unused refuses the id of a record that is in the log, or waits in this batch.
// Where the records of the batch go straight into the file, which refuses by
// itself, it looks only when it must be careful.
func (t *transaction) unused(id string) error {
	if t.entered && !t.care.ids {
		return nil
	}
	if !t.entered {
		_, again := t.used[id]
		t.used[id] = struct{}{}
		if !again && t.store.ahead.ids.unused(id) {
			return nil
		}
		if err := t.enter(); err != nil {
			return err
		}
	}
	_, err := t.stored().Record(id)
	waits := slices.ContainsFunc(t.pending, func(s evidence.Sealed) bool { return s.Record().ID == id })
	switch {
	case err == nil || waits:
		return fmt.Errorf("record id %q is already used", id)
	case errors.Is(err, issuer.ErrNotFound):
		return nil
	}
	return err
}

// grow writes the records of the batch, brings their leaves into the tree and
// signs the checkpoint over them.
func (t *transaction) grow() error {
	if t.broken != nil || len(t.pending) == 0 {
		return t.broken
	}
	if err := rows.Sign(t.pending[t.signed:], t.config.Signer); err != nil {
		return err
	}
	if err := t.put(t.pending[t.taken:], t.tail.size+int64(t.taken)); err != nil {
		return err
	}
	for name, e := range t.behind {
		if _, moved := t.ends[name]; !moved {
			t.ends[name] = e
		}
	}
	leaves := make([][]byte, len(t.pending))
	for i, s := range t.pending {
		leaves[i] = evidence.Leaf(s)
	}
	if err := t.putBodies(); err != nil {
		return err
	}
	grown, size, root, err := evidence.Grow(t.tail.size, rows.NewTree(t.stored(), t.tail.hashes), leaves)
	if err != nil {
		return err
	}
	t.grown = grown
	_, err = t.raw.ExecContext(t.ctx, "INSERT INTO tree (place, hashes) VALUES (?, ?)", tlog.StoredHashCount(t.tail.size), rows.HashRow(grown))
	if err != nil {
		return err
	}
	if t.noted, err = t.note(size); err != nil {
		return err
	}
	signed, err := evidence.SignCheckpoint(evidence.Checkpoint{Origin: t.config.Origin, Size: size, Root: root}, t.config.Checkpoint)
	if err != nil {
		return err
	}
	_, err = t.raw.ExecContext(t.ctx, "INSERT OR REPLACE INTO checkpoint (only, size, note, heads) VALUES (0, ?, ?, ?)", size, signed, t.noted)
	return err
}

// put writes records into the file. With OR ROLLBACK, SQLite keeps no copy of
// pages in case that a statement must be undone alone: none is, since the batch
// fails with it.
func (t *transaction) put(list []evidence.Sealed, first int64) error {
	records := &bulk{head: "INSERT OR ROLLBACK INTO record (place, id, time, bytes) VALUES ", row: "(?,?,?,?)", width: 4, between: t.giveWay}
	room := t.store.room[:0]
	for i, s := range list {
		r, at := s.Record(), len(room)
		room = s.AppendTo(room)
		records.add(first+int64(i), r.ID, r.Time.UnixMilli(), room[at:len(room):len(room)])
	}
	if t.store.room = room; cap(room) > maxRoom {
		t.store.room = nil // one large batch is not kept for ever
	}
	return records.insert(t.ctx, t.raw)
}

// maxRoom is how much memory is kept to hand records to SQLite, which copies them, in
// bytes: enough for usual ones of [maxTaken].
const maxRoom = 2 << 20

// bulk is rows that are inserted together, in few statements.
type bulk struct {
	head  string // INSERT INTO ... VALUES
	row   string // (?, ...)
	width int
	args  []any
	// between is called after each statement.
	between func()
}

func (b *bulk) add(values ...any) { b.args = append(b.args, values...) }

// insert writes the rows in powers of two, so that there are few texts to
// compile.
func (b *bulk) insert(ctx context.Context, db queryer) error {
	args := b.args
	for n := 64; len(args) > 0; {
		if n*b.width > len(args) {
			n /= 2
			continue
		}
		text := b.head + strings.TrimSuffix(strings.Repeat(b.row+",", n), ",")
		if _, err := db.ExecContext(ctx, text, args[:n*b.width]...); err != nil {
			return err
		}
		b.between()
		args = args[n*b.width:]
	}
	return nil
}

// checkpoint is what the file says of its log.
type checkpoint struct {
	size  int64
	note  []byte // signed
	heads int64  // records of which the rows of the chains tell the last
}

// readCheckpoint returns the zero checkpoint for a log without records.
func readCheckpoint(ctx context.Context, db queryer) (c checkpoint, err error) {
	err = db.QueryRowContext(ctx, "SELECT size, note, heads FROM checkpoint").Scan(&c.size, &c.note, &c.heads)
	if errors.Is(err, sql.ErrNoRows) {
		return checkpoint{}, nil
	}
	if err != nil {
		return checkpoint{}, fmt.Errorf("sqlite: checkpoint: %w", err)
	}
	return c, nil
}

// latest is the query of the latest checkpoint.
const latest = "SELECT size, note FROM checkpoint"

// snapshots gives the log of a store its snapshots; it implements [rows.Snapshots].
type snapshots struct{ store *Store }

// Long implements [rows.Snapshots]. It uses none of the connections of views.
func (s snapshots) Long(ctx context.Context, read func(rows.Reader) error) error {
	return s.Brief(ctx, read)
}

// Brief implements [rows.Snapshots].
func (s snapshots) Brief(ctx context.Context, read func(rows.Reader) error) error {
	if err := s.store.settle(ctx); err != nil {
		return err
	}
	tx, err := s.store.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // a read has nothing to keep
	return read(rows.NewReader(connection{ctx, tx}))
}

// Tree returns the stored tree, for one goroutine. What it reads of the tree of a
// checkpoint is the same for ever.
func (s *Store) Tree(ctx context.Context) tlog.HashReader {
	return rows.NewTree(read(ctx, s.reads), nil)
}

// KeepCosigned keeps a checkpoint of this log with its cosignatures, durably, in
// place of the one before. The caller has verified it.
func (s *Store) KeepCosigned(ctx context.Context, signed []byte) error {
	return s.update(ctx, func(t *transaction) error {
		_, err := t.db.Exec("INSERT OR REPLACE INTO cosigned (only, note) VALUES (0, ?)", signed)
		return err
	})
}
