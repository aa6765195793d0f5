package postgres

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// AppendSealed implements [issuer.Tx].
func (t *transaction) AppendSealed(sealed evidence.Sealed) (next int64, err error) {
	record := sealed.Record()
	name, d := chainKey(record), record.Details
	head, err := t.headOfSealed(name, d.ChainID)
	if err != nil {
		return 0, notWritten(err)
	}
	switch {
	case d.ChainID != head.ChainID:
		return head.Sequence, fmt.Errorf("%w: it is of chain %s; want %s", issuer.ErrNotNext, d.ChainID, head.ChainID)
	case d.Sequence > head.Sequence:
		return head.Sequence, fmt.Errorf("%w: record %d, where record %d comes next", issuer.ErrGap, d.Sequence, head.Sequence)
	case d.Sequence < head.Sequence:
		return head.Sequence, t.sameAs(sealed)
	case sealed.Prev() != head.Hash:
		return head.Sequence, fmt.Errorf("%w: record %d does not follow the one before it", issuer.ErrNotNext, d.Sequence)
	}
	if _, used, err := t.ofID(record.ID); used || err != nil {
		// It would keep the whole batch from being written, and others' records
		// are in it.
		return head.Sequence, errors.Join(err, fmt.Errorf("%w: its id %q is that of another record", issuer.ErrNotNext, record.ID))
	}
	if err := issuer.CheckOutcome(t, record); err != nil {
		return head.Sequence, err
	}
	t.move(name, end{sealed.Head()})
	t.pending = append(t.pending, sealed)
	return head.Sequence + 1, nil
}

// headOfSealed is where a chain goes on that its recorder seals by itself. One
// that is new here has the id that the recorder gave it.
func (t *transaction) headOfSealed(name chainName, id evidence.ChainID) (evidence.Head, error) {
	_, moved := t.ends[name]
	_, known := t.tail.ends[name]
	if moved || known {
		return t.headOf(name)
	}
	head, err := t.storedHead(name)
	if errors.Is(err, rows.ErrNone) {
		return evidence.Genesis(id), t.found(name, id)
	}
	return head, err
}

// sameAs compares a record that comes again with the one that is stored: two
// for one place are a fork, whoever signed them.
func (t *transaction) sameAs(sealed evidence.Sealed) error {
	stored, ok, err := t.ofID(sealed.Record().ID)
	if err != nil {
		return notWritten(err)
	}
	if !ok || !bytes.Equal(stored.Bytes(), sealed.Bytes()) {
		return fmt.Errorf("%w: record %d is another one than the one that is stored: the chain is forked", issuer.ErrNotNext, sealed.Record().Details.Sequence)
	}
	return nil
}

// Logged implements [issuer.Told].
func (t *transaction) Logged(id string) (evidence.Sealed, bool, error) { return t.ofID(id) }
