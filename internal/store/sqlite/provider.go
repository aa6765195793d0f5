package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// UpdateProvider implements [provider.Store].
func (s *Store) UpdateProvider(ctx context.Context, change func(provider.Tx) error) error {
	return s.Update(ctx, func(tx issuer.Tx) error { return change(tx.(*transaction)) })
}

// ViewProvider implements [provider.Store].
func (s *Store) ViewProvider(ctx context.Context, read func(provider.Reader) error) error {
	return s.View(ctx, func(r issuer.Reader) error { return read(r.(settled)) })
}

// bodies reads what a query selects the bodies of.
func bodies[T any](r reader, query string, args ...any) ([]T, error) {
	var out []T
	for data, err := range r.rawRecords(query, args...) {
		if err != nil {
			return nil, err
		}
		var one T
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, fmt.Errorf("sqlite: a stored %T is damaged: %w", one, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// keep stores a thing, whose columns come before its body.
func (t *transaction) keep(thing any, statement string, columns ...any) error {
	body, err := json.Marshal(thing)
	if err != nil {
		return err
	}
	if _, err := t.db.ExecContext(t.ctx, statement, append(columns, body)...); err != nil {
		return fmt.Errorf("sqlite: %T: %w", thing, err)
	}
	return nil
}

// Host implements [provider.Reader].
func (r reader) Host(id string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE id = ?", id))
}

// HostByKey implements [provider.Reader].
func (r reader) HostByKey(thumbprint string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE thumbprint = ?", thumbprint))
}

// HostByKeysURL implements [provider.Reader].
func (r reader) HostByKeysURL(url string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE keys_url = ? AND keys_url <> ''", url))
}

// Hosts implements [provider.Reader].
func (r reader) Hosts(user string) ([]provider.Host, error) {
	return bodies[provider.Host](r, "SELECT body FROM host WHERE ? = '' OR user = ? ORDER BY created DESC, id DESC", user, user)
}

// PutHost implements [provider.Tx].
func (t *transaction) PutHost(h provider.Host) error {
	return t.keep(h, `INSERT INTO host (id, thumbprint, keys_url, user, created, body) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET thumbprint = excluded.thumbprint, user = excluded.user, body = excluded.body`,
		h.ID, h.Thumbprint, h.KeysURL, h.User, h.Created.UnixMilli())
}

// HostAgent implements [provider.Reader].
func (r reader) HostAgent(id string) (provider.Agent, error) {
	return first(bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE id = ?", id))
}

// HostAgentByKey implements [provider.Reader].
func (r reader) HostAgentByKey(host, thumbprint string) (provider.Agent, error) {
	return first(bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE host = ? AND thumbprint = ?", host, thumbprint))
}

// HostAgents implements [provider.Reader].
func (r reader) HostAgents(host string) ([]provider.Agent, error) {
	return bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE host = ? ORDER BY rowid", host)
}

// PutHostAgent implements [provider.Tx].
func (t *transaction) PutHostAgent(a provider.Agent) error {
	return t.keep(a, `INSERT INTO host_agent (id, host, thumbprint, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET thumbprint = excluded.thumbprint, body = excluded.body`, a.ID, a.Host, a.Thumbprint)
}

// Grants implements [provider.Reader].
func (r reader) Grants(agent string) ([]provider.Grant, error) {
	return bodies[provider.Grant](r, "SELECT body FROM agent_grant WHERE agent = ? ORDER BY rowid", agent)
}

// Grant implements [provider.Reader].
func (r reader) Grant(id string) (provider.Grant, error) {
	return first(bodies[provider.Grant](r, "SELECT body FROM agent_grant WHERE id = ?", id))
}

// PutGrant implements [provider.Tx].
func (t *transaction) PutGrant(g provider.Grant) error {
	return t.keep(g, "INSERT INTO agent_grant (id, agent, body) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", g.ID, g.Agent)
}

// Approval implements [provider.Reader].
func (r reader) Approval(id string) (provider.Approval, error) {
	return first(bodies[provider.Approval](r, "SELECT body FROM approval WHERE id = ?", id))
}

// ApprovalByCode implements [provider.Reader].
func (r reader) ApprovalByCode(code []byte) (provider.Approval, error) {
	return first(bodies[provider.Approval](r, "SELECT body FROM approval WHERE code = ? ORDER BY rowid DESC LIMIT 1", code))
}

// PendingApprovals implements [provider.Reader].
func (r reader) PendingApprovals() ([]provider.Approval, error) {
	return bodies[provider.Approval](r, "SELECT body FROM approval WHERE pending = 1 ORDER BY rowid DESC")
}

// PutApproval implements [provider.Tx].
func (t *transaction) PutApproval(a provider.Approval) error {
	return t.keep(a, `INSERT INTO approval (id, code, agent, pending, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, body = excluded.body`, a.ID, append([]byte{}, a.Code...), a.Agent, a.Status == agentauth.Pending)
}

// Job implements [provider.Reader].
func (r reader) Job(id string) (provider.Job, error) {
	return first(bodies[provider.Job](r, "SELECT body FROM job WHERE id = ?", id))
}

// PutJob implements [provider.Tx].
func (t *transaction) PutJob(j provider.Job) error {
	return t.keep(j, "INSERT INTO job (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", j.ID)
}

// UsedToken implements [provider.Reader].
func (r reader) UsedToken(id string) (bool, error) {
	var n int
	if err := r.db.QueryRowContext(r.ctx, "SELECT count(*) FROM used_token WHERE id = ?", id).Scan(&n); err != nil {
		return false, fmt.Errorf("sqlite: used tokens: %w", err)
	}
	return n > 0, nil
}

// UsedTokens implements [provider.Reader].
func (r reader) UsedTokens() (bool, error) {
	var some bool
	if err := r.db.QueryRowContext(r.ctx, "SELECT EXISTS (SELECT 1 FROM used_token)").Scan(&some); err != nil {
		return false, fmt.Errorf("sqlite: used tokens: %w", err)
	}
	return some, nil
}

// UseToken implements [provider.Tx].
func (t *transaction) UseToken(id string, until, now time.Time) error {
	_, err := t.db.ExecContext(t.ctx, "DELETE FROM used_token WHERE until < ?", now.Unix())
	if err == nil {
		_, err = t.db.ExecContext(t.ctx, "INSERT INTO used_token (id, until) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until", id, until.Unix()+1)
	}
	if err != nil {
		return fmt.Errorf("sqlite: a used token: %w", err)
	}
	return nil
}

// Invitation implements [provider.Reader].
func (r reader) Invitation(hash []byte) (provider.Invitation, error) {
	return first(bodies[provider.Invitation](r, "SELECT body FROM invitation WHERE hash = ?", hash))
}

// PutInvitation implements [provider.Tx].
func (t *transaction) PutInvitation(hash []byte, v provider.Invitation) error {
	return t.keep(v, "INSERT INTO invitation (hash, until, body) VALUES (?, ?, ?)", hash, v.Expires.Unix())
}

// ForgetInvitation implements [provider.Tx].
func (t *transaction) ForgetInvitation(hash []byte) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM invitation WHERE hash = ?", hash); err != nil {
		return fmt.Errorf("sqlite: an invitation to forget: %w", err)
	}
	return nil
}

// ForgetInvitations implements [provider.Tx].
func (t *transaction) ForgetInvitations(now time.Time) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM invitation WHERE until <= ?", now.Unix()); err != nil {
		return fmt.Errorf("sqlite: invitations to forget: %w", err)
	}
	return nil
}

// ForgetAgent implements [provider.Tx].
func (t *transaction) ForgetAgent(id string) error {
	for _, statement := range []string{
		"DELETE FROM job WHERE json_extract(CAST(body AS TEXT), '$.Agent') = ?", "DELETE FROM approval WHERE agent = ?", "DELETE FROM agent_grant WHERE agent = ?", "DELETE FROM host_agent WHERE id = ?",
	} {
		if _, err := t.db.ExecContext(t.ctx, statement, id); err != nil {
			return fmt.Errorf("sqlite: an agent to forget: %w", err)
		}
	}
	return nil
}

// ForgetGrant implements [provider.Tx].
func (t *transaction) ForgetGrant(id string) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM agent_grant WHERE id = ?", id); err != nil {
		return fmt.Errorf("sqlite: a grant to forget: %w", err)
	}
	return nil
}

// ForgetAnswered implements [provider.Tx].
func (t *transaction) ForgetAnswered(before time.Time) error {
	at := before.UTC().Format(time.RFC3339)
	for _, statement := range []string{
		"DELETE FROM approval WHERE julianday(json_extract(CAST(body AS TEXT), '$.Expires')) < julianday(?)",
		"DELETE FROM job WHERE julianday(json_extract(CAST(body AS TEXT), '$.Created')) < julianday(?)",
	} {
		if _, err := t.db.ExecContext(t.ctx, statement, at); err != nil {
			return fmt.Errorf("sqlite: what was answered: %w", err)
		}
	}
	return nil
}

// ForgetHost implements [provider.Tx].
func (t *transaction) ForgetHost(id string) error {
	if _, err := t.db.ExecContext(t.ctx, "DELETE FROM host WHERE id = ?", id); err != nil {
		return fmt.Errorf("sqlite: a host to forget: %w", err)
	}
	return nil
}
