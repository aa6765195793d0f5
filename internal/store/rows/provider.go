package rows

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Host implements [provider.Reader].
func (r Reader) Host(id string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE id = ?", id))
}

// HostByKey implements [provider.Reader].
func (r Reader) HostByKey(thumbprint string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE thumbprint = ?", thumbprint))
}

// HostByKeysURL implements [provider.Reader].
func (r Reader) HostByKeysURL(url string) (provider.Host, error) {
	return first(bodies[provider.Host](r, "SELECT body FROM host WHERE keys_url = ? AND keys_url <> ''", url))
}

// Hosts implements [provider.Reader].
func (r Reader) Hosts(user string) ([]provider.Host, error) {
	if user == "" {
		return bodies[provider.Host](r, "SELECT body FROM host ORDER BY created DESC, id DESC")
	}
	return bodies[provider.Host](r, "SELECT body FROM host WHERE for_user = ? ORDER BY created DESC, id DESC", user)
}

// PutHost implements [provider.Tx].
func (t Tx) PutHost(h provider.Host) error {
	t.counts.Agents++
	return t.Keep(h, `INSERT INTO host (id, thumbprint, keys_url, for_user, created, body) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET thumbprint = excluded.thumbprint, for_user = excluded.for_user, body = excluded.body`,
		h.ID, h.Thumbprint, h.KeysURL, h.User, h.Created.UnixMilli())
}

// HostAgent implements [provider.Reader].
func (r Reader) HostAgent(id string) (provider.Agent, error) {
	return first(bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE id = ?", id))
}

// HostAgentByKey implements [provider.Reader].
func (r Reader) HostAgentByKey(host, thumbprint string) (provider.Agent, error) {
	return first(bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE host = ? AND thumbprint = ?", host, thumbprint))
}

// HostAgents implements [provider.Reader].
func (r Reader) HostAgents(host string) ([]provider.Agent, error) {
	return bodies[provider.Agent](r, "SELECT body FROM host_agent WHERE host = ? ORDER BY made", host)
}

// PutHostAgent implements [provider.Tx].
func (t Tx) PutHostAgent(a provider.Agent) error {
	t.counts.Agents++
	return t.Keep(a, `INSERT INTO host_agent (id, host, thumbprint, made, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET thumbprint = excluded.thumbprint, body = excluded.body`, a.ID, a.Host, a.Thumbprint, t.made())
}

// Grants implements [provider.Reader].
func (r Reader) Grants(agent string) ([]provider.Grant, error) {
	return bodies[provider.Grant](r, "SELECT body FROM agent_grant WHERE agent = ? ORDER BY made", agent)
}

// Grant implements [provider.Reader].
func (r Reader) Grant(id string) (provider.Grant, error) {
	return first(bodies[provider.Grant](r, "SELECT body FROM agent_grant WHERE id = ?", id))
}

// PutGrant implements [provider.Tx].
func (t Tx) PutGrant(g provider.Grant) error {
	t.counts.Agents++
	return t.Keep(g, "INSERT INTO agent_grant (id, agent, made, body) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", g.ID, g.Agent, t.made())
}

// Approval implements [provider.Reader].
func (r Reader) Approval(id string) (provider.Approval, error) {
	return first(bodies[provider.Approval](r, "SELECT body FROM approval WHERE id = ?", id))
}

// ApprovalByCode implements [provider.Reader].
func (r Reader) ApprovalByCode(code []byte) (provider.Approval, error) {
	return first(bodies[provider.Approval](r, "SELECT body FROM approval WHERE code = ? ORDER BY made DESC LIMIT 1", code))
}

// PendingApprovals implements [provider.Reader].
func (r Reader) PendingApprovals() ([]provider.Approval, error) {
	return bodies[provider.Approval](r, "SELECT body FROM approval WHERE pending = true ORDER BY made DESC")
}

// PutApproval implements [provider.Tx].
func (t Tx) PutApproval(a provider.Approval) error {
	return t.Keep(a, `INSERT INTO approval (id, code, agent, pending, expires, made, body) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, expires = excluded.expires, body = excluded.body`, a.ID, append([]byte{}, a.Code...), a.Agent, a.Status == agentauth.Pending, a.Expires.Unix(), t.made())
}

// Job implements [provider.Reader].
func (r Reader) Job(id string) (provider.Job, error) {
	return first(bodies[provider.Job](r, "SELECT body FROM job WHERE id = ?", id))
}

// PutJob implements [provider.Tx].
func (t Tx) PutJob(j provider.Job) error {
	return t.Keep(j, "INSERT INTO job (id, agent, created, body) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", j.ID, j.Agent, j.Created.Unix())
}

// UsedToken implements [provider.Reader].
func (r Reader) UsedToken(id string) (bool, error) {
	var n int
	if err := r.db.QueryRow("SELECT count(*) FROM used_token WHERE id = ?", id).Scan(&n); err != nil {
		return false, fmt.Errorf("store: used tokens: %w", err)
	}
	return n > 0, nil
}

// UsedTokens implements [provider.Reader].
func (r Reader) UsedTokens() (bool, error) {
	var some bool
	if err := r.db.QueryRow("SELECT EXISTS (SELECT 1 FROM used_token)").Scan(&some); err != nil {
		return false, fmt.Errorf("store: used tokens: %w", err)
	}
	return some, nil
}

// UseToken implements [provider.Tx].
func (t Tx) UseToken(id string, until, now time.Time) error {
	if err := t.exec("a used token", "DELETE FROM used_token WHERE until < ?", now.Unix()); err != nil {
		return err
	}
	return t.exec("a used token", "INSERT INTO used_token (id, until) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until", id, until.Unix()+1)
}

// Invitation implements [provider.Reader].
func (r Reader) Invitation(hash []byte) (provider.Invitation, error) {
	return first(bodies[provider.Invitation](r, "SELECT body FROM invitation WHERE hash = ?", hash))
}

// PutInvitation implements [provider.Tx].
func (t Tx) PutInvitation(hash []byte, v provider.Invitation) error {
	return t.Keep(v, "INSERT INTO invitation (hash, until, body) VALUES (?, ?, ?)", hash, v.Expires.Unix())
}

// ForgetInvitation implements [provider.Tx].
func (t Tx) ForgetInvitation(hash []byte) error {
	return t.exec("an invitation to forget", "DELETE FROM invitation WHERE hash = ?", hash)
}

// ForgetInvitations implements [provider.Tx].
func (t Tx) ForgetInvitations(now time.Time) error {
	return t.exec("invitations to forget", "DELETE FROM invitation WHERE until <= ?", now.Unix())
}

// ForgetAgent implements [provider.Tx].
func (t Tx) ForgetAgent(id string) error {
	if err := t.exec("jobs of an agent to forget", "DELETE FROM job WHERE agent = ?", id); err != nil {
		return err
	}
	return t.ForgetHostAgent(id)
}

// ForgetHostAgent is ForgetAgent except for the agent's jobs.
func (t Tx) ForgetHostAgent(id string) error {
	t.counts.Agents++
	for _, statement := range []string{
		"DELETE FROM approval WHERE agent = ?", "DELETE FROM agent_grant WHERE agent = ?", "DELETE FROM host_agent WHERE id = ?",
	} {
		if err := t.exec("an agent to forget", statement, id); err != nil {
			return err
		}
	}
	return nil
}

// ForgetGrant implements [provider.Tx].
func (t Tx) ForgetGrant(id string) error {
	t.counts.Agents++
	return t.exec("a grant to forget", "DELETE FROM agent_grant WHERE id = ?", id)
}

// ForgetAnswered implements [provider.Tx].
func (t Tx) ForgetAnswered(before time.Time) error {
	if err := t.exec("approvals to forget", "DELETE FROM approval WHERE expires < ?", before.Unix()); err != nil {
		return err
	}
	return t.exec("jobs to forget", "DELETE FROM job WHERE created < ?", before.Unix())
}

// ForgetHost implements [provider.Tx].
func (t Tx) ForgetHost(id string) error {
	t.counts.Agents++
	return t.exec("a host to forget", "DELETE FROM host WHERE id = ?", id)
}
