package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuer"
)

// Append implements [issuer.Tx].
func (t *transaction) Append(record evidence.Record) (evidence.Sealed, error) {
	head, err := t.head(record)
	if err != nil {
		return evidence.Sealed{}, notWritten(err)
	}
	if err := t.loadSize(); err != nil {
		return evidence.Sealed{}, notWritten(err)
	}
	sealed, err := evidence.Seal(head, record, t.config.Signer)
	if err != nil {
		return evidence.Sealed{}, notWritten(err)
	}
	t.move(chainKey(record), sealed.Head())
	t.pending = append(t.pending, sealed)
	return sealed, nil
}

func notWritten(err error) error {
	return fmt.Errorf("sqlite: %w: %w", evidence.ErrNotWritten, err)
}

// chainKey names the chain of a record: one for an agent and a recorder.
func chainKey(record evidence.Record) chainName {
	return chainName{record.AgentID, record.Details.Recorder}
}

type chainName struct{ agent, recorder string }

func (t *transaction) head(record evidence.Record) (evidence.Head, error) {
	if head, ok := t.heads[chainKey(record)]; ok {
		return head, nil
	}
	if head, ok := t.tail.heads[chainKey(record)]; ok {
		return head, nil
	}
	var chain []byte
	err := t.raw.QueryRowContext(t.ctx, "SELECT chain FROM chain WHERE agent = ? AND recorder = ?",
		record.AgentID, record.Details.Recorder).Scan(&chain)
	if errors.Is(err, sql.ErrNoRows) {
		return t.found(record)
	}
	if err != nil {
		return evidence.Head{}, err
	}
	last, err := first((reader{t.ctx, t.raw}).sealed("SELECT bytes FROM record WHERE chain = ? ORDER BY sequence DESC LIMIT 1", chain))
	if errors.Is(err, issuer.ErrNotFound) {
		return evidence.Genesis(evidence.ChainID(chain)), nil
	}
	if err != nil {
		return evidence.Head{}, err
	}
	return last.Head(), nil
}

// found starts the chain of an agent and recorder.
func (t *transaction) found(record evidence.Record) (evidence.Head, error) {
	var id evidence.ChainID
	if _, err := io.ReadFull(t.config.Random, id[:]); err != nil {
		return evidence.Head{}, err
	}
	_, err := t.db.ExecContext(t.ctx, "INSERT INTO chain (agent, recorder, chain) VALUES (?, ?, ?)",
		record.AgentID, record.Details.Recorder, id[:])
	return evidence.Genesis(id), err
}

func (t *transaction) loadSize() error {
	if t.loaded {
		return nil
	}
	if t.tail.known {
		t.size, t.loaded = t.tail.size, true
		return nil
	}
	size, _, err := readCheckpoint(t.ctx, t.raw)
	t.size, t.loaded = size, err == nil
	return err
}

// grow writes the records of the batch, brings their leaves into the tree and
// signs the checkpoint over them.
func (t *transaction) grow() error {
	if len(t.pending) == 0 {
		return nil
	}
	leaves := make([][]byte, len(t.pending))
	rows := newRows("record", "place", "id", "chain", "sequence", "agent", "requester", "task", "operation", "decision", "outcome_of", "time", "bytes")
	for i, s := range t.pending {
		leaves[i] = evidence.Leaf(s)
		r := s.Record()
		chain := r.Details.ChainID
		rows.add(t.size+int64(i), r.ID, chain[:], r.Details.Sequence, r.AgentID, r.Details.Requester, r.TaskID,
			r.Intent.Operation, string(r.Decision), r.Details.OutcomeOf, r.Time.UnixMilli(), s.Bytes())
	}
	if err := rows.insert(t.ctx, t.raw); err != nil {
		return err
	}
	var root tlog.Hash
	var size int64
	var err error
	if t.grown, size, root, err = evidence.Grow(t.size, t, leaves); err != nil {
		return err
	}
	hashes := newRows("tree", "place", "hash")
	first := tlog.StoredHashCount(t.size)
	for i := range t.grown {
		hashes.add(first+int64(i), t.grown[i][:])
	}
	if err := hashes.insert(t.ctx, t.raw); err != nil {
		return err
	}
	signed, err := evidence.SignCheckpoint(evidence.Checkpoint{Origin: t.config.Origin, Size: size, Root: root}, t.config.Checkpoint)
	if err != nil {
		return err
	}
	_, err = t.raw.ExecContext(t.ctx, "INSERT INTO checkpoint (only, size, note) VALUES (0, ?, ?) ON CONFLICT (only) DO UPDATE SET size = excluded.size, note = excluded.note", size, signed)
	return err
}

// rows are inserted together, in few statements.
type rows struct {
	head  string // INSERT INTO ... VALUES
	row   string // (?, ...)
	width int
	args  []any
}

func newRows(table string, columns ...string) *rows {
	return &rows{
		head:  "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES ",
		row:   "(" + strings.TrimSuffix(strings.Repeat("?,", len(columns)), ",") + ")",
		width: len(columns),
	}
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
		args = args[n*r.width:]
	}
	return nil
}

// ReadHashes implements tlog.HashReader over the stored tree, the end of which
// the writer remembers.
func (t *transaction) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if hash, ok := t.tail.hashes[index]; ok {
			hashes[i] = hash
			continue
		}
		read, err := (reader{t.ctx, t.raw}).ReadHashes(indexes[i : i+1])
		if err != nil {
			return nil, err
		}
		hashes[i] = read[0]
	}
	return hashes, nil
}

// ReadHashes implements tlog.HashReader over the stored tree.
func (r reader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		var hash []byte
		if err := r.db.QueryRowContext(r.ctx, "SELECT hash FROM tree WHERE place = ?", index).Scan(&hash); err != nil {
			return nil, fmt.Errorf("sqlite: stored hash %d: %w", index, err)
		}
		hashes[i] = tlog.Hash(hash)
	}
	return hashes, nil
}

func readCheckpoint(ctx context.Context, db queryer) (size int64, signed []byte, err error) {
	err = db.QueryRowContext(ctx, "SELECT size, note FROM checkpoint").Scan(&size, &signed)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("sqlite: checkpoint: %w", err)
	}
	return size, signed, nil
}

// Empty reports whether nothing has been recorded yet.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	size, _, err := readCheckpoint(ctx, s.reads)
	return size == 0, err
}

// ErrNoEvidence is returned by [Store.Export] while there is no record.
var ErrNoEvidence = errors.New("sqlite: there is no evidence yet")

// Export writes the bundle of everything that is recorded, as of one moment
// (EXT-41).
func (s *Store) Export(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // a read has nothing to keep
	size, signed, err := readCheckpoint(ctx, tx)
	if err != nil {
		return err
	}
	if size == 0 {
		return ErrNoEvidence
	}
	r := reader{ctx, tx}
	return evidence.WriteBundle(w, evidence.Export{
		Keys: keys, Hashes: r, Checkpoint: signed,
		Records: r.rawRecords("SELECT bytes FROM record ORDER BY place"),
	})
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

// Records implements [issuer.Reader].
func (r reader) Records(q issuer.RecordQuery) ([]evidence.Sealed, error) {
	limit := q.Limit
	if limit == 0 {
		limit = -1
	}
	since := int64(0)
	if !q.Since.IsZero() {
		since = q.Since.UnixMilli()
	}
	return r.sealed(`SELECT bytes FROM record
		WHERE (? = '' OR agent = ?) AND (? = '' OR requester = ?) AND (? = '' OR task = ?) AND (? = '' OR operation = ?)
		  AND (? = '' OR decision = ?) AND (? = '' OR outcome_of = ?) AND time >= ?
		ORDER BY place DESC LIMIT ?`,
		q.Agent, q.Agent, q.Requester, q.Requester, q.Task, q.Task, q.Operation, q.Operation,
		string(q.Decision), string(q.Decision), q.OutcomeOf, q.OutcomeOf, since, limit)
}

func (r reader) sealed(query string, args ...any) ([]evidence.Sealed, error) {
	var out []evidence.Sealed
	for b, err := range r.rawRecords(query, args...) {
		if err != nil {
			return nil, err
		}
		s, err := evidence.ParseSealed(b)
		if err != nil {
			return nil, fmt.Errorf("sqlite: a stored record is damaged: %w", err)
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
