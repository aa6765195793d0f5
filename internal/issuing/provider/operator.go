package provider

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// The actions of users on their own hosts and agents, and of administrators on all
// (AAP-K5 to K8, AAP-U4, AAP-U6). Someone else's is not found.

func (p *Provider) mine(who Person, user string) bool {
	return who.Principal != "" && (p.config.Administrator(who.Principal, who.Groups) || user != "" && user == who.Principal)
}

// agentOfPerson returns an agent that a person may judge about.
func (p *Provider) agentOfPerson(r Reader, who Person, id string) (Agent, Host, error) {
	a, err := r.HostAgent(id)
	var h Host
	if err == nil {
		h, err = r.Host(a.Host)
	}
	if notFound(err) || err == nil && !p.mine(who, h.User) {
		return a, h, agentauth.Errorf(agentauth.CodeAgentNotFound, "you have no agent %q", clipped(id))
	}
	return a, h, err
}

func (p *Provider) hostOfPerson(r HostReader, who Person, id string) (Host, error) {
	h, err := r.Host(id)
	if notFound(err) || err == nil && !p.mine(who, h.User) {
		return h, agentauth.Errorf(agentauth.CodeHostNotFound, "you have no host %q", clipped(id))
	}
	return h, err
}

// Overview is a host with its agents.
type Overview struct {
	Host   Host
	Agents []AgentState
}

// Overview returns the hosts of a person, or for administrators all, newest first.
func (p *Provider) Overview(ctx context.Context, who Person) ([]Overview, error) {
	var out []Overview
	user := who.Principal
	if p.config.Administrator(who.Principal, who.Groups) {
		user = ""
	} else if user == "" {
		return nil, nil
	}
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		hosts, err := r.Hosts(user)
		for _, h := range hosts {
			agents, err := r.HostAgents(h.ID)
			if err != nil {
				return err
			}
			o := Overview{Host: h}
			for _, a := range agents {
				grants, err := p.grants(r, a.ID)
				if err != nil {
					return err
				}
				o.Agents = append(o.Agents, p.standing(h, a, grants, nil))
			}
			out = append(out, o)
		}
		return err
	})
	return out, err
}

// RevokeAgentAs revokes an agent by the word of its user or an administrator
// (AAP-K7).
func (p *Provider) RevokeAgentAs(ctx context.Context, who Person, agent string) error {
	return p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		a, _, err := p.agentOfPerson(tx, who, agent)
		if err != nil {
			return err
		}
		return p.revoke(tx, u, a, who.Principal, who.Principal)
	})
}

// RevokeHostAs revokes a host and its agents by the word of its user or an
// administrator: the way out when its key was stolen (AAP-K7).
func (p *Provider) RevokeHostAs(ctx context.Context, who Person, host string) (agents int, err error) {
	err = p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		h, err := p.hostOfPerson(tx, who, host)
		if err != nil {
			return err
		}
		agents, err = p.revokeHost(tx, u, h, who.Principal, who.Principal)
		return err
	})
	return agents, err
}

// RevokeGrantAs ends one grant; the agent and its others stay (AAP-K8). Ending an ended
// grant is no error.
func (p *Provider) RevokeGrantAs(ctx context.Context, who Person, agent, capability string) (ended int, err error) {
	err = p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		ended = 0
		a, h, err := p.agentOfPerson(tx, who, agent)
		if err != nil {
			return err
		}
		grants, err := p.grants(tx, a.ID)
		if err != nil {
			return err
		}
		now := p.config.Now()
		for i := range grants {
			if g := &grants[i]; g.Capability != capability && g.ID != capability || g.Status != agentauth.Active && g.Status != agentauth.Pending {
				continue
			}
			if err := p.withdraw(tx, u, &grants[i], who.Principal, now); err != nil {
				return err
			}
			ended++
		}
		if ended == 0 {
			return nil
		}
		if err := p.closeEmpty(tx, a.ID, who.Principal, now); err != nil {
			return err
		}
		return p.append(tx, who.Principal, a.User, action.GrantRevoke, map[string]any{"agent": a.ID, "host": h.ID, "capability": capability, "grants": ended})
	})
	return ended, err
}

// GrantAs gives an active agent one capability (AAP-K8). Giving one that it has already
// is no error.
func (p *Provider) GrantAs(ctx context.Context, who Person, agent string, asked Asked) (Grant, error) {
	wanted, err := p.wishes([]Asked{asked})
	if err != nil {
		return Grant{}, err
	}
	if !who.Fresh {
		return Grant{}, errStale()
	}
	if wanted[0].capability.MustLimit() && wanted[0].constraints == nil {
		return Grant{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "capability %q changes something, and nothing limits its arguments; name constraints for at least one of them", asked.Name)
	}
	if wanted[0].capability.Sensitivity != Read && !who.Present && !who.Unsafe {
		return Grant{}, agentauth.Errorf(agentauth.CodeUnauthorized, "capability %q changes something; grant it with a passkey (AAP-A7)", asked.Name)
	}
	var out Grant
	err = p.updateBy(ctx, who, func(tx Tx, _ *unit) error {
		out = Grant{} // it may run again
		a, h, err := p.agentOfPerson(tx, who, agent)
		if err != nil {
			return err
		}
		now := p.config.Now()
		p.merge(&a)
		if err := stateError(a.at(now)); err != nil {
			return err
		}
		held, err := p.grants(tx, a.ID)
		if err != nil {
			return err
		}
		fresh, err := p.uncovered(held, wanted, now)
		if err != nil || len(fresh) == 0 {
			return err
		}
		grants, err := p.pendingGrants(a, fresh, now)
		if err != nil {
			return err
		}
		grants[0].Reason = ""
		if end := now.Add(cmp.Or(asked.Lasts, handTime)); grants[0].Expires.IsZero() || end.Before(grants[0].Expires) {
			grants[0].Expires = end
		}
		if err := p.activate(tx, &a, &grants[0], who.Principal, now); err != nil {
			return err
		}
		out = grants[0]
		return p.append(tx, who.Principal, a.User, action.GrantAdd, map[string]any{"agent": a.ID, "host": h.ID, "capabilities": asApproved(grants)})
	})
	return out, err
}

// handTime is how long a grant by hand lasts where the person says no end.
const handTime = 24 * time.Hour

// Unlink takes the user from a host: its delegated agents end, the host stays with
// its key (AAP-K6).
func (p *Provider) Unlink(ctx context.Context, who Person, host string) (agents int, err error) {
	err = p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		agents = 0
		h, err := p.hostOfPerson(tx, who, host)
		if err != nil {
			return err
		}
		all, err := tx.HostAgents(h.ID)
		if err != nil {
			return err
		}
		now := p.config.Now()
		for _, a := range all {
			if a.Mode == agentauth.Delegated && !terminal(a.Status) {
				if err := p.end(tx, u, a, agentauth.Revoked, who.Principal, now); err != nil {
					return err
				}
				agents++
				continue
			}
			// Questions to the user are dropped now, also of agents that act on their own: the
			// host asks again, and then its new owner (ATK-64).
			if h.User != "" {
				if err := p.dismiss(tx, &a, who.Principal, endedUnlinked, now); err != nil {
					return err
				}
			}
		}
		was := h.User
		h.User, h.Vouched, h.Updated = "", false, now
		if err := tx.PutHost(h); err != nil {
			return err
		}
		return p.append(tx, who.Principal, was, action.HostUnlink, map[string]any{"host": h.ID, "agents": agents})
	})
	return agents, err
}

// recent refuses a person whose login is old. A host that is let in, or becomes a
// user's, has agents with capabilities that need no further approval (AAP-A6, AAP-U4,
// AAP-U6). Such capabilities that change something need a person who is present
// ([Host.Vouched]).
func recent(who Person) error {
	if !who.Fresh {
		return errStale()
	}
	return nil
}

// vouches reports whether the person is present, as a grant that changes something needs
// (AAP-A7).
func vouches(who Person) bool { return who.Present || who.Unsafe }

// PreRegister makes a host known and active before it has an agent (AAP-U6).
func (p *Provider) PreRegister(ctx context.Context, who Person, name, user string, key token.PublicKey, defaults []string) (Host, error) {
	if !p.config.Administrator(who.Principal, who.Groups) {
		return Host{}, agentauth.Errorf(agentauth.CodeUnauthorized, "hosts are registered ahead by an administrator")
	}
	if err := recent(who); err != nil {
		return Host{}, err
	}
	if err := p.mayBeDefaults(defaults); err != nil {
		return Host{}, err
	}
	id, err := p.config.Issuer.NewID("hst_")
	if err != nil {
		return Host{}, err
	}
	now := p.config.Now()
	h := Host{
		ID: id, Name: plain(name, maxNameText), Thumbprint: key.Thumbprint(), Key: key.JWK().AppendJSON(nil), User: user, Vouched: user != "" && vouches(who), Defaults: defaults, OwnList: defaults != nil,
		Status: agentauth.Active, Created: now, Activated: now, Updated: now,
	}
	err = p.updateBy(ctx, who, func(tx Tx, _ *unit) error {
		if err := p.mayHave(tx, user); user != "" && err != nil {
			return err
		}
		if _, err := tx.HostByKey(h.Thumbprint); !notFound(err) {
			if err == nil {
				err = agentauth.Errorf(agentauth.CodeInvalidRequest, "a host of that key is registered already")
			}
			return err
		}
		if err := tx.PutHost(h); err != nil {
			return err
		}
		return p.append(tx, who.Principal, user, action.HostRegister, map[string]any{"host": h.ID, "key": h.Thumbprint})
	})
	return h, err
}

// mayBeDefaults refuses capabilities that no host can have by default (AAP-P3, AAP-R12).
func (p *Provider) mayBeDefaults(names []string) error {
	for _, d := range names {
		if c := p.capabilities[d]; c == nil || c.Blocked || c.Sensitivity == High {
			return agentauth.Errorf(agentauth.CodeInvalidCapability, "%q cannot be a default", clipped(d))
		}
	}
	return nil
}

// ForgetUser ends every host of a user whose account is gone (AAP-K5).
func (p *Provider) ForgetUser(ctx context.Context, who Person, user string) (hosts int, err error) {
	if !p.config.Administrator(who.Principal, who.Groups) || user == "" {
		return 0, agentauth.Errorf(agentauth.CodeUnauthorized, "users are taken out by an administrator")
	}
	err = p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		hosts = 0
		all, err := tx.Hosts(user)
		if err != nil {
			return err
		}
		for _, h := range all {
			if h.Status == agentauth.Revoked {
				continue
			}
			if _, err := p.revokeHost(tx, u, h, who.Principal, user); err != nil {
				return err
			}
			hosts++
		}
		return nil
	})
	return hosts, err
}

// stale is how long an unapproved request is kept after its last question.
const stale = 24 * time.Hour

// Clean forgets agents that never became active and were the subject of no question for
// a day, and hosts that are left without any (AAP-A11).
func (p *Provider) Clean(ctx context.Context) (agents int, err error) {
	now := p.config.Now()
	p.forgetSeen(now)
	err = p.update(ctx, func(tx Tx, _ *unit) error {
		agents = 0
		if err := tx.ForgetInvitations(now); err != nil {
			return err
		}
		if agents, err = p.retain(tx, now); err != nil {
			return err
		}
		hosts, err := tx.Hosts("")
		if err != nil {
			return err
		}
		for _, h := range hosts {
			all, err := tx.HostAgents(h.ID)
			if err != nil {
				return err
			}
			left := len(all)
			for _, a := range all {
				if a.Status != agentauth.Pending || !a.Activated.IsZero() || now.Sub(a.Updated) < stale {
					continue
				}
				if err := tx.ForgetAgent(a.ID); err != nil {
					return err
				}
				agents++
				left--
			}
			if left == 0 && h.Status == agentauth.Pending && now.Sub(h.Updated) >= stale {
				if err := tx.ForgetHost(h.ID); err != nil {
					return err
				}
			}
		}
		if agents == 0 {
			return nil
		}
		return p.append(tx, "clock", "", action.AgentForget, map[string]any{"agents": agents})
	})
	return agents, err
}

// forgetSeen forgets requests and codes that mean nothing any more: a request from
// before the longest session has been stored, or its agent has expired.
func (p *Provider) forgetSeen(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.used, func(_ string, at time.Time) bool { return now.Sub(at) > p.longest() })
	maps.DeleteFunc(p.hints, func(_ string, g guesses) bool { return now.Sub(g.since) > hintTime })
	maps.DeleteFunc(p.guesses, func(_ string, g guesses) bool { return now.Sub(g.since) > guessTime })
}

// ShownConstraints are the constraints of a grant as on the wire, null for none.
func (g Grant) ShownConstraints() powerbox.Value {
	v, err := powerbox.ParseValue(g.Constraints)
	if err != nil {
		return powerbox.Value{}
	}
	return v
}

// Capability returns the provider's capability of that name, nil for none.
func (p *Provider) Capability(name string) *Capability { return p.capabilities[name] }
