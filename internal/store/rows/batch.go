package rows

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// What both writers do with records before they are rows.

// Chain names a chain: there is one for an agent and a recorder.
type Chain struct{ Agent, Recorder string }

// ChainOf is the chain of a record.
func ChainOf(record evidence.Record) Chain { return Chain{record.AgentID, record.Details.Recorder} }

// Begun reports whether a chain has a row.
func (r Reader) Begun(c Chain) (bool, error) {
	all, err := r.Chains(c.Agent)
	return slices.ContainsFunc(all, func(one evidence.ListedChain) bool { return one.Recorder == c.Recorder }), err
}

// NotWritten is the failure of a store to keep a record.
func NotWritten(err error) error {
	return fmt.Errorf("store: %w: %w", evidence.ErrNotWritten, err)
}

// Seal seals a record at the head of its chain, to be signed with its batch. In batches, only the
// last record of a chain is.
func Seal(head evidence.Head, record evidence.Record, signer evidence.Signer, batches bool) (evidence.Sealed, error) {
	seal := evidence.SealToSign
	if batches {
		seal = evidence.SealCovered
	}
	sealed, err := seal(head, record, signer)
	if err != nil {
		return evidence.Sealed{}, NotWritten(err)
	}
	return sealed, nil
}

// Find returns the record of an id that waits, or is in the log.
func Find(id string, waiting []evidence.Sealed, log Reader) (evidence.Sealed, bool, error) {
	for _, w := range waiting {
		if w.Record().ID == id {
			return w, true, nil
		}
	}
	stored, err := log.Record(id)
	if errors.Is(err, issuer.ErrNotFound) {
		return evidence.Sealed{}, false, nil
	}
	return stored, err == nil, err
}

// CheckNext reports whether a record that its recorder has sealed goes to the head of its chain.
// It does not where it is there already, byte for byte. Every other record is refused.
func CheckNext(t issuer.OutcomeReader, head evidence.Head, sealed evidence.Sealed) (bool, error) {
	record := sealed.Record()
	d := record.Details
	switch {
	case d.ChainID != head.ChainID:
		return false, fmt.Errorf("%w: it is of chain %s; want %s", issuer.ErrNotNext, d.ChainID, head.ChainID)
	case d.Sequence > head.Sequence:
		return false, fmt.Errorf("%w: record %d, where record %d comes next", issuer.ErrGap, d.Sequence, head.Sequence)
	case d.Sequence < head.Sequence:
		return false, sameAs(t, sealed)
	case sealed.Prev() != head.Hash:
		return false, fmt.Errorf("%w: record %d does not follow the one before it", issuer.ErrNotNext, d.Sequence)
	}
	if _, used, err := t.Logged(record.ID); used || err != nil {
		// It would keep the whole batch from being written, and others' records
		// are in it.
		return false, errors.Join(err, fmt.Errorf("%w: its id %q is that of another record", issuer.ErrNotNext, record.ID))
	}
	if err := issuer.CheckOutcome(t, record); err != nil {
		return false, err
	}
	return true, nil
}

// sameAs compares a record that comes again with the one that is stored: two
// for one place are a fork, regardless of their signer.
func sameAs(t issuer.OutcomeReader, sealed evidence.Sealed) error {
	stored, ok, err := t.Logged(sealed.Record().ID)
	if err != nil {
		return NotWritten(err)
	}
	if !ok || !bytes.Equal(stored.Bytes(), sealed.Bytes()) {
		return fmt.Errorf("%w: record %d is another one than the one that is stored: the chain is forked", issuer.ErrNotNext, sealed.Record().Details.Sequence)
	}
	return nil
}

// Sign makes the signatures that records need, in their place, at once on every processor: in a
// commit they take most of the time beside the disk.
func Sign(records []evidence.Sealed, signer evidence.Signer) error {
	due := unsigned(records)
	workers := max(1, min(runtime.GOMAXPROCS(0), len(due)/signaturesAWorker))
	part := func(w int) error {
		for n := w; n < len(due); n += workers {
			var err error
			if records[due[n]], err = records[due[n]].Sign(signer); err != nil {
				return err
			}
		}
		return nil
	}
	var group errgroup.Group
	for w := range workers - 1 {
		group.Go(func() error { return part(w + 1) })
	}
	return errors.Join(part(0), group.Wait())
}

// signaturesAWorker is the number of signatures for which it is worth while to
// wake another processor.
const signaturesAWorker = 4

// unsigned returns the places of the records that need a signature: of those
// that are covered, the last of each chain.
func unsigned(records []evidence.Sealed) (due []int) {
	signed := map[Chain]bool{}
	for i, s := range slices.Backward(records) {
		switch name := ChainOf(s.Record()); {
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

// HashRow is the row of the tree that has the hashes that a batch adds.
func HashRow(grown []tlog.Hash) []byte {
	row := make([]byte, 0, len(grown)*tlog.HashSize)
	for _, hash := range grown {
		row = append(row, hash[:]...)
	}
	return row
}

// Edge returns the hashes of the right edge of a tree that a batch has grown from before to size
// entries. known are those of its edge before.
func Edge(before, size int64, grown []tlog.Hash, known map[int64]tlog.Hash) map[int64]tlog.Hash {
	first, edge := tlog.StoredHashCount(before), map[int64]tlog.Hash{}
	for _, index := range evidence.Edge(size) {
		if index >= first {
			edge[index] = grown[index-first]
		} else if hash, ok := known[index]; ok {
			edge[index] = hash
		}
	}
	return edge
}
