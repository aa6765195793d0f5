package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutGatewayToken implements [issuer.Tx].
func (t *transaction) PutGatewayToken(hash [32]byte, agent string, expires time.Time) error {
	_, err := t.db.ExecContext(t.ctx, "INSERT INTO gateway_token (hash, agent, expires, used) VALUES (?, ?, ?, 0)", hash[:], agent, expires.Unix())
	if err != nil {
		return fmt.Errorf("sqlite: gateway token: %w", err)
	}
	return nil
}

// UseGatewayToken implements [issuer.Tx].
func (t *transaction) UseGatewayToken(hash [32]byte, now time.Time) (string, error) {
	var agent string
	err := t.db.QueryRowContext(t.ctx, "UPDATE gateway_token SET used = ? WHERE hash = ? AND used = 0 AND expires > ? RETURNING agent",
		now.Unix(), hash[:], now.Unix()).Scan(&agent)
	if errors.Is(err, sql.ErrNoRows) {
		return "", issuer.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("sqlite: gateway token: %w", err)
	}
	return agent, nil
}

// PutGateway implements [issuer.Tx].
func (t *transaction) PutGateway(g issuer.Gateway) error {
	body, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = t.db.ExecContext(t.ctx, `INSERT INTO gateway (id, agent, body, enrolled, closed) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET body = excluded.body, closed = excluded.closed`,
		g.ID, g.Agent, body, g.Enrolled.Unix(), unix(g.Closed))
	if err != nil {
		return fmt.Errorf("sqlite: gateway %s: %w", g.ID, err)
	}
	return nil
}

// Gateways implements [issuer.Reader].
func (r reader) Gateways() ([]issuer.Gateway, error) {
	out := []issuer.Gateway{}
	for body, err := range r.rawRecords("SELECT body FROM gateway ORDER BY enrolled, id") {
		if err != nil {
			return nil, err
		}
		var g issuer.Gateway
		if err := json.Unmarshal(body, &g); err != nil {
			return nil, fmt.Errorf("sqlite: a stored gateway is damaged: %w", err)
		}
		out = append(out, g)
	}
	return out, nil
}

// AppendSealed implements [issuer.Tx].
func (t *transaction) AppendSealed(sealed evidence.Sealed) (next int64, err error) {
	record := sealed.Record()
	name, d := chainKey(record), record.Details
	if err := t.enter(); err != nil {
		return 0, notWritten(err)
	}
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
	t.move(name, end{sealed.Head(), t.place()})
	t.pending = append(t.pending, sealed)
	return head.Sequence + 1, nil
}

// headOfSealed is where a chain continues that its recorder seals. One
// that is new here has the id that the recorder gave it.
func (t *transaction) headOfSealed(name chainName, id evidence.ChainID) (evidence.Head, error) {
	if err := t.loadTail(); err != nil {
		return evidence.Head{}, err
	}
	_, known := t.ends[name]
	if _, before := t.tail.ends[name]; !known && !before {
		_, err := t.db.ExecContext(t.ctx, "INSERT INTO chain (agent, recorder, chain, last) VALUES (?, ?, ?, -1) ON CONFLICT (agent, recorder) DO NOTHING",
			name.agent, name.recorder, id[:])
		if err != nil {
			return evidence.Head{}, err
		}
	}
	return t.head(name)
}

// ofID returns the record of an id that is in the log, or waits in this batch.
func (t *transaction) ofID(id string) (evidence.Sealed, bool, error) {
	for _, p := range t.pending {
		if p.Record().ID == id {
			return p, true, nil
		}
	}
	stored, err := (reader{t.ctx, t.raw}).Record(id)
	if errors.Is(err, issuer.ErrNotFound) {
		return evidence.Sealed{}, false, nil
	}
	return stored, err == nil, err
}

// sameAs compares a record that comes again with the one that is stored: two
// for one place are a fork, regardless of who signed them.
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

// FirstTold implements [issuer.Told].
func (t *transaction) FirstTold(chain evidence.ChainID, decision, record string) (first string, err error) {
	_, err = t.db.ExecContext(t.ctx, "INSERT INTO told (chain, decision, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", chain[:], decision, record)
	if err == nil {
		err = t.db.QueryRowContext(t.ctx, "SELECT record FROM told WHERE chain = ? AND decision = ?", chain[:], decision).Scan(&first)
	}
	if err != nil {
		return "", fmt.Errorf("sqlite: outcomes: %w", err)
	}
	return first, nil
}
