package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

var errDamagedChain = errors.New("postgres: a stored chain is damaged: its id has 16 bytes and its hash 32")

// Append implements [issuer.Tx].
func (t *transaction) Append(record evidence.Record) (evidence.Sealed, error) {
	name := rows.ChainOf(record)
	head, err := t.headOf(name)
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
	t.move(name, end{sealed.Head()})
	t.pending = append(t.pending, sealed)
	return sealed, nil
}

// unused refuses the id of a record that is in the log, or waits in this batch. The
// database refuses too, so it looks only when it must be careful.
func (t *transaction) unused(id string) error {
	if !t.careful {
		return nil
	}
	_, used, err := t.Logged(id)
	if err == nil && used {
		err = fmt.Errorf("record id %q is already used", id)
	}
	return err
}

// Logged implements [issuer.OutcomeReader].
func (t *transaction) Logged(id string) (evidence.Sealed, bool, error) {
	return rows.Find(id, t.pending, t.Reader)
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
	if err := rows.Sign(t.pending, t.config.Signer); err != nil {
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
	grown, size, root, err := evidence.Grow(t.head.size, rows.NewTree(t.Reader, t.tail.hashes), leaves)
	if err != nil {
		return err
	}
	t.grown = grown
	batch.Queue("INSERT INTO tree (place, hashes) VALUES ($1, $2)", tlog.StoredHashCount(t.head.size), rows.HashRow(grown))
	t.note, err = evidence.SignCheckpoint(evidence.Checkpoint{Origin: t.config.Origin, Size: size, Root: root}, t.config.Checkpoint)
	return err
}

// latest is the query of the latest checkpoint.
const latest = "SELECT size, note FROM log WHERE only_row = 0"

// snapshots gives the log of a store its snapshots; it implements [rows.Snapshots].
type snapshots struct{ store *Store }

// Brief implements [rows.Snapshots].
func (s snapshots) Brief(ctx context.Context, read func(rows.Reader) error) error {
	return s.store.view(ctx, read)
}

// Long implements [rows.Snapshots]. Its reader holds nothing that others wait for, and may stand
// still.
func (s snapshots) Long(ctx context.Context, read func(rows.Reader) error) error {
	return s.store.inSnapshot(ctx, func(db database) error {
		if _, err := db.Exec("SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		return read(rows.NewReader(db))
	})
}

// Tree returns the stored tree, for one goroutine. What it reads of the tree of a
// checkpoint is the same for ever.
func (s *Store) Tree(ctx context.Context) tlog.HashReader {
	return rows.NewTree(read(ctx, s.pool), nil)
}

// KeepCosigned keeps a checkpoint of this log with its cosignatures, durably, in
// place of the one before. The caller has verified it. One that another node kept,
// of a longer log, stays.
func (s *Store) KeepCosigned(ctx context.Context, signed []byte) error {
	covered, err := evidence.OpenCheckpoint(signed, s.config.Checkpoint.(verifier))
	if err != nil {
		return fmt.Errorf("postgres: cosigned checkpoint: %w", err)
	}
	return s.update(ctx, func(t *transaction) error {
		_, err := t.db.Exec(`INSERT INTO cosigned (only_row, size, note) VALUES (0, ?, ?)
			ON CONFLICT (only_row) DO UPDATE SET size = excluded.size, note = excluded.note WHERE cosigned.size <= excluded.size`, covered.Size, signed)
		return err
	})
}
