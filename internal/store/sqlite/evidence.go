package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Append implements [issuer.Tx].
func (t *transaction) Append(record evidence.Record) (evidence.Sealed, error) {
	if record.Detached != nil {
		// What it commits to is stored beside it, in the file, in one commit.
		if err := t.enter(); err != nil {
			return evidence.Sealed{}, err
		}
	}
	name := chainKey(record)
	head, err := t.head(name)
	if err == nil {
		err = t.unused(record.ID)
	}
	if err != nil {
		return evidence.Sealed{}, notWritten(err)
	}
	seal := evidence.SealToSign
	if t.config.Batches {
		seal = evidence.SealCovered
	}
	sealed, err := seal(head, record, t.config.Signer)
	if err != nil {
		return evidence.Sealed{}, notWritten(err)
	}
	t.move(name, end{sealed.Head(), t.place()})
	t.pending = append(t.pending, sealed)
	return sealed, nil
}

func notWritten(err error) error {
	return fmt.Errorf("sqlite: %w: %w", evidence.ErrNotWritten, err)
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
	_, err := (reader{t.ctx, t.raw}).Record(id)
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
	if err := t.sign(); err != nil {
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
	grown, size, root, err := evidence.Grow(t.tail.size, t, leaves)
	if err != nil {
		return err
	}
	t.grown = grown
	if err := t.putHashes(); err != nil {
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
func (t *transaction) put(records []evidence.Sealed, first int64) error {
	rows := &rows{head: "INSERT OR ROLLBACK INTO record (place, id, time, bytes) VALUES ", row: "(?,?,?,?)", width: 4, between: t.giveWay}
	room := t.store.room[:0]
	for i, s := range records {
		r, at := s.Record(), len(room)
		room = s.AppendTo(room)
		rows.add(first+int64(i), r.ID, r.Time.UnixMilli(), room[at:len(room):len(room)])
	}
	if t.store.room = room; cap(room) > maxRoom {
		t.store.room = nil // one large batch is not kept for ever
	}
	return rows.insert(t.ctx, t.raw)
}

// maxRoom is how much memory is kept to hand records to SQLite, which copies them, in
// bytes: enough for usual ones of [maxTaken].
const maxRoom = 2 << 20

// sign makes the signatures that the batch needs, at once on every processor:
// there they take most of the time that a commit takes beside the disk.
func (t *transaction) sign() error {
	due := t.unsigned()
	workers := max(1, min(runtime.GOMAXPROCS(0), len(due)/signaturesAWorker))
	var group errgroup.Group
	for w := range workers {
		group.Go(func() error {
			for n := w; n < len(due); n += workers {
				var err error
				if t.pending[due[n]], err = t.pending[due[n]].Sign(t.config.Signer); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// signaturesAWorker is the number of signatures for which it is worth while to
// wake another processor.
const signaturesAWorker = 4

// unsigned returns the places of the records that need a signature: of those
// that are covered, the last of each chain.
func (t *transaction) unsigned() (due []int) {
	signed := map[chainName]bool{}
	for i, s := range slices.Backward(t.pending) {
		if i < t.signed {
			break
		}
		switch name := chainKey(s.Record()); {
		case s.Signed():
		case !s.Covered():
			due = append(due, i)
		case !signed[name]:
			due = append(due, i)
			signed[name] = true
		}
	}
	return due
}

// rows are inserted together, in few statements.
type rows struct {
	head  string // INSERT INTO ... VALUES
	row   string // (?, ...)
	width int
	args  []any
	// between is called after each statement.
	between func()
}

func (r *rows) add(values ...any) { r.args = append(r.args, values...) }

// insert writes the rows in powers of two, so that there are few texts to
// compile.
func (r *rows) insert(ctx context.Context, db queryer) error {
	args := r.args
	for n := 64; len(args) > 0; {
		if n*r.width > len(args) {
			n /= 2
			continue
		}
		text := r.head + strings.TrimSuffix(strings.Repeat(r.row+",", n), ",")
		if _, err := db.ExecContext(ctx, text, args[:n*r.width]...); err != nil {
			return err
		}
		r.between()
		args = args[n*r.width:]
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

// Empty reports whether nothing has been recorded yet.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	if err := s.settle(ctx); err != nil {
		return false, err
	}
	c, err := readCheckpoint(ctx, s.reads)
	return c.size == 0, err
}

// Records returns how many records the log has.
func (s *Store) Records(ctx context.Context) (int64, error) {
	if err := s.settle(ctx); err != nil {
		return 0, err
	}
	c, err := readCheckpoint(ctx, s.reads)
	return c.size, err
}

// Export writes the bundle of everything that is recorded, as of one moment
// (EXT-41).
func (s *Store) Export(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	return s.exportUnder(ctx, w, export{keys: keys})
}

// export says what a bundle has.
type export struct {
	keys   []evidence.Key
	signed []byte // checkpoint that says how far it goes; the latest one where it is nil
	bodies bool   // whether bodies come with their records
	first  int64  // entries before it
}

// exportUnder writes what a signed checkpoint of the log covers.
func (s *Store) exportUnder(ctx context.Context, w io.Writer, what export) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // a read has nothing to keep
	c, err := readCheckpoint(ctx, tx)
	if err != nil {
		return err
	}
	if c.size == 0 {
		return issuer.ErrNoEvidence
	}
	if what.signed != nil {
		covered, err := evidence.OpenCheckpoint(what.signed, s.config.Checkpoint.(verifier))
		if err != nil || covered.Size > c.size {
			return errors.Join(errors.New("sqlite: the cosigned checkpoint is not one of this file"), err)
		}
		c.size, c.note = covered.Size, what.signed
	}
	r := reader{ctx, tx}
	begins, err := r.begins()
	if err != nil {
		return err
	}
	what.first = max(what.first, begins)
	if c.size < what.first {
		return fmt.Errorf("sqlite: a checkpoint of %d entries, and the records that are here begin behind %d", c.size, what.first)
	}
	out := evidence.Export{
		From: what.first, Keys: what.keys, Hashes: &treeReader{reader: r}, Checkpoint: c.note,
		Records: r.rawRecords("SELECT bytes FROM record WHERE place >= ? AND place < ? ORDER BY place", what.first, c.size),
	}
	if what.bodies {
		r.withBodies(&out, c.size)
	}
	return evidence.WriteBundle(w, out)
}

// rawRecords yields the stored bytes that a query selects.
func (r reader) rawRecords(query string, args ...any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		rows, err := r.db.QueryContext(r.ctx, query, args...)
		if err != nil {
			yield(nil, fmt.Errorf("sqlite: records: %w", err))
			return
		}
		defer func() { _ = rows.Close() }() // Err below tells what matters
		for rows.Next() {
			var b []byte
			if err := rows.Scan(&b); err != nil {
				yield(nil, fmt.Errorf("sqlite: records: %w", err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("sqlite: records: %w", err))
		}
	}
}

// Record implements [issuer.Reader].
func (r reader) Record(id string) (evidence.Sealed, error) {
	return first(r.sealed("SELECT bytes FROM record WHERE id = ?", id))
}

func (r reader) eachSealed(query string, args ...any) iter.Seq2[evidence.Sealed, error] {
	return func(yield func(evidence.Sealed, error) bool) {
		for b, err := range r.rawRecords(query, args...) {
			var s evidence.Sealed
			if err == nil {
				if s, err = evidence.ParseSealed(b); err != nil {
					err = fmt.Errorf("sqlite: a stored record is damaged: %w", err)
				}
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func (r reader) sealed(query string, args ...any) ([]evidence.Sealed, error) {
	var out []evidence.Sealed
	for s, err := range r.eachSealed(query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func first[T any](list []T, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if len(list) == 0 {
		return zero, issuer.ErrNotFound
	}
	return list[0], nil
}
