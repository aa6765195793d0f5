package postgres

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// What anybody may see of the log: checkpoints, hashes and leaves, no body
// (EXT-35).

// LatestCheckpoint returns the signed checkpoint of everything that is recorded;
// of the empty tree where nothing is.
func (s *Store) LatestCheckpoint(ctx context.Context) ([]byte, error) {
	var c checkpoint
	err := s.view(ctx, func(r reader) (err error) {
		c, err = readCheckpoint(r)
		return err
	})
	if err != nil || c.size > 0 {
		return c.note, err
	}
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return evidence.SignCheckpoint(evidence.Checkpoint{Origin: s.config.Origin, Root: root}, s.config.Checkpoint)
}

// CosignedCheckpoint returns what [Store.KeepCosigned] kept last, nil for nothing.
func (s *Store) CosignedCheckpoint(ctx context.Context) (signed []byte, err error) {
	err = s.view(ctx, func(r reader) error {
		err := r.row("SELECT note FROM cosigned WHERE only_row = 0").Scan(&signed)
		if err != nil && !noRows(err) {
			return fmt.Errorf("postgres: cosigned checkpoint: %w", err)
		}
		return nil
	})
	return signed, err
}

// KeepCosigned keeps a checkpoint of this log with its cosignatures, durably, in
// place of the one before. The caller has verified it. One that another node kept,
// of a longer log, stays.
func (s *Store) KeepCosigned(ctx context.Context, signed []byte) error {
	covered, err := evidence.OpenCheckpoint(signed, s.config.Checkpoint.(verifier))
	if err != nil {
		return fmt.Errorf("postgres: cosigned checkpoint: %w", err)
	}
	return s.Update(ctx, func(tx issuer.Tx) error {
		t, _ := tx.(*transaction) // what the writer hands to every change
		_, err := t.exec(`INSERT INTO cosigned (only_row, size, note) VALUES (0, $1, $2)
			ON CONFLICT (only_row) DO UPDATE SET size = excluded.size, note = excluded.note WHERE cosigned.size <= excluded.size`, covered.Size, signed)
		return err
	})
}

// Tree returns the stored tree, for one goroutine. What it reads of the tree of a
// checkpoint is the same for ever.
func (s *Store) Tree(ctx context.Context) tlog.HashReader {
	return &treeReader{reader: reader{ctx, s.pool}}
}

// Place returns the place of a record in the log; [issuer.ErrNotFound] where there
// is none of that id.
func (s *Store) Place(ctx context.Context, id string) (place int64, err error) {
	err = s.view(ctx, func(r reader) error {
		err := r.row("SELECT place FROM record WHERE id = $1", id).Scan(&place)
		if noRows(err) {
			return issuer.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("postgres: place of record %q: %w", id, err)
		}
		return nil
	})
	return place, err
}

// Leaves returns the leaves of the log from one place up to, and without, another.
func (s *Store) Leaves(ctx context.Context, from, to int64) (leaves [][]byte, err error) {
	err = s.view(ctx, func(r reader) error {
		begins, err := r.begins()
		if err != nil {
			return err
		}
		if from < begins {
			return issuer.ErrNotFound // its records were archived
		}
		sealed, err := r.sealed("SELECT bytes FROM record WHERE place >= $1 AND place < $2 ORDER BY place", from, to)
		if err == nil && int64(len(sealed)) != to-from {
			err = fmt.Errorf("postgres: %d records from place %d to %d", len(sealed), from, to)
		}
		for _, record := range sealed {
			leaves = append(leaves, evidence.Leaf(record))
		}
		return err
	})
	return leaves, err
}
