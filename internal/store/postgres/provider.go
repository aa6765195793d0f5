package postgres

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
	return s.View(ctx, func(r issuer.Reader) error { return read(r.(reader)) })
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
			return nil, fmt.Errorf("postgres: a stored %T is damaged: %w", one, err)
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
	if _, err := t.exec(statement, append(columns, body)...); err != nil {
		return fmt.Errorf("postgres: %T: %w", thing, err)
	}
	return nil
}

// Host implements [provider.Reader].
func (r reader) Host(id string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE id = $1", id))
}

// HostByKey implements [provider.Reader].
func (r reader) HostByKey(thumbprint string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE thumbprint = $1", thumbprint))
}

// HostByKeysURL implements [provider.Reader].
func (r reader) HostByKeysURL(url string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE keys_url = $1 AND keys_url <> ''", url))
}

// Hosts implements [provider.Reader].
func (r reader) Hosts(user string) ([]provider.Host, error) {
	return bodies[provider.Host](r, "SELECT body FROM host WHERE $1::bytea = '' OR for_user = $1::bytea ORDER BY created DESC, id DESC", user)
}

// PutHost implements [provider.Tx].
func (t *transaction) PutHost(h provider.Host) error {
	t.versions.Agents++
	return t.keep(h, `INSERT INTO host (id, thumbprint, keys_url, for_user, created, body) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (id) DO UPDATE SET thumbprint = excluded.thumbprint, for_user = excluded.for_user, body = excluded.body`,
		h.ID, h.Thumbprint, h.KeysURL, h.User, h.Created.UnixMilli())
}

// HostAgent implements [provider.Reader].
func (r reader) HostAgent(id string) (provider.Agent, error) {
	return first(bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE id = $1", id))
}

// HostAgentByKey implements [provider.Reader].
func (r reader) HostAgentByKey(host, thumbprint string) (provider.Agent, error) {
	return first(bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE host = $1 AND thumbprint = $2", host, thumbprint))
}

// HostAgents implements [provider.Reader].
func (r reader) HostAgents(host string) ([]provider.Agent, error) {
	return bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE host = $1 ORDER BY made", host)
}

// PutHostAgent implements [provider.Tx].
func (t *transaction) PutHostAgent(a provider.Agent) error {
	t.versions.Agents++
	return t.keep(a, `INSERT INTO host_agent (id, host, thumbprint, made, body) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET thumbprint = excluded.thumbprint, body = excluded.body`, a.ID, a.Host, a.Thumbprint, t.next())
}

// Grants implements [provider.Reader].
func (r reader) Grants(agent string) ([]provider.Grant, error) {
	return bodies[provider.Grant](r, "SELECT body FROM agent_grant WHERE agent = $1 ORDER BY made", agent)
}

// Grant implements [provider.Reader].
func (r reader) Grant(id string) (provider.Grant, error) {
	return first(bodies[provider.Grant](r, "SELECT body FROM agent_grant WHERE id = $1", id))
}

// PutGrant implements [provider.Tx].
func (t *transaction) PutGrant(g provider.Grant) error {
	t.versions.Agents++
	return t.keep(g, "INSERT INTO agent_grant (id, agent, made, body) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET body = excluded.body", g.ID, g.Agent, t.next())
}

// Approval implements [provider.Reader].
func (r reader) Approval(id string) (provider.Approval, error) {
	return first(bodies[provider.Approval](r, "SELECT body FROM approval WHERE id = $1", id))
}

// ApprovalByCode implements [provider.Reader].
func (r reader) ApprovalByCode(code []byte) (provider.Approval, error) {
	return first(bodies[provider.Approval](r, "SELECT body FROM approval WHERE code = $1 ORDER BY made DESC LIMIT 1", code))
}

// PendingApprovals implements [provider.Reader].
func (r reader) PendingApprovals() ([]provider.Approval, error) {
	return bodies[provider.Approval](r, "SELECT body FROM approval WHERE pending ORDER BY made DESC")
}

// PutApproval implements [provider.Tx].
func (t *transaction) PutApproval(a provider.Approval) error {
	return t.keep(a, `INSERT INTO approval (id, code, agent, pending, expires, made, body) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, expires = excluded.expires, body = excluded.body`, a.ID, append([]byte{}, a.Code...), a.Agent, a.Status == agentauth.Pending, a.Expires.Unix(), t.next())
}

// Job implements [provider.Reader].
func (r reader) Job(id string) (provider.Job, error) {
	return first(bodies[provider.Job](r, "SELECT body FROM job WHERE id = $1", id))
}

// PutJob implements [provider.Tx].
func (t *transaction) PutJob(j provider.Job) error {
	return t.keep(j, "INSERT INTO job (id, agent, created, body) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET body = excluded.body", j.ID, j.Agent, j.Created.Unix())
}

// UsedToken implements [provider.Reader].
func (r reader) UsedToken(id string) (bool, error) {
	var n int
	if err := r.row("SELECT count(*) FROM used_token WHERE id = $1", id).Scan(&n); err != nil {
		return false, fmt.Errorf("postgres: used tokens: %w", err)
	}
	return n > 0, nil
}

// UsedTokens implements [provider.Reader].
func (r reader) UsedTokens() (bool, error) {
	var some bool
	if err := r.row("SELECT EXISTS (SELECT 1 FROM used_token)").Scan(&some); err != nil {
		return false, fmt.Errorf("postgres: used tokens: %w", err)
	}
	return some, nil
}

// UseToken implements [provider.Tx].
func (t *transaction) UseToken(id string, until, now time.Time) error {
	_, err := t.exec("DELETE FROM used_token WHERE until < $1", now.Unix())
	if err == nil {
		_, err = t.exec("INSERT INTO used_token (id, until) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET until = excluded.until", id, until.Unix()+1)
	}
	if err != nil {
		return fmt.Errorf("postgres: a used token: %w", err)
	}
	return nil
}

// Invitation implements [provider.Reader].
func (r reader) Invitation(hash []byte) (provider.Invitation, error) {
	return first(bodies[provider.Invitation](r, "SELECT body FROM invitation WHERE hash = $1", hash))
}

// PutInvitation implements [provider.Tx].
func (t *transaction) PutInvitation(hash []byte, v provider.Invitation) error {
	return t.keep(v, "INSERT INTO invitation (hash, until, body) VALUES ($1, $2, $3)", hash, v.Expires.Unix())
}

// ForgetInvitation implements [provider.Tx].
func (t *transaction) ForgetInvitation(hash []byte) error {
	if _, err := t.exec("DELETE FROM invitation WHERE hash = $1", hash); err != nil {
		return fmt.Errorf("postgres: an invitation to forget: %w", err)
	}
	return nil
}

// ForgetInvitations implements [provider.Tx].
func (t *transaction) ForgetInvitations(now time.Time) error {
	if _, err := t.exec("DELETE FROM invitation WHERE until <= $1", now.Unix()); err != nil {
		return fmt.Errorf("postgres: invitations to forget: %w", err)
	}
	return nil
}

// ForgetAgent implements [provider.Tx].
func (t *transaction) ForgetAgent(id string) error {
	t.versions.Agents++
	for _, statement := range []string{
		"DELETE FROM job WHERE agent = $1", "DELETE FROM approval WHERE agent = $1", "DELETE FROM agent_grant WHERE agent = $1", "DELETE FROM host_agent WHERE id = $1",
	} {
		if _, err := t.exec(statement, id); err != nil {
			return fmt.Errorf("postgres: an agent to forget: %w", err)
		}
	}
	return nil
}

// ForgetGrant implements [provider.Tx].
func (t *transaction) ForgetGrant(id string) error {
	t.versions.Agents++
	if _, err := t.exec("DELETE FROM agent_grant WHERE id = $1", id); err != nil {
		return fmt.Errorf("postgres: a grant to forget: %w", err)
	}
	return nil
}

// ForgetAnswered implements [provider.Tx].
func (t *transaction) ForgetAnswered(before time.Time) error {
	for _, statement := range []string{
		"DELETE FROM approval WHERE expires < $1",
		"DELETE FROM job WHERE created < $1",
	} {
		if _, err := t.exec(statement, before.Unix()); err != nil {
			return fmt.Errorf("postgres: what was answered: %w", err)
		}
	}
	return nil
}

// ForgetHost implements [provider.Tx].
func (t *transaction) ForgetHost(id string) error {
	t.versions.Agents++
	if _, err := t.exec("DELETE FROM host WHERE id = $1", id); err != nil {
		return fmt.Errorf("postgres: a host to forget: %w", err)
	}
	return nil
}
