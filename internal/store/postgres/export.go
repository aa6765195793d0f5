package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Empty reports whether nothing has been recorded yet.
func (s *Store) Empty(ctx context.Context) (bool, error) {
	n, err := s.Records(ctx)
	return n == 0, err
}

// Records returns how many records the log has.
func (s *Store) Records(ctx context.Context) (size int64, err error) {
	err = s.view(ctx, func(r reader) error {
		c, err := readCheckpoint(r)
		size = c.size
		return err
	})
	return size, err
}

// Export writes the bundle of everything that is recorded, as of one moment (EXT-41).
func (s *Store) Export(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	return s.exportUnder(ctx, w, export{keys: keys})
}

// ExportBodies is [Store.Export] with the bodies that are left.
func (s *Store) ExportBodies(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	return s.exportUnder(ctx, w, export{keys: keys, bodies: true})
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

// ExportPeriod writes the bundle of one period, which begins where the one before
// ends.
func (s *Store) ExportPeriod(ctx context.Context, w io.Writer, keys []evidence.Key, number int64, bodies bool) error {
	var all []issuer.Period
	err := s.view(ctx, func(r reader) (err error) {
		all, err = r.Periods()
		return err
	})
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

// export says what a bundle has.
type export struct {
	keys   []evidence.Key
	signed []byte // checkpoint that says how far it goes; the latest one where it is nil
	bodies bool   // whether bodies come with their records
	first  int64  // entries before it
}

// exportUnder writes what a signed checkpoint of the log covers.
func (s *Store) exportUnder(ctx context.Context, w io.Writer, what export) error {
	return s.view(ctx, func(r reader) error {
		// Anyone who reads may be slow, and holds nothing that others wait for.
		if _, err := r.exec("SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		c, err := readCheckpoint(r)
		if err != nil {
			return err
		}
		if c.size == 0 {
			return issuer.ErrNoEvidence
		}
		if what.signed != nil {
			covered, err := evidence.OpenCheckpoint(what.signed, s.config.Checkpoint.(verifier))
			if err != nil || covered.Size > c.size {
				return errors.Join(errors.New("postgres: the cosigned checkpoint is not one of this database"), err)
			}
			c.size, c.note = covered.Size, what.signed
		}
		begins, err := r.begins()
		if err != nil {
			return err
		}
		what.first = max(what.first, begins)
		if c.size < what.first {
			return fmt.Errorf("postgres: a checkpoint of %d entries, and the records that are here begin behind %d", c.size, what.first)
		}
		out := evidence.Export{From: what.first, Keys: what.keys, Hashes: &treeReader{reader: r}, Checkpoint: c.note}
		out.Records = r.inOrder("SELECT bytes, place FROM record WHERE place > $1 AND place < $3 ORDER BY place LIMIT $2", what.first-1, c.size)
		if what.bodies {
			r.withBodies(&out, c.size)
		}
		return evidence.WriteBundle(w, out)
	})
}

// withBodies yields the records, and makes the body of the last one known.
func (r reader) withBodies(e *evidence.Export, size int64) {
	var last *evidence.Body
	e.Body = func() *evidence.Body { return last }
	e.Records = func(yield func([]byte, error) bool) {
		rows, err := r.query("SELECT record.bytes, body.key, body.bytes FROM record LEFT JOIN body ON body.place = record.place WHERE record.place >= $1 AND record.place < $2 ORDER BY record.place", e.From, size)
		if err != nil {
			yield(nil, fmt.Errorf("postgres: records: %w", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var record, key, bytes []byte
			if err := rows.Scan(&record, &key, &bytes); err != nil {
				yield(nil, fmt.Errorf("postgres: records: %w", err))
				return
			}
			if last = nil; key != nil {
				last = &evidence.Body{Key: key, Bytes: bytes}
			}
			if !yield(record, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("postgres: records: %w", err))
		}
	}
}
