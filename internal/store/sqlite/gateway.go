package sqlite

import (
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// AppendSealed implements [issuer.Tx].
func (t *transaction) AppendSealed(sealed evidence.Sealed) (next int64, err error) {
	record := sealed.Record()
	name := rows.ChainOf(record)
	if err := t.enter(); err != nil {
		return 0, rows.NotWritten(err)
	}
	head, err := t.headOfSealed(name, record.Details.ChainID)
	if err != nil {
		return 0, rows.NotWritten(err)
	}
	if next, err := rows.CheckNext(t, head, sealed); err != nil || !next {
		return head.Sequence, err
	}
	t.move(name, end{sealed.Head(), t.place()})
	t.pending = append(t.pending, sealed)
	return head.Sequence + 1, nil
}

// headOfSealed is where a chain continues that its recorder seals. One
// that is new here has the id that the recorder gave it.
func (t *transaction) headOfSealed(name rows.Chain, id evidence.ChainID) (evidence.Head, error) {
	if err := t.loadTail(); err != nil {
		return evidence.Head{}, err
	}
	_, known := t.ends[name]
	if _, before := t.tail.ends[name]; !known && !before {
		_, err := t.db.Exec("INSERT INTO chain (agent, recorder, chain, last) VALUES (?, ?, ?, -1) ON CONFLICT (agent, recorder) DO NOTHING",
			name.Agent, name.Recorder, id[:])
		if err != nil {
			return evidence.Head{}, err
		}
	}
	return t.head(name)
}

// Logged implements [issuer.OutcomeReader].
func (t *transaction) Logged(id string) (evidence.Sealed, bool, error) {
	return rows.Find(id, t.pending, t.stored())
}
