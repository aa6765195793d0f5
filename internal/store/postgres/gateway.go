package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PutGatewayToken implements [issuer.Tx].
func (t *transaction) PutGatewayToken(hash [32]byte, agent string, expires time.Time) error {
	_, err := t.exec("INSERT INTO gateway_token (hash, agent, expires, used) VALUES ($1, $2, $3, 0)", hash[:], agent, expires.Unix())
	if err != nil {
		return fmt.Errorf("postgres: gateway token: %w", err)
	}
	return nil
}

// UseGatewayToken implements [issuer.Tx].
func (t *transaction) UseGatewayToken(hash [32]byte, now time.Time) (string, error) {
	var agent string
	err := t.row("UPDATE gateway_token SET used = $1 WHERE hash = $2 AND used = 0 AND expires > $1 RETURNING agent",
		now.Unix(), hash[:]).Scan(&agent)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", issuer.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("postgres: gateway token: %w", err)
	}
	return agent, nil
}

// PutGateway implements [issuer.Tx].
func (t *transaction) PutGateway(g issuer.Gateway) error {
	t.versions.Gateways++
	body, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO gateway (id, agent, body, enrolled, closed) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET body = excluded.body, closed = excluded.closed`,
		g.ID, g.Agent, body, g.Enrolled.Unix(), unix(g.Closed))
	if err != nil {
		return fmt.Errorf("postgres: gateway %s: %w", g.ID, err)
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
			return nil, fmt.Errorf("postgres: a stored gateway is damaged: %w", err)
		}
		out = append(out, g)
	}
	return out, nil
}

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

// headOfSealed is where a chain continues that its recorder seals. One
// that is new here has the id that the recorder gave it.
func (t *transaction) headOfSealed(name chainName, id evidence.ChainID) (evidence.Head, error) {
	_, moved := t.ends[name]
	_, known := t.tail.ends[name]
	if moved || known {
		return t.headOf(name)
	}
	head, err := t.storedHead(name)
	if noRows(err) {
		return evidence.Genesis(id), t.found(name, id)
	}
	return head, err
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
func (t *transaction) FirstTold(chain evidence.ChainID, decision, record string) (string, error) {
	var first []byte
	_, err := t.exec("INSERT INTO told (chain, decision, record) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", chain[:], []byte(decision), []byte(record))
	if err == nil {
		err = t.row("SELECT record FROM told WHERE chain = $1 AND decision = $2", chain[:], []byte(decision)).Scan(&first)
	}
	if err != nil {
		return "", fmt.Errorf("postgres: outcomes: %w", err)
	}
	return string(first), nil
}
