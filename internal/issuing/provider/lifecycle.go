package provider

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// own returns an agent that is a host's, and refuses another's (AAP-S1).
func own(r AgentReader, h Host, id string) (Agent, error) {
	a, err := r.HostAgent(id)
	switch {
	case notFound(err) || id == "":
		return Agent{}, agentauth.Errorf(agentauth.CodeAgentNotFound, "there is no agent %q", clipped(id))
	case err != nil:
		return Agent{}, err
	case a.Host != h.ID:
		return Agent{}, agentauth.Errorf(agentauth.CodeUnauthorized, "the agent is registered under another host")
	}
	return a, nil
}

// current returns a host as it is now: since it was authenticated it may have
// ended, or have another key.
func current(r HostReader, h Host) (Host, error) {
	latest, err := r.Host(h.ID)
	switch {
	case err != nil:
		return Host{}, err
	case latest.Status != agentauth.Active:
		return Host{}, agentauth.Errorf(agentauth.CodeHostRevoked, "the host has been revoked")
	case latest.Thumbprint != h.Thumbprint:
		return Host{}, agentauth.Errorf(agentauth.CodeInvalidJWT, "the host's key has been replaced in the meantime")
	}
	return latest, nil
}

// Status returns the state of an agent (section 5.5).
func (p *Provider) Status(ctx context.Context, s HostSession, agent string) (AgentState, error) {
	var out AgentState
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		a, err := own(r, s.Host, agent)
		if err != nil {
			return err
		}
		grants, err := p.grants(r, a.ID)
		out = p.standing(s.Host, a, grants, nil)
		return err
	})
	return out, err
}

// RequestCapability asks for more (section 5.4). It is always a person who gives
// it (AAP-P4, AAP-Q5); the agent continues as it is.
func (p *Provider) RequestCapability(ctx context.Context, s Session, asked []Asked, asking Asking) (AgentState, error) {
	if len(asked) == 0 {
		return AgentState{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "capabilities is missing; want at least one")
	}
	wanted, err := p.wishes(asked)
	if err != nil {
		return AgentState{}, err
	}
	var out AgentState
	err = p.update(ctx, func(tx Tx, _ *unit) error {
		now := p.config.Now()
		var err error
		if s, err = p.latest(tx, s); err != nil {
			return err
		}
		if err := s.live(now); err != nil {
			return err // it ended in the meantime
		}
		held := s.Grants
		fresh, err := p.uncovered(held, wanted, now)
		if err != nil {
			return err
		}
		if len(fresh) == 0 {
			return agentauth.Errorf(agentauth.CodeAlreadyGranted, "the agent has all of it already")
		}
		if err := refused(held, fresh, now); err != nil {
			return err
		}
		s.Agent.Reason = plain(asking.Reason, maxReasonText)
		grants, err := p.pendingGrants(s.Agent, fresh, now)
		if err != nil {
			return err
		}
		if live(held, now)+len(grants) > maxAsked {
			return agentauth.Errorf(agentauth.CodeRateLimited, "the agent has asked for %d capabilities that are not over; have some of them answered or revoked first", live(held, now))
		}
		for _, g := range grants {
			if err := tx.PutGrant(g); err != nil {
				return err
			}
		}
		challenge, err := p.challenge(tx, s.Host, s.Agent, grants, ForCapability, asking, now)
		if err != nil {
			return err
		}
		out = p.standing(s.Host, s.Agent, grants, challenge)
		return p.append(tx, agentName(s.Agent), s.Agent.User, action.AgentRequestCapability, map[string]any{
			"agent": s.Agent.ID, "host": s.Host.ID, "capabilities": asHeard(grants), "approval": challenge.Approval.ID,
		})
	})
	return out, err
}

// live counts grants that are in force or wait.
func live(grants []Grant, now time.Time) (n int) {
	for _, g := range grants {
		if g.Effective(now) || g.Status == agentauth.Pending {
			n++
		}
	}
	return n
}

// uncovered returns the wishes that no grant in force covers yet (AAP-Q3, AAP-Q4).
func (p *Provider) uncovered(held []Grant, wanted []wish, now time.Time) ([]wish, error) {
	var out []wish
	for _, w := range wanted {
		want, err := p.shape(Grant{Constraints: w.constraints})
		if err != nil {
			return nil, err
		}
		covered := false
		for _, g := range held {
			if g.Capability != w.capability.Name || !g.Effective(now) {
				continue
			}
			has, err := p.shape(g)
			if err != nil {
				return nil, err
			}
			covered = covered || has.Covers(want)
		}
		if !covered {
			out = append(out, w)
		}
	}
	return out, nil
}

// agentName is the name of an agent in records: the holder of its capabilities.
func agentName(a Agent) string { return holder(a.ID) }

// Reactivate brings an expired agent back with its host's defaults and nothing
// else (section 5.6, AAP-V1 to V5, AAP-P5).
func (p *Provider) Reactivate(ctx context.Context, s HostSession, agent string) (AgentState, error) {
	var out AgentState
	var after error // the answer, although something has changed
	err := p.update(ctx, func(tx Tx, u *unit) error {
		after = nil
		now := p.config.Now()
		var err error
		if s.Host, err = current(tx, s.Host); err != nil {
			return err
		}
		a, err := own(tx, s.Host, agent)
		if err != nil {
			return err
		}
		p.merge(&a)
		switch state := a.at(now); state {
		case agentauth.Active:
			grants, err := p.grants(tx, a.ID)
			out = p.standing(s.Host, a, grants, nil)
			return err
		case agentauth.Expired:
		default:
			if state == agentauth.Revoked && !terminal(a.Status) {
				after = agentauth.Errorf(agentauth.CodeAbsoluteLifetime, "the agent's absolute lifetime is over; register a new one")
				if err := p.end(tx, u, a, agentauth.Revoked, "clock:absolute", now); err != nil {
					return err
				}
				return p.append(tx, hostName(s.Host), a.User, action.AgentRevoke, map[string]any{"agent": a.ID, "host": s.Host.ID, "because": "absolute lifetime"})
			}
			return stateError(state)
		}
		out, err = p.reactivate(tx, u, s.Host, a, now)
		return err
	})
	if err == nil {
		err = after
	}
	return out, err
}

func (p *Provider) reactivate(tx Tx, u *unit, h Host, a Agent, now time.Time) (AgentState, error) {
	if err := p.withdrawAll(tx, u, a.ID, "reactivation", now); err != nil {
		return AgentState{}, err
	}
	if err := p.dismiss(tx, &a, "reactivation", endedRenewed, now); err != nil {
		return AgentState{}, err
	}
	before := a.Clocks
	a.Clocks = p.clocks(a.Mode, h.ID, "") // a longer lifetime than the default is gone
	a.Clocks.Absolute = min(a.Clocks.Absolute, before.Absolute)
	var wanted []wish
	for _, name := range p.defaults(h) {
		if c := p.capabilities[name]; c != nil && c.Sensitivity != High {
			wanted = append(wanted, wish{c, wireConstraints(c.Constraints)})
		}
	}
	grants, err := p.pendingGrants(a, wanted, now)
	if err != nil {
		return AgentState{}, err
	}
	details := map[string]any{"agent": a.ID, "host": h.ID, "capabilities": asHeard(grants)}
	var challenge *Challenge
	if h.User != "" && h.Status == agentauth.Active {
		a.Status, a.Activated, a.LastUsed = agentauth.Active, now, now
		for i := range grants {
			if err := p.activate(tx, &a, &grants[i], "policy:defaults", now); err != nil {
				return AgentState{}, err
			}
		}
	} else {
		a.Status = agentauth.Pending
		for _, g := range grants {
			if err := tx.PutGrant(g); err != nil {
				return AgentState{}, err
			}
		}
		if challenge, err = p.challenge(tx, h, a, grants, ForReactivation, Asking{}, now); err != nil {
			return AgentState{}, err
		}
		details["approval"] = challenge.Approval.ID
	}
	a.Updated = now
	if err := tx.PutHostAgent(a); err != nil {
		return AgentState{}, err
	}
	return p.standing(h, a, grants, challenge), p.append(tx, hostName(h), a.User, action.AgentReactivate, details)
}

// Revoke ends an agent for good (section 5.7). Doing it again is no error.
func (p *Provider) Revoke(ctx context.Context, s HostSession, agent string) error {
	return p.update(ctx, func(tx Tx, u *unit) error {
		if _, err := current(tx, s.Host); err != nil {
			return err
		}
		a, err := own(tx, s.Host, agent)
		if err != nil {
			return err
		}
		return p.revoke(tx, u, a, hostName(s.Host), "")
	})
}

// revoke ends an agent; one in a terminal state stays as it is.
func (p *Provider) revoke(tx Tx, u *unit, a Agent, by, principal string) error {
	now := p.config.Now()
	if terminal(a.Status) {
		return nil
	}
	if err := p.end(tx, u, a, agentauth.Revoked, by, now); err != nil {
		return err
	}
	return p.append(tx, by, principal, action.AgentRevoke, map[string]any{"agent": a.ID, "host": a.Host})
}

// RevokeHost ends a host and every agent under it (section 5.10).
func (p *Provider) RevokeHost(ctx context.Context, s HostSession) (agents int, err error) {
	err = p.update(ctx, func(tx Tx, u *unit) error {
		h, err := current(tx, s.Host)
		if err == nil {
			agents, err = p.revokeHost(tx, u, h, hostName(h), "")
		}
		return err
	})
	return agents, err
}

func (p *Provider) revokeHost(tx Tx, u *unit, h Host, by, principal string) (agents int, err error) {
	if h.Status == agentauth.Revoked || h.Status == agentauth.Rejected {
		return 0, nil // a terminal state stays (AAP-M2)
	}
	now := p.config.Now()
	all, err := tx.HostAgents(h.ID)
	if err != nil {
		return 0, err
	}
	for _, a := range all {
		if terminal(a.Status) {
			continue
		}
		if err := p.end(tx, u, a, agentauth.Revoked, by, now); err != nil {
			return 0, err
		}
		agents++
	}
	h.Status, h.Updated = agentauth.Revoked, now
	if err := tx.PutHost(h); err != nil {
		return 0, err
	}
	return agents, p.append(tx, by, principal, action.HostRevoke, map[string]any{"host": h.ID, "agents": agents})
}

// RotateKey replaces the key of an agent; the old one is dead at once (section
// 5.8).
func (p *Provider) RotateKey(ctx context.Context, s HostSession, agent string, jwk powerbox.Value) (AgentState, error) {
	key, err := agentauth.ParseKey(jwk)
	if err != nil {
		return AgentState{}, err
	}
	var out AgentState
	err = p.update(ctx, func(tx Tx, u *unit) error {
		if _, err := current(tx, s.Host); err != nil {
			return err
		}
		a, err := own(tx, s.Host, agent)
		if err != nil {
			return err
		}
		now := p.config.Now()
		p.merge(&a)
		switch state := a.at(now); {
		case terminal(state):
			return stateError(state)
		case a.KeysURL != "":
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent's keys are at a URL; rotate them there")
		case key.Thumbprint() == a.Thumbprint, key.Thumbprint() == s.Host.Thumbprint:
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the key is in use already; want a new one")
		}
		if err := unused(tx, s.Host.ID, key); err != nil {
			return err
		}
		if err := p.endTokens(tx, u, a, hostName(s.Host), now); err != nil {
			return err
		}
		a.Thumbprint, a.Key, a.Updated = key.Thumbprint(), key.JWK().AppendJSON(nil), now
		if err := tx.PutHostAgent(a); err != nil {
			return err
		}
		out = p.standing(s.Host, a, nil, nil)
		return p.append(tx, hostName(s.Host), a.User, action.AgentRotateKey, map[string]any{"agent": a.ID, "host": s.Host.ID, "key": a.Thumbprint})
	})
	return out, err
}

func unused(tx AgentReader, host string, key token.PublicKey) error {
	_, err := tx.HostAgentByKey(host, key.Thumbprint())
	if err == nil {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "another agent of the host has that key; want a new one")
	}
	if notFound(err) {
		return nil
	}
	return err
}

// RotateHostKey replaces the key of a host in place; the old one is dead at once
// (section 5.9).
func (p *Provider) RotateHostKey(ctx context.Context, s HostSession, jwk powerbox.Value) (Host, error) {
	key, err := agentauth.ParseKey(jwk)
	if err != nil {
		return Host{}, err
	}
	var h Host
	err = p.update(ctx, func(tx Tx, _ *unit) error {
		if h, err = current(tx, s.Host); err != nil {
			return err
		}
		switch {
		case h.KeysURL != "":
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the host's keys are at a URL; rotate them there")
		case key.Thumbprint() == h.Thumbprint:
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the key is in use already; want a new one")
		}
		if _, err := tx.HostByKey(key.Thumbprint()); !notFound(err) {
			if err == nil {
				err = agentauth.Errorf(agentauth.CodeInvalidRequest, "another host has that key; want a new one")
			}
			return err
		}
		h.Thumbprint, h.Key, h.Updated = key.Thumbprint(), key.JWK().AppendJSON(nil), p.config.Now()
		if err := tx.PutHost(h); err != nil {
			return err
		}
		return p.append(tx, hostName(h), h.User, action.HostRotateKey, map[string]any{"host": h.ID, "key": h.Thumbprint})
	})
	return h, err
}

// Introspection is the answer about a token to a service at a location (section 5.12).
type Introspection struct {
	Session Session
	Grants  []Grant // in force, and within the token's own limits
	Expires time.Time
	// Confirmation is the key that the token is bound to, as in its cnf, nil for none.
	// The service that the token was shown to checks the proof, or has it checked here.
	Confirmation map[string]string
	Proven       bool               // the proof of its key was verified
	Decision     *powerbox.Decision // on an attempt that was asked about, nil for none
}

// Introspect verifies a token of an agent for a service at a location. It uses no
// token up, and returns false whatever does not hold (AAP-I1 to I6). With a DPoP
// proof, which the service passes on with method and URL of the request, that is
// verified, too, and used up: it is for that one request (AAP-J9).
func (p *Provider) Introspect(ctx context.Context, shown Presented, capability string, arguments powerbox.Value) (Introspection, bool, error) {
	shown.elsewhere = len(shown.Proofs) == 0
	audiences := []string{p.Location(), p.config.URL}
	for _, name := range p.order {
		if l := p.capabilities[name].Location; l != "" {
			audiences = append(audiences, l)
		}
	}
	s, err := p.AuthenticateAgent(ctx, shown, Again, audiences...)
	var e *agentauth.Error
	if asError(err, &e) && e.Code != agentauth.CodeUnavailable { // whether it holds cannot be told then
		return Introspection{}, false, nil
	}
	if err != nil {
		return Introspection{}, false, err
	}
	if !shown.elsewhere && shown.URL != s.Audience() {
		return Introspection{}, false, nil // a proof for another service than the token
	}
	now := p.config.Now()
	out := Introspection{Session: s, Expires: s.Agent.expires(), Confirmation: confirmation(s.token), Proven: !shown.elsewhere}
	held, err := p.standingGrants(ctx, s)
	if err != nil {
		return Introspection{}, false, err
	}
	for _, g := range held {
		if c := p.capabilities[g.Capability]; c != nil && s.token.Allows(g.Capability) && (!c.Proof || s.token.Bound) {
			out.Grants = append(out.Grants, g)
		}
	}
	if capability == "" {
		return out, true, nil
	}
	d, err := p.judge(out.Grants, capability, arguments, now)
	if name, found := powerbox.RoundedArgument(arguments); found && d.Allowed {
		// The service that asks may read another number than was decided on (ATK-39).
		d = powerbox.Decision{Reasons: []powerbox.Reason{{Code: gate.CodeArgumentNumber, Operation: capability, Argument: name}}}
	}
	d.Allowed = d.Allowed && p.executedAt(p.capabilities[capability], s.Audience())
	out.Decision = &d
	return out, true, err
}

// executedAt reports whether a token for that audience is good where a capability is
// executed: at its own location, or where it has none at the provider's, of which the
// issuer is another name here (AAP-I4, AAP-P10).
func (p *Provider) executedAt(c *Capability, audience string) bool {
	switch {
	case c == nil:
		return false
	case c.Location != "":
		return audience == c.Location
	}
	return audience == p.Location() || audience == p.config.URL
}
