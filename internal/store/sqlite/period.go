package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// ClosePeriod implements [issuer.Tx]. A period ends in what has committed: what
// waits in this batch is of the next one.
func (t *transaction) ClosePeriod(signed []byte, at time.Time) (issuer.Period, error) {
	if err := t.enter(); err != nil {
		return issuer.Period{}, err
	}
	if signed == nil {
		c, err := readCheckpoint(t.ctx, t.raw)
		if err != nil {
			return issuer.Period{}, err
		}
		signed = c.note
	}
	return t.PutPeriod(signed, t.config.Checkpoint.(verifier), at)
}

// ArchivePeriod implements [issuer.Tx].
func (t *transaction) ArchivePeriod(p issuer.Period) error {
	if err := t.Tx.ArchivePeriod(p); err != nil {
		return err
	}
	if err := t.keepHeads(p.Size); err != nil {
		return err
	}
	t.settled = true
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
		if _, err := t.db.Exec("UPDATE chain SET sequence = ?, hash = ? WHERE agent = ? AND recorder = ?",
			head.Sequence, head.Hash[:], name.Agent, name.Recorder); err != nil {
			return fmt.Errorf("sqlite: chains before entry %d: %w", before, err)
		}
	}
	return nil
}

func (t *transaction) chains() ([]rows.Chain, error) {
	found, err := t.raw.QueryContext(t.ctx, "SELECT agent, recorder FROM chain")
	if err != nil {
		return nil, fmt.Errorf("sqlite: chains: %w", err)
	}
	defer func() { _ = found.Close() }() // Err below tells what matters
	var out []rows.Chain
	for found.Next() {
		var name rows.Chain
		if err := found.Scan(&name.Agent, &name.Recorder); err != nil {
			return nil, fmt.Errorf("sqlite: chains: %w", err)
		}
		out = append(out, name)
	}
	return out, found.Err()
}

// keptHead is the head of a chain whose last record is not here.
func (t *transaction) keptHead(name rows.Chain, id evidence.ChainID) (evidence.Head, error) {
	head := evidence.Head{ChainID: id}
	var hash []byte
	err := t.raw.QueryRowContext(t.ctx, "SELECT sequence, hash FROM chain WHERE agent = ? AND recorder = ? AND sequence >= 0", name.Agent, name.Recorder).Scan(&head.Sequence, &hash)
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(hash) != len(head.Hash) {
		return head, issuer.ErrNotFound
	}
	copy(head.Hash[:], hash)
	return head, err
}
