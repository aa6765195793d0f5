package rows

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Log shows what a store has recorded: checkpoints, leaves and bundles (EXT-35, EXT-41).
type Log struct {
	from   Snapshots
	latest string // query of size and note of the latest checkpoint
	signer note.Signer
}

// Snapshots are the states that a log is read from. Each has every record that was acknowledged
// before.
type Snapshots interface {
	// Brief runs read, which is soon done.
	Brief(ctx context.Context, read func(Reader) error) error
	// Long runs read for a reader that may be slow. No call waits for it.
	Long(ctx context.Context, read func(Reader) error) error
}

// NewLog returns the log of a store. latest is the query of the size and the note of its latest
// checkpoint, and signer has signed that.
func NewLog(from Snapshots, latest string, signer note.Signer) Log { return Log{from, latest, signer} }

// Checkpoint is the latest one of a log.
type Checkpoint struct {
	Size int64
	Note []byte // signed
}

// checkpoint returns the latest one as of a snapshot, the zero value for a log without records.
func (l Log) checkpoint(r Reader) (c Checkpoint, err error) {
	err = r.db.QueryRow(l.latest).Scan(&c.Size, &c.Note)
	if errors.Is(err, ErrNone) {
		return Checkpoint{}, nil
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("store: checkpoint: %w", err)
	}
	return c, nil
}

// verifier is what a checkpoint signer is as well.
func (l Log) verifier() note.Verifier {
	v, _ := l.signer.(note.Verifier)
	return v
}

// CheckKey refuses a log whose checkpoint was not signed by the configured key, so that evidence
// is never continued under a key that cannot have signed it.
func (l Log) CheckKey(r Reader) error {
	c, err := l.checkpoint(r)
	if err != nil || c.Size == 0 {
		return err
	}
	opened, err := note.Open(c.Note, note.VerifierList(l.verifier()))
	if err != nil || len(opened.Sigs) == 0 {
		return issuer.OtherLog(l.signer.Name(), c.Note)
	}
	return nil
}

// Empty reports whether nothing has been recorded yet.
func (l Log) Empty(ctx context.Context) (bool, error) {
	n, err := l.Records(ctx)
	return n == 0, err
}

// Records returns how many records the log has.
func (l Log) Records(ctx context.Context) (size int64, err error) {
	err = l.from.Brief(ctx, func(r Reader) error {
		c, err := l.checkpoint(r)
		size = c.Size
		return err
	})
	return size, err
}

// Begins returns how many entries of the log are before the records that are here.
func (l Log) Begins(ctx context.Context) (first int64, err error) {
	err = l.from.Brief(ctx, func(r Reader) (err error) {
		first, err = r.Begins()
		return err
	})
	return first, err
}

// LatestCheckpoint returns the signed checkpoint of everything that is recorded;
// of the empty tree where nothing is.
func (l Log) LatestCheckpoint(ctx context.Context) ([]byte, error) {
	var c Checkpoint
	err := l.from.Brief(ctx, func(r Reader) (err error) {
		c, err = l.checkpoint(r)
		return err
	})
	if err != nil || c.Size > 0 {
		return c.Note, err
	}
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return evidence.SignCheckpoint(evidence.Checkpoint{Origin: l.signer.Name(), Root: root}, l.signer)
}

// CosignedCheckpoint returns what KeepCosigned kept last, nil for nothing.
func (l Log) CosignedCheckpoint(ctx context.Context) (signed []byte, err error) {
	err = l.from.Brief(ctx, func(r Reader) error {
		err := r.db.QueryRow("SELECT note FROM cosigned").Scan(&signed)
		if err != nil && !errors.Is(err, ErrNone) {
			return fmt.Errorf("store: cosigned checkpoint: %w", err)
		}
		return nil
	})
	return signed, err
}

// Place returns the place of a record in the log; [issuer.ErrNotFound] where there
// is none of that id.
func (l Log) Place(ctx context.Context, id string) (place int64, err error) {
	err = l.from.Brief(ctx, func(r Reader) error {
		err := r.db.QueryRow("SELECT place FROM record WHERE id = ?", id).Scan(&place)
		if errors.Is(err, ErrNone) {
			return issuer.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("store: place of record %q: %w", id, err)
		}
		return nil
	})
	return place, err
}

// Leaves returns the leaves of the log from one place up to, and without, another.
func (l Log) Leaves(ctx context.Context, from, to int64) (leaves [][]byte, err error) {
	err = l.from.Brief(ctx, func(r Reader) error {
		begins, err := r.Begins()
		if err != nil {
			return err
		}
		if from < begins {
			return issuer.ErrNotFound // its records were archived
		}
		sealed, err := r.sealed("SELECT bytes FROM record WHERE place >= ? AND place < ? ORDER BY place", from, to)
		if err == nil && int64(len(sealed)) != to-from {
			err = fmt.Errorf("store: %d records from place %d to %d", len(sealed), from, to)
		}
		for _, record := range sealed {
			leaves = append(leaves, evidence.Leaf(record))
		}
		return err
	})
	return leaves, err
}

// followed is how many records are read at once by who follows the log.
const followed = 1 << 10

// From returns the records of the log from a place on, in its order and not too
// many; none at its end.
func (l Log) From(ctx context.Context, place int64) (out []evidence.Sealed, err error) {
	err = l.from.Brief(ctx, func(r Reader) (err error) {
		out, err = r.sealed("SELECT bytes FROM record WHERE place >= ? ORDER BY place LIMIT ?", place, followed)
		return err
	})
	return out, err
}

// Export writes the bundle of everything that is recorded, as of one moment (EXT-41).
func (l Log) Export(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	return l.export(ctx, w, export{keys: keys})
}

// ExportBodies is [Log.Export] with the bodies that are left.
func (l Log) ExportBodies(ctx context.Context, w io.Writer, keys []evidence.Key) error {
	return l.export(ctx, w, export{keys: keys, bodies: true})
}

// ExportCosigned writes the bundle of everything that the cosigned checkpoint
// covers, with its cosignatures (EXT-35, EXT-41), and with the bodies that are left
// where they are asked for.
func (l Log) ExportCosigned(ctx context.Context, w io.Writer, keys []evidence.Key, bodies bool) error {
	signed, err := l.CosignedCheckpoint(ctx)
	if err != nil {
		return err
	}
	return l.export(ctx, w, export{keys: keys, signed: signed, bodies: bodies})
}

// ExportPeriod writes the bundle of one period, which begins where the one before
// ends.
func (l Log) ExportPeriod(ctx context.Context, w io.Writer, keys []evidence.Key, number int64, bodies bool) error {
	var all []issuer.Period
	err := l.from.Brief(ctx, func(r Reader) (err error) {
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
		return l.export(ctx, w, export{keys: keys, signed: p.Checkpoint, first: p.First, bodies: bodies})
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

// export writes what a signed checkpoint of the log covers.
func (l Log) export(ctx context.Context, w io.Writer, what export) error {
	return l.from.Long(ctx, func(r Reader) error {
		c, err := l.checkpoint(r)
		if err != nil {
			return err
		}
		if c.Size == 0 {
			return issuer.ErrNoEvidence
		}
		if what.signed != nil {
			covered, err := evidence.OpenCheckpoint(what.signed, l.verifier())
			if err != nil || covered.Size > c.Size {
				return errors.Join(errors.New("store: the cosigned checkpoint is not one of this log"), err)
			}
			c.Size, c.Note = covered.Size, what.signed
		}
		begins, err := r.Begins()
		if err != nil {
			return err
		}
		what.first = max(what.first, begins)
		if c.Size < what.first {
			return fmt.Errorf("store: a checkpoint of %d entries, and the records that are here begin behind %d", c.Size, what.first)
		}
		out := evidence.Export{From: what.first, Keys: what.keys, Hashes: NewTree(r, nil), Checkpoint: c.Note}
		out.Records = r.inOrder("SELECT bytes, place FROM record WHERE place > ? AND place < ? ORDER BY place LIMIT ?", what.first-1, c.Size)
		if what.bodies {
			r.withBodies(&out, c.Size)
		}
		return evidence.WriteBundle(w, out)
	})
}

// withBodies yields the records, and makes the body of the last one known.
func (r Reader) withBodies(e *evidence.Export, size int64) {
	var last *evidence.Body
	e.Body = func() *evidence.Body { return last }
	e.Records = func(yield func([]byte, error) bool) {
		found, err := r.db.Query("SELECT record.bytes, body.key, body.bytes FROM record LEFT JOIN body ON body.place = record.place WHERE record.place >= ? AND record.place < ? ORDER BY record.place", e.From, size)
		if err != nil {
			yield(nil, fmt.Errorf("store: records: %w", err))
			return
		}
		defer found.Close()
		for found.Next() {
			var record, key, bytes []byte
			if err := found.Scan(&record, &key, &bytes); err != nil {
				yield(nil, fmt.Errorf("store: records: %w", err))
				return
			}
			if last = nil; key != nil {
				last = &evidence.Body{Key: key, Bytes: bytes}
			}
			if !yield(record, nil) {
				return
			}
		}
		if err := found.Err(); err != nil {
			yield(nil, fmt.Errorf("store: records: %w", err))
		}
	}
}

// CheckTree computes the root of the stored tree anew and compares it with the signed
// checkpoint, and with what the stored records say.
func (l Log) CheckTree(ctx context.Context) error {
	return l.from.Long(ctx, func(r Reader) error {
		c, err := l.checkpoint(r)
		if err != nil || c.Size == 0 {
			return err
		}
		signed, err := evidence.OpenCheckpoint(c.Note, l.verifier())
		if err != nil {
			return fmt.Errorf("store: checkpoint: %w", err)
		}
		tree := NewTree(r, nil)
		root, err := tlog.TreeHash(c.Size, tree)
		if err != nil {
			return fmt.Errorf("store: tree: %w", err)
		}
		if root != signed.Root || signed.Size != c.Size {
			return errors.New("store: the tree has another root than the signed checkpoint")
		}
		return r.checkLeaves(tree, c.Size)
	})
}

// checkLeaves compares the records that are here with the leaves of their tree.
func (r Reader) checkLeaves(tree *Tree, size int64) error {
	place, err := r.Begins()
	if err != nil {
		return err
	}
	for b, err := range r.inOrder("SELECT bytes, place FROM record WHERE place > ? ORDER BY place LIMIT ?", place-1) {
		if err != nil {
			return err
		}
		sealed, err := evidence.ParseSealed(b)
		if err != nil {
			return fmt.Errorf("store: record %d: %w", place, err)
		}
		leaf, err := tree.hash(tlog.StoredHashIndex(0, place))
		if err != nil || leaf != tlog.RecordHash(evidence.Leaf(sealed)) {
			return errors.Join(fmt.Errorf("store: record %d is not the one of the tree", place), err)
		}
		place++
	}
	if place != size {
		return fmt.Errorf("%w: records end at place %d, and the checkpoint at %d", issuer.ErrGap, place, size)
	}
	return nil
}
