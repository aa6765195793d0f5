package rows

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Periods implements [issuer.Reader].
func (r Reader) Periods() ([]issuer.Period, error) {
	return list(r, "periods", func(row Row) (p issuer.Period, err error) {
		var closed int64
		err = row.Scan(&p.Number, &p.First, &p.Size, &closed, &p.Archived, &p.Checkpoint)
		p.Closed = time.UnixMilli(closed).UTC()
		return p, err
	}, "SELECT number, first, size, closed, archived, note FROM period ORDER BY number")
}

// Begins is how many entries of the log are before the records that are here: the
// end of the last period that was archived.
func (r Reader) Begins() (first int64, err error) {
	if err = r.db.QueryRow("SELECT COALESCE(MAX(size), 0) FROM period WHERE archived = true").Scan(&first); err != nil {
		err = fmt.Errorf("store: periods: %w", err)
	}
	return first, err
}

// PutPeriod ends a period with what a signed checkpoint covers, none for a log without records.
func (t Tx) PutPeriod(signed []byte, by note.Verifier, at time.Time) (issuer.Period, error) {
	p := issuer.Period{Number: 1, Checkpoint: signed, Closed: at}
	all, err := t.Periods()
	if err != nil {
		return p, err
	}
	if n := len(all); n > 0 {
		p.Number, p.First = all[n-1].Number+1, all[n-1].Size
	}
	if len(signed) == 0 {
		return p, issuer.ErrNothingToClose
	}
	covered, err := evidence.OpenCheckpoint(signed, by)
	if err != nil {
		return p, fmt.Errorf("store: %w", err)
	}
	if p.Size = covered.Size; p.Size <= p.First {
		return p, issuer.ErrNothingToClose
	}
	return p, t.exec(fmt.Sprintf("period %d", p.Number), "INSERT INTO period (number, first, size, closed, archived, note) VALUES (?, ?, ?, ?, false, ?)",
		p.Number, p.First, p.Size, at.UnixMilli(), p.Checkpoint)
}

// ArchivePeriod implements [issuer.Tx].
func (t Tx) ArchivePeriod(p issuer.Period) error {
	var left int
	err := t.db.QueryRow("SELECT COUNT(*) FROM body WHERE place < ?", p.Size).Scan(&left)
	if err != nil {
		return fmt.Errorf("store: period %d: %w", p.Number, err)
	}
	if left > 0 {
		return issuer.ErrBodiesLeft
	}
	return t.exec(fmt.Sprintf("period %d", p.Number), "UPDATE period SET archived = true WHERE number = ?", p.Number)
}

// deletedAtOnce is how many records of an archived period are deleted in one
// transaction.
const deletedAtOnce = 2000

// DeleteArchived implements [issuer.Tx].
func (t Tx) DeleteArchived() (int, error) {
	first, err := t.Begins()
	if err != nil {
		return 0, err
	}
	const gone = "SELECT id FROM record WHERE place < ? ORDER BY place LIMIT ?"
	if err := t.exec("outcomes that were archived", "DELETE FROM told WHERE record IN ("+gone+")", first, deletedAtOnce); err != nil {
		return 0, err
	}
	n, err := t.db.Exec("DELETE FROM record WHERE place IN (SELECT place FROM record WHERE place < ? ORDER BY place LIMIT ?)", first, deletedAtOnce)
	if err != nil {
		return 0, fmt.Errorf("store: records that were archived: %w", err)
	}
	return int(n), nil
}
