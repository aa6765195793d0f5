package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// What anybody may see of the log: checkpoints, hashes and leaves, no body
// (EXT-35).

// LatestCheckpoint returns the signed checkpoint of everything that is recorded;
// of the empty tree where nothing is.
func (s *Store) LatestCheckpoint(ctx context.Context) ([]byte, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	c, err := readCheckpoint(ctx, s.reads)
	if err != nil || c.size > 0 {
		return c.note, err
	}
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return evidence.SignCheckpoint(evidence.Checkpoint{Origin: s.config.Origin, Root: root}, s.config.Checkpoint)
}

// CosignedCheckpoint returns what [Store.KeepCosigned] kept last, nil for nothing.
func (s *Store) CosignedCheckpoint(ctx context.Context) ([]byte, error) {
	return readCosigned(ctx, s.reads)
}

func readCosigned(ctx context.Context, db queryer) ([]byte, error) {
	var signed []byte
	err := db.QueryRowContext(ctx, "SELECT note FROM cosigned").Scan(&signed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: cosigned checkpoint: %w", err)
	}
	return signed, nil
}

// KeepCosigned keeps a checkpoint of this log with its cosignatures, durably, in
// place of the one before. The caller has verified it.
func (s *Store) KeepCosigned(ctx context.Context, signed []byte) error {
	return s.Update(ctx, func(tx issuer.Tx) error {
		t, _ := tx.(*transaction) // what the writer hands to every change
		_, err := t.db.ExecContext(t.ctx, "INSERT OR REPLACE INTO cosigned (only, note) VALUES (0, ?)", signed)
		return err
	})
}

// Tree returns the stored tree, for one goroutine. What it reads of the tree of a
// checkpoint is the same for ever.
func (s *Store) Tree(ctx context.Context) tlog.HashReader {
	return &treeReader{reader: reader{ctx, s.reads}}
}

// Place returns the place of a record in the log; [issuer.ErrNotFound] where there
// is none of that id.
func (s *Store) Place(ctx context.Context, id string) (place int64, err error) {
	if err := s.settle(ctx); err != nil {
		return 0, err
	}
	err = s.reads.QueryRowContext(ctx, "SELECT place FROM record WHERE id = ?", id).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, issuer.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("sqlite: place of record %q: %w", id, err)
	}
	return place, nil
}

// Leaves returns the leaves of the log from one place up to, and without, another.
func (s *Store) Leaves(ctx context.Context, from, to int64) ([][]byte, error) {
	sealed, err := (reader{ctx, s.reads}).sealed("SELECT bytes FROM record WHERE place >= ? AND place < ? ORDER BY place", from, to)
	if begins, errPeriods := s.Begins(ctx); errPeriods == nil && from < begins {
		return nil, issuer.ErrNotFound // its records were archived
	}
	if err == nil && int64(len(sealed)) != to-from {
		err = fmt.Errorf("sqlite: %d records from place %d to %d", len(sealed), from, to)
	}
	var leaves [][]byte
	for _, record := range sealed {
		leaves = append(leaves, evidence.Leaf(record))
	}
	return leaves, err
}

// ExportCosigned writes the bundle of everything that the cosigned checkpoint
// covers, with its cosignatures (EXT-35, EXT-41), and with the bodies that are left
// where they are asked for.
func (s *Store) ExportCosigned(ctx context.Context, w io.Writer, keys []evidence.Key, bodies bool) error {
	signed, err := s.CosignedCheckpoint(ctx)
	if err != nil {
		return err
	}
	return s.exportUnder(ctx, w, export{keys: keys, signed: signed, bodies: bodies})
}
