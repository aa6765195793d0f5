package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// queryer is what a connection and a transaction have in common.
type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// reader implements [issuer.Reader] on a connection or a transaction.
type reader struct {
	ctx context.Context //nolint:containedctx // lives as long as one transaction
	db  queryer
}

// body is the stored form of a capability.
type body struct {
	issuer.Capability
	Authority json.RawMessage
}

func encode(c issuer.Capability) ([]byte, error) {
	b := body{Capability: c, Authority: c.Authority.JSON().AppendJSON(nil)}
	b.Capability.Authority = powerbox.Authority{}
	return json.Marshal(b)
}

func decode(data []byte) (issuer.Capability, error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return issuer.Capability{}, fmt.Errorf("sqlite: a stored capability is damaged: %w", err)
	}
	v, err := powerbox.ParseValue(b.Authority)
	if err != nil {
		return issuer.Capability{}, fmt.Errorf("sqlite: capability %s is damaged: %w", b.ID, err)
	}
	if b.Capability.Authority, err = powerbox.ParseAuthority(v); err != nil {
		return issuer.Capability{}, fmt.Errorf("sqlite: capability %s is damaged: %w", b.ID, err)
	}
	return b.Capability, nil
}

// PutCapability implements [issuer.Tx].
func (t *transaction) PutCapability(c issuer.Capability) error {
	data, err := encode(c)
	if err != nil {
		return err
	}
	_, err = t.db.ExecContext(t.ctx,
		"INSERT INTO capability (id, root, agent, holder, principal, grant_id, revocation_id, expires, created, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		c.ID, c.Root, c.Agent, c.Holder, c.Principal, c.Grant, c.RevocationID, c.Expires.Unix(), c.Created.UnixMilli(), data)
	if err != nil {
		return fmt.Errorf("sqlite: capability %s: %w", c.ID, err)
	}
	return nil
}

// Capability implements [issuer.Reader].
func (r reader) Capability(id string) (issuer.Capability, error) {
	return first(r.capabilities("SELECT body FROM capability WHERE id = ?", id))
}

// CapabilityByRevocation implements [issuer.Reader].
func (r reader) CapabilityByRevocation(id string) (issuer.Capability, error) {
	return first(r.capabilities("SELECT body FROM capability WHERE revocation_id = ?", id))
}

// heldBy reads only one index, and of that only the live
// part; bodies are read of the selected rows.
const heldBy = `SELECT body FROM capability WHERE rowid IN (
		SELECT rowid FROM capability
		WHERE agent = ? AND holder = ? AND principal = ? AND expires > ? AND (? = '' OR grant_id = ?)
		ORDER BY created DESC, rowid DESC LIMIT ?)
	ORDER BY created DESC, rowid DESC`

// HeldBy implements [issuer.Reader].
func (r reader) HeldBy(q issuer.HeldQuery) ([]issuer.Capability, error) {
	if q.Limit < 1 {
		return nil, errors.New("sqlite: held by: Limit must be 1 at least")
	}
	return r.capabilities(heldBy, q.Agent, q.Holder, q.Principal, q.After.Unix(), q.Grant, q.Grant, q.Limit)
}

// Live implements [issuer.Reader].
func (r reader) Live(after time.Time) iter.Seq2[issuer.Capability, error] {
	return func(yield func(issuer.Capability, error) bool) {
		for data, err := range r.rawRecords("SELECT body FROM capability WHERE expires > ? ORDER BY rowid", after.Unix()) {
			var c issuer.Capability
			if err == nil {
				c, err = decode(data)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (r reader) capabilities(query string, args ...any) ([]issuer.Capability, error) {
	var out []issuer.Capability
	for data, err := range r.rawRecords(query, args...) {
		if err != nil {
			return nil, err
		}
		c, err := decode(data)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Revoke implements [issuer.Tx].
func (t *transaction) Revoke(r issuer.Revocation) (int64, error) {
	var sequence int64
	if r.Kind == issuer.KindRevoke {
		err := t.db.QueryRowContext(t.ctx, "SELECT sequence FROM revocation WHERE target = ? AND kind = 'revoke' AND until >= ? ORDER BY sequence LIMIT 1",
			r.Target, unix(r.Until)).Scan(&sequence)
		if err == nil {
			return sequence, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return 0, fmt.Errorf("sqlite: revocation: %w", err)
		}
	}
	switch r.Kind {
	case issuer.KindRevoke, issuer.KindFreeze, issuer.KindThaw, issuer.KindExtend, issuer.KindEpoch:
	default:
		return 0, fmt.Errorf("sqlite: revocation of %q has kind %q; want revoke, freeze, thaw, extend or epoch", r.Target, r.Kind)
	}
	err := t.db.QueryRowContext(t.ctx, `INSERT INTO revocation (sequence, kind, target, by, reason, at, until)
		SELECT COALESCE(MAX(sequence), 0) + 1, ?, ?, ?, ?, ?, ? FROM revocation RETURNING sequence`,
		string(r.Kind), r.Target, r.By, r.Reason, r.At.Unix(), unix(r.Until)).Scan(&sequence)
	if err != nil {
		return 0, fmt.Errorf("sqlite: revocation: %w", err)
	}
	return sequence, nil
}

// unix is 0 for the zero time, which stands for no end.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// Revocations implements [issuer.Reader].
func (r reader) Revocations(after int64) ([]issuer.Revocation, error) {
	rows, err := r.db.QueryContext(r.ctx, "SELECT sequence, kind, target, by, reason, at, until FROM revocation WHERE sequence > ? ORDER BY sequence", after)
	if err != nil {
		return nil, fmt.Errorf("sqlite: revocations: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err below tells what matters
	var out []issuer.Revocation
	for rows.Next() {
		var one issuer.Revocation
		var at, until int64
		if err := rows.Scan(&one.Sequence, &one.Kind, &one.Target, &one.By, &one.Reason, &at, &until); err != nil {
			return nil, fmt.Errorf("sqlite: revocations: %w", err)
		}
		one.At = time.Unix(at, 0).UTC()
		if until != 0 {
			one.Until = time.Unix(until, 0).UTC()
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: revocations: %w", err)
	}
	return out, nil
}

// TaskOwner implements [issuer.Reader].
func (r reader) TaskOwner(agent, tenant, task string) (issuer.Owner, bool, error) {
	var o issuer.Owner
	err := r.db.QueryRowContext(r.ctx, "SELECT root, principal, holder FROM task WHERE agent = ? AND tenant = ? AND task = ?", agent, tenant, task).
		Scan(&o.Root, &o.Principal, &o.Holder)
	if errors.Is(err, sql.ErrNoRows) {
		return issuer.Owner{}, false, nil
	}
	if err != nil {
		return issuer.Owner{}, false, fmt.Errorf("sqlite: task owner: %w", err)
	}
	return o, true, nil
}

// BindTask implements [issuer.Tx].
func (t *transaction) BindTask(agent, tenant, task string, o issuer.Owner) (issuer.Owner, error) {
	if _, err := t.db.ExecContext(t.ctx,
		"INSERT INTO task (agent, tenant, task, root, principal, holder) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		agent, tenant, task, o.Root, o.Principal, o.Holder); err != nil {
		return issuer.Owner{}, fmt.Errorf("sqlite: task owner: %w", err)
	}
	owner, _, err := t.TaskOwner(agent, tenant, task)
	return owner, err
}

// TaskNamed implements [issuer.Reader].
func (r reader) TaskNamed(agent, tenant, task string) (bool, error) {
	var named bool
	err := r.db.QueryRowContext(r.ctx, "SELECT EXISTS (SELECT 1 FROM named_task WHERE agent = ? AND tenant = ? AND task = ?)", agent, tenant, task).Scan(&named)
	if err != nil {
		return false, fmt.Errorf("sqlite: named task: %w", err)
	}
	return named, nil
}

// NameTask implements [issuer.Tx].
func (t *transaction) NameTask(agent, tenant, task string) error {
	if _, err := t.db.ExecContext(t.ctx, "INSERT INTO named_task (agent, tenant, task) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", agent, tenant, task); err != nil {
		return fmt.Errorf("sqlite: named task: %w", err)
	}
	return nil
}

// Mode implements [issuer.Reader].
func (r reader) Mode(agent string) (string, error) {
	var mode string
	err := r.db.QueryRowContext(r.ctx, "SELECT mode FROM mode WHERE agent = ?", agent).Scan(&mode)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("sqlite: mode: %w", err)
	}
	return mode, nil
}

// SetMode implements [issuer.Tx].
func (t *transaction) SetMode(agent, mode string) error {
	_, err := t.db.ExecContext(t.ctx, "INSERT INTO mode (agent, mode) VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET mode = excluded.mode", agent, mode)
	if err != nil {
		return fmt.Errorf("sqlite: mode: %w", err)
	}
	return nil
}
