package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Periods implements [issuer.Reader].
func (r reader) Periods() ([]issuer.Period, error) {
	rows, err := r.query("SELECT number, first, size, closed, archived, note FROM period ORDER BY number")
	if err != nil {
		return nil, fmt.Errorf("postgres: periods: %w", err)
	}
	defer rows.Close()
	var out []issuer.Period
	for rows.Next() {
		var p issuer.Period
		var closed int64
		if err := rows.Scan(&p.Number, &p.First, &p.Size, &closed, &p.Archived, &p.Checkpoint); err != nil {
			return nil, fmt.Errorf("postgres: periods: %w", err)
		}
		p.Closed = time.UnixMilli(closed).UTC()
		out = append(out, p)
	}
	return out, rows.Err()
}

// begins is how many entries of the log are before the records that are here: the
// end of the last period that was archived.
func (r reader) begins() (first int64, err error) {
	if err = r.row("SELECT COALESCE(MAX(size), 0) FROM period WHERE archived").Scan(&first); err != nil {
		err = fmt.Errorf("postgres: periods: %w", err)
	}
	return first, err
}

// Begins returns how many entries of the log are before the records that are here.
func (s *Store) Begins(ctx context.Context) (first int64, err error) {
	err = s.view(ctx, func(r reader) (err error) {
		first, err = r.begins()
		return err
	})
	return first, err
}

// ClosePeriod implements [issuer.Tx]. A period ends in what has committed: what
// waits in this batch is of the next one.
func (t *transaction) ClosePeriod(signed []byte, at time.Time) (issuer.Period, error) {
	p := issuer.Period{Number: 1, Checkpoint: signed, Closed: at}
	if signed == nil {
		p.Checkpoint = t.head.note
	}
	all, err := t.Periods()
	if err != nil {
		return p, err
	}
	if n := len(all); n > 0 {
		p.Number, p.First = all[n-1].Number+1, all[n-1].Size
	}
	if len(p.Checkpoint) == 0 {
		return p, issuer.ErrNothingToClose
	}
	covered, err := evidence.OpenCheckpoint(p.Checkpoint, t.config.Checkpoint.(verifier))
	if err != nil {
		return p, fmt.Errorf("postgres: %w", err)
	}
	if p.Size = covered.Size; p.Size <= p.First {
		return p, issuer.ErrNothingToClose
	}
	_, err = t.exec("INSERT INTO period (number, first, size, closed, archived, note) VALUES ($1, $2, $3, $4, false, $5)",
		p.Number, p.First, p.Size, at.UnixMilli(), p.Checkpoint)
	if err != nil {
		return p, fmt.Errorf("postgres: period %d: %w", p.Number, err)
	}
	return p, nil
}

// deletedAtOnce is how many records of an archived period are deleted in one
// transaction.
const deletedAtOnce = 2000

// ArchivePeriod implements [issuer.Tx].
func (t *transaction) ArchivePeriod(p issuer.Period) error {
	var left int
	err := t.row("SELECT COUNT(*) FROM body WHERE place < $1", p.Size).Scan(&left)
	if err != nil {
		return fmt.Errorf("postgres: period %d: %w", p.Number, err)
	}
	if left > 0 {
		return issuer.ErrBodiesLeft
	}
	if _, err := t.exec("UPDATE period SET archived = true WHERE number = $1", p.Number); err != nil {
		return fmt.Errorf("postgres: period %d: %w", p.Number, err)
	}
	return nil
}

// DeleteArchived implements [issuer.Tx].
func (t *transaction) DeleteArchived() (int, error) {
	first, err := t.begins()
	if err != nil {
		return 0, err
	}
	const gone = "SELECT id FROM record WHERE place < $1 ORDER BY place LIMIT $2"
	if _, err := t.exec("DELETE FROM told WHERE record IN ("+gone+")", first, deletedAtOnce); err != nil {
		return 0, fmt.Errorf("postgres: outcomes that were archived: %w", err)
	}
	n, err := t.exec("DELETE FROM record WHERE place IN (SELECT place FROM record WHERE place < $1 ORDER BY place LIMIT $2)", first, deletedAtOnce)
	if err != nil {
		return 0, fmt.Errorf("postgres: records that were archived: %w", err)
	}
	return int(n), nil
}
