package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

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
		return issuer.Capability{}, fmt.Errorf("postgres: a stored capability is damaged: %w", err)
	}
	v, err := powerbox.ParseValue(b.Authority)
	if err != nil {
		return issuer.Capability{}, fmt.Errorf("postgres: capability %s is damaged: %w", b.ID, err)
	}
	if b.Capability.Authority, err = powerbox.ParseAuthority(v); err != nil {
		return issuer.Capability{}, fmt.Errorf("postgres: capability %s is damaged: %w", b.ID, err)
	}
	return b.Capability, nil
}

// PutCapability implements [issuer.Tx].
func (t *transaction) PutCapability(c issuer.Capability) error {
	data, err := encode(c)
	if err != nil {
		return err
	}
	_, err = t.exec(
		"INSERT INTO capability (id, root, agent, holder, principal, grant_id, revocation_id, expires, created, made, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
		c.ID, c.Root, c.Agent, c.Holder, c.Principal, c.Grant, c.RevocationID, c.Expires.Unix(), c.Created.UnixMilli(), t.next(), data)
	if err != nil {
		return fmt.Errorf("postgres: capability %s: %w", c.ID, err)
	}
	return nil
}

// Capability implements [issuer.Reader].
func (r reader) Capability(id string) (issuer.Capability, error) {
	return first(r.capabilities("SELECT body FROM capability WHERE id = $1", id))
}

// CapabilityByRevocation implements [issuer.Reader].
func (r reader) CapabilityByRevocation(id string) (issuer.Capability, error) {
	return first(r.capabilities("SELECT body FROM capability WHERE revocation_id = $1", id))
}

// heldBy reads only one index, and of that only the live
// part; bodies are read of the selected rows.
const heldBy = `SELECT body FROM capability WHERE made IN (
		SELECT made FROM capability
		WHERE agent = $1 AND holder = $2 AND principal = $3 AND expires > $4 AND ($5::bytea = '' OR grant_id = $5::bytea)
		ORDER BY created DESC, made DESC LIMIT $6)
	ORDER BY created DESC, made DESC`

// HeldBy implements [issuer.Reader].
func (r reader) HeldBy(q issuer.HeldQuery) ([]issuer.Capability, error) {
	if q.Limit < 1 {
		return nil, errors.New("postgres: held by: Limit must be 1 at least")
	}
	return r.capabilities(heldBy, q.Agent, q.Holder, q.Principal, q.After.Unix(), q.Grant, q.Limit)
}

// Live implements [issuer.Reader].
func (r reader) Live(after time.Time) iter.Seq2[issuer.Capability, error] {
	return func(yield func(issuer.Capability, error) bool) {
		for data, err := range r.inOrder("SELECT body, made FROM capability WHERE made > $1 AND expires > $3 ORDER BY made LIMIT $2", 0, after.Unix()) {
			var c issuer.Capability
			if err != nil {
				err = fmt.Errorf("postgres: capabilities: %w", err)
			} else {
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
		err := t.row("SELECT sequence FROM revocation WHERE target = $1 AND kind = 'revoke' AND until >= $2 ORDER BY sequence LIMIT 1",
			r.Target, unix(r.Until)).Scan(&sequence)
		if err == nil {
			return sequence, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return 0, fmt.Errorf("postgres: revocation: %w", err)
		}
	}
	switch r.Kind {
	case issuer.KindRevoke, issuer.KindFreeze, issuer.KindThaw, issuer.KindExtend, issuer.KindEpoch:
	default:
		return 0, fmt.Errorf("postgres: revocation of %q has kind %q; want revoke, freeze, thaw, extend or epoch", r.Target, r.Kind)
	}
	_, err := t.exec("INSERT INTO revocation (sequence, kind, target, by_whom, reason, at, until) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		t.versions.Stops+1, string(r.Kind), r.Target, r.By, r.Reason, r.At.Unix(), unix(r.Until))
	if err != nil {
		return 0, fmt.Errorf("postgres: revocation: %w", err)
	}
	t.versions.Stops++
	return t.versions.Stops, nil
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
	rows, err := r.query("SELECT sequence, kind, target, by_whom, reason, at, until FROM revocation WHERE sequence > $1 ORDER BY sequence", after)
	if err != nil {
		return nil, fmt.Errorf("postgres: revocations: %w", err)
	}
	defer rows.Close()
	var out []issuer.Revocation
	for rows.Next() {
		var one issuer.Revocation
		var at, until int64
		var kind string
		if err := rows.Scan(&one.Sequence, &kind, &one.Target, &one.By, &one.Reason, &at, &until); err != nil {
			return nil, fmt.Errorf("postgres: revocations: %w", err)
		}
		one.Kind, one.At = issuer.Kind(kind), time.Unix(at, 0).UTC()
		if until != 0 {
			one.Until = time.Unix(until, 0).UTC()
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("postgres: revocations: %w", err)
	}
	return out, nil
}

// TaskOwner implements [issuer.Reader].
func (r reader) TaskOwner(agent, tenant, task string) (issuer.Owner, bool, error) {
	var o issuer.Owner
	err := r.row("SELECT root, principal, holder FROM task WHERE agent = $1 AND tenant = $2 AND task = $3", agent, tenant, task).
		Scan(&o.Root, &o.Principal, &o.Holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return issuer.Owner{}, false, nil
	}
	if err != nil {
		return issuer.Owner{}, false, fmt.Errorf("postgres: task owner: %w", err)
	}
	return o, true, nil
}

// BindTask implements [issuer.Tx].
func (t *transaction) BindTask(agent, tenant, task string, o issuer.Owner) (issuer.Owner, error) {
	if _, err := t.exec(
		"INSERT INTO task (agent, tenant, task, root, principal, holder) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
		agent, tenant, task, o.Root, o.Principal, o.Holder); err != nil {
		return issuer.Owner{}, fmt.Errorf("postgres: task owner: %w", err)
	}
	owner, _, err := t.TaskOwner(agent, tenant, task)
	return owner, err
}

// TaskNamed implements [issuer.Reader].
func (r reader) TaskNamed(agent, tenant, task string) (bool, error) {
	var named bool
	err := r.row("SELECT EXISTS (SELECT 1 FROM named_task WHERE agent = $1 AND tenant = $2 AND task = $3)", agent, tenant, task).Scan(&named)
	if err != nil {
		return false, fmt.Errorf("postgres: named task: %w", err)
	}
	return named, nil
}

// NameTask implements [issuer.Tx].
func (t *transaction) NameTask(agent, tenant, task string) error {
	if _, err := t.exec("INSERT INTO named_task (agent, tenant, task) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", agent, tenant, task); err != nil {
		return fmt.Errorf("postgres: named task: %w", err)
	}
	return nil
}

// Mode implements [issuer.Reader].
func (r reader) Mode(agent string) (string, error) {
	var mode string
	err := r.row("SELECT mode FROM mode WHERE agent = $1", agent).Scan(&mode)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("postgres: mode: %w", err)
	}
	return mode, nil
}

// SetMode implements [issuer.Tx].
func (t *transaction) SetMode(agent, mode string) error {
	t.versions.Modes++
	_, err := t.exec("INSERT INTO mode (agent, mode) VALUES ($1, $2) ON CONFLICT (agent) DO UPDATE SET mode = excluded.mode", agent, mode)
	if err != nil {
		return fmt.Errorf("postgres: mode: %w", err)
	}
	return nil
}
