package postgres

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

var errDamagedChain = errors.New("postgres: a stored chain is damaged: its id has 16 bytes and its hash 32")

// Append implements [issuer.Tx].
func (t *transaction) Append(record evidence.Record) (evidence.Sealed, error) {
	name := chainKey(record)
	head, err := t.headOf(name)
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
	t.move(name, end{sealed.Head()})
	t.pending = append(t.pending, sealed)
	return sealed, nil
}

func notWritten(err error) error {
	return fmt.Errorf("postgres: %w: %w", evidence.ErrNotWritten, err)
}

// unused refuses the id of a record that is in the log, or waits in this batch. The
// database refuses too, so it looks only when it must be careful.
func (t *transaction) unused(id string) error {
	if !t.careful {
		return nil
	}
	_, used, err := t.ofID(id)
	if err == nil && used {
		err = fmt.Errorf("record id %q is already used", id)
	}
	return err
}

// ofID returns the record of an id that is in the log, or waits in this batch.
func (t *transaction) ofID(id string) (evidence.Sealed, bool, error) {
	for _, p := range t.pending {
		if p.Record().ID == id {
			return p, true, nil
		}
	}
	stored, err := t.Record(id)
	if errors.Is(err, issuer.ErrNotFound) {
		return evidence.Sealed{}, false, nil
	}
	return stored, err == nil, err
}

// finish writes the records of the batch, brings their leaves into the tree, signs
// the checkpoint over them and moves the row that the transaction holds.
func (t *transaction) finish() error {
	batch := &pgx.Batch{}
	size := t.head.size
	t.note = t.head.note
	if len(t.pending) > 0 {
		if err := t.grow(batch); err != nil {
			return err
		}
		size += int64(len(t.pending))
	}
	batch.Queue("INSERT INTO committed (token, epoch) VALUES ($1, $2)", t.token[:], t.head.epoch+1)
	if t.head.epoch%forgetEvery == 0 {
		batch.Queue("DELETE FROM committed WHERE epoch < $1", t.head.epoch-committedKept)
	}
	moved := false
	v := t.versions
	batch.Queue(`UPDATE log SET size = $1, note = $2, epoch = epoch + 1, made = $3, stops = $4, modes = $5, gateways = $6, agents = $7, cards = $8
		WHERE only_row = 0 AND epoch = $9`, size, t.note, t.made, v.Stops, v.Modes, v.Gateways, v.Agents, v.Cards, t.head.epoch).
		Exec(func(tag pgconn.CommandTag) error {
			moved = tag.RowsAffected() == 1
			return nil
		})
	if err := t.conn.SendBatch(t.ctx, batch).Close(); err != nil {
		return err
	}
	if !moved {
		return errMoved
	}
	return nil
}

// Of the commits that can be looked for, those are kept that are fewer commits ago.
const committedKept, forgetEvery = 1 << 16, 1 << 10

func (t *transaction) grow(batch *pgx.Batch) error {
	if err := t.sign(); err != nil {
		return err
	}
	leaves := make([][]byte, len(t.pending))
	var places, times []int64
	var ids, records [][]byte
	for i, s := range t.pending {
		r := s.Record()
		leaves[i] = evidence.Leaf(s)
		places, times = append(places, t.head.size+int64(i)), append(times, r.Time.UnixMilli())
		ids, records = append(ids, []byte(r.ID)), append(records, s.Bytes())
	}
	batch.Queue("INSERT INTO record (place, id, time, bytes) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[])", places, ids, times, records)
	t.putBodies(batch)
	t.putHeads(batch)
	grown, size, root, err := evidence.Grow(t.head.size, t, leaves)
	if err != nil {
		return err
	}
	t.grown = grown
	hashes := make([]byte, 0, len(grown)*tlog.HashSize)
	for _, hash := range grown {
		hashes = append(hashes, hash[:]...)
	}
	batch.Queue("INSERT INTO tree (place, hashes) VALUES ($1, $2)", tlog.StoredHashCount(t.head.size), hashes)
	t.note, err = evidence.SignCheckpoint(evidence.Checkpoint{Origin: t.config.Origin, Size: size, Root: root}, t.config.Checkpoint)
	return err
}

// sign makes the signatures that the batch needs, at once on every processor.
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

// checkpoint is what the database says of its log.
type checkpoint struct {
	size int64
	note []byte // signed
}

// readCheckpoint returns the zero checkpoint for a log without records.
func readCheckpoint(r reader) (c checkpoint, err error) {
	if err = r.row("SELECT size, note FROM log WHERE only_row = 0").Scan(&c.size, &c.note); err != nil {
		return checkpoint{}, fmt.Errorf("postgres: checkpoint: %w", err)
	}
	return c, nil
}

// rawRecords yields the stored bytes that a query selects.
func (r reader) rawRecords(query string, args ...any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		rows, err := r.query(query, args...)
		if err != nil {
			yield(nil, fmt.Errorf("postgres: records: %w", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var b []byte
			if err := rows.Scan(&b); err != nil {
				yield(nil, fmt.Errorf("postgres: records: %w", err))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("postgres: records: %w", err))
		}
	}
}

// Record implements [issuer.Reader].
func (r reader) Record(id string) (evidence.Sealed, error) {
	return first(r.sealed("SELECT bytes FROM record WHERE id = $1", id))
}

func (r reader) eachSealed(query string, args ...any) iter.Seq2[evidence.Sealed, error] {
	return func(yield func(evidence.Sealed, error) bool) {
		for b, err := range r.rawRecords(query, args...) {
			var s evidence.Sealed
			if err == nil {
				if s, err = evidence.ParseSealed(b); err != nil {
					err = fmt.Errorf("postgres: a stored record is damaged: %w", err)
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
