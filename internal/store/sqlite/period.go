package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Periods implements [issuer.Reader].
func (r reader) Periods() ([]issuer.Period, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT number, first, size, closed, archived, note FROM period ORDER BY number")
	if err != nil {
		return nil, fmt.Errorf("sqlite: periods: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []issuer.Period
	for rows.Next() {
		var p issuer.Period
		var closed int64
		if err := rows.Scan(&p.Number, &p.First, &p.Size, &closed, &p.Archived, &p.Checkpoint); err != nil {
			return nil, fmt.Errorf("sqlite: periods: %w", err)
		}
		p.Closed = time.UnixMilli(closed).UTC()
		out = append(out, p)
	}
	return out, rows.Err()
}

// begins is how many entries of the log are before the records that are here: the
// end of the last period that was archived.
func (r reader) begins() (first int64, err error) {
	if err = r.db.QueryRowContext(r.ctx, "SELECT COALESCE(MAX(size), 0) FROM period WHERE archived = 1").Scan(&first); err != nil {
		err = fmt.Errorf("sqlite: periods: %w", err)
	}
	return first, err
}

// Begins returns how many entries of the log are before the records that are here.
func (s *Store) Begins(ctx context.Context) (int64, error) { return (reader{ctx, s.reads}).begins() }

// ClosePeriod implements [issuer.Tx]. A period ends in what has committed: what
// waits in this batch is of the next one.
func (t *transaction) ClosePeriod(signed []byte, at time.Time) (issuer.Period, error) {
	p := issuer.Period{Number: 1, Checkpoint: signed, Closed: at}
	if err := t.enter(); err != nil {
		return p, err
	}
	if signed == nil {
		c, err := readCheckpoint(t.ctx, t.raw)
		if err != nil {
			return p, err
		}
		p.Checkpoint = c.note
	}
	all, err := t.Periods()
	if err != nil {
		return p, err
	}
	if n := len(all); n > 0 {
		p.Number, p.First = all[n-1].Number+1, all[n-1].Size
	}
	if p.Checkpoint == nil {
		return p, issuer.ErrNothingToClose
	}
	covered, err := evidence.OpenCheckpoint(p.Checkpoint, t.config.Checkpoint.(verifier))
	if err != nil {
		return p, fmt.Errorf("sqlite: %w", err)
	}
	if p.Size = covered.Size; p.Size <= p.First {
		return p, issuer.ErrNothingToClose
	}
	_, err = t.db.ExecContext(t.ctx, "INSERT INTO period (number, first, size, closed, archived, note) VALUES (?, ?, ?, ?, 0, ?)",
		p.Number, p.First, p.Size, at.UnixMilli(), p.Checkpoint)
	if err != nil {
		return p, fmt.Errorf("sqlite: period %d: %w", p.Number, err)
	}
	return p, nil
}

// ExportPeriod writes the bundle of one period, which begins where the one before
// ends.
func (s *Store) ExportPeriod(ctx context.Context, w io.Writer, keys []evidence.Key, number int64, bodies bool) error {
	all, err := (reader{ctx, s.reads}).Periods()
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Number != number {
			continue
		}
		if p.Archived {
			return issuer.ErrArchived
		}
		return s.exportUnder(ctx, w, export{keys: keys, signed: p.Checkpoint, first: p.First, bodies: bodies})
	}
	return issuer.ErrNotFound
}

// deletedAtOnce is how many records of an archived period are deleted in one
// transaction.
const deletedAtOnce = 2000

// ArchivePeriod implements [issuer.Tx].
func (t *transaction) ArchivePeriod(p issuer.Period) error {
	if err := t.enter(); err != nil {
		return err
	}
	var left int
	err := t.raw.QueryRowContext(t.ctx, "SELECT COUNT(*) FROM body WHERE place < ?", p.Size).Scan(&left)
	if err != nil {
		return fmt.Errorf("sqlite: period %d: %w", p.Number, err)
	}
	if left > 0 {
		return issuer.ErrBodiesLeft
	}
	if err := t.keepHeads(p.Size); err != nil {
		return err
	}
	t.settled = true
	if _, err := t.db.ExecContext(t.ctx, "UPDATE period SET archived = 1 WHERE number = ?", p.Number); err != nil {
		return fmt.Errorf("sqlite: period %d: %w", p.Number, err)
	}
	return nil
}

// keepHeads remembers where the chains continue whose last record is before a place.
func (t *transaction) keepHeads(before int64) error {
	if err := t.loadTail(); err != nil {
		return err
	}
	names, err := t.chains()
	if err != nil {
		return err
	}
	for _, name := range names {
		head, err := t.head(name)
		if err != nil {
			return err
		}
		if _, err := t.db.ExecContext(t.ctx, "UPDATE chain SET sequence = ?, hash = ? WHERE agent = ? AND recorder = ?",
			head.Sequence, head.Hash[:], name.agent, name.recorder); err != nil {
			return fmt.Errorf("sqlite: chains before entry %d: %w", before, err)
		}
	}
	return nil
}

func (t *transaction) chains() ([]chainName, error) {
	rows, err := t.raw.QueryContext(t.ctx, "SELECT agent, recorder FROM chain")
	if err != nil {
		return nil, fmt.Errorf("sqlite: chains: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []chainName
	for rows.Next() {
		var name chainName
		if err := rows.Scan(&name.agent, &name.recorder); err != nil {
			return nil, fmt.Errorf("sqlite: chains: %w", err)
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

// DeleteArchived implements [issuer.Tx].
func (t *transaction) DeleteArchived() (int, error) {
	first, err := t.begins()
	if err != nil {
		return 0, err
	}
	const gone = "SELECT id FROM record WHERE place < ? ORDER BY place LIMIT ?"
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM told WHERE record IN ("+gone+")", first, deletedAtOnce); err != nil {
		return 0, fmt.Errorf("sqlite: outcomes that were archived: %w", err)
	}
	done, err := t.db.ExecContext(t.ctx, "DELETE FROM record WHERE place IN (SELECT place FROM record WHERE place < ? ORDER BY place LIMIT ?)", first, deletedAtOnce)
	if err != nil {
		return 0, fmt.Errorf("sqlite: records that were archived: %w", err)
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// keptHead is the head of a chain whose last record is not here.
func (t *transaction) keptHead(name chainName, id evidence.ChainID) (evidence.Head, error) {
	head := evidence.Head{ChainID: id}
	var hash []byte
	err := t.raw.QueryRowContext(t.ctx, "SELECT sequence, hash FROM chain WHERE agent = ? AND recorder = ? AND sequence >= 0", name.agent, name.recorder).Scan(&head.Sequence, &hash)
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(hash) != len(head.Hash) {
		return head, issuer.ErrNotFound
	}
	copy(head.Hash[:], hash)
	return head, err
}
