package postgres

import (
	"errors"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// AppendSealed implements [issuer.Tx].
func (t *transaction) AppendSealed(sealed evidence.Sealed) (next int64, err error) {
	record := sealed.Record()
	name := rows.ChainOf(record)
	head, err := t.headOfSealed(name, record.Details.ChainID)
	if err != nil {
		return 0, rows.NotWritten(err)
	}
	if next, err := rows.CheckNext(t, head, sealed); err != nil || !next {
		return head.Sequence, err
	}
	t.move(name, end{sealed.Head()})
	t.pending = append(t.pending, sealed)
	return head.Sequence + 1, nil
}

// headOfSealed is where a chain continues that its recorder seals. One
// that is new here has the id that the recorder gave it.
func (t *transaction) headOfSealed(name rows.Chain, id evidence.ChainID) (evidence.Head, error) {
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
