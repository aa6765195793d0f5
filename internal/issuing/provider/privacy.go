package provider

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Retention and erasure of the data of agents (section 9.2, AAP-Z3). Words of agents
// (names, reasons, messages), requests and denials stand in the store of the provider
// alone, and are erased with the agent. Records have ids, digests, decisions and grants;
// package evidence sets how long those are kept.

// ForgetAgentAs erases the data of an agent that has ended: by its user, or an
// administrator.
func (p *Provider) ForgetAgentAs(ctx context.Context, who Person, agent string) error {
	return p.update(ctx, func(tx Tx, _ *unit) error {
		a, h, err := p.agentOfPerson(tx, who, agent)
		if err != nil {
			return err
		}
		if state := a.at(p.config.Now()); !terminal(state) {
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent is %s; revoke it first", state)
		}
		if err := tx.ForgetAgent(a.ID); err != nil {
			return err
		}
		return p.append(tx, who.Principal, a.User, action.AgentErase, map[string]any{"agent": a.ID, "host": h.ID})
	})
}

// retain erases data whose retention is over: agents that have ended, grants that are
// over, answered questions, jobs, and the names of hosts that have ended.
func (p *Provider) retain(tx Tx, now time.Time) (agents int, err error) {
	if p.config.Retention <= 0 {
		return 0, nil
	}
	before := now.Add(-p.config.Retention)
	hosts, err := tx.Hosts("")
	if err != nil {
		return 0, err
	}
	for _, h := range hosts {
		all, err := tx.HostAgents(h.ID)
		if err != nil {
			return 0, err
		}
		for _, a := range all {
			gone, err := p.retainAgent(tx, a, before, now)
			if err != nil {
				return 0, err
			}
			if gone {
				agents++
			}
		}
		if h.Name != "" && h.Updated.Before(before) && (h.Status == agentauth.Revoked || h.Status == agentauth.Rejected) {
			h.Name = ""
			if err := tx.PutHost(h); err != nil {
				return 0, err
			}
		}
	}
	return agents, tx.ForgetAnswered(before)
}

// retainAgent takes out an agent that ended before a moment, or of another one the
// grants that did.
func (p *Provider) retainAgent(tx Tx, a Agent, before, now time.Time) (gone bool, err error) {
	if state := a.at(now); terminal(state) {
		ended := a.Updated
		if !terminal(a.Status) { // by the clock, which stores no change
			ended = a.Created.Add(a.Clocks.Absolute)
		}
		if ended.Before(before) {
			return true, tx.ForgetAgent(a.ID)
		}
		return false, nil
	}
	grants, err := p.grants(tx, a.ID)
	if err != nil {
		return false, err
	}
	for _, g := range grants {
		over := g.Status == agentauth.Denied || g.Status == agentauth.Revoked || !g.Expires.IsZero() && g.Expires.Before(before)
		if over && g.Updated.Before(before) {
			if err := tx.ForgetGrant(g.ID); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// Retention is how long the data of an agent outlives it, 0 for no end.
func (p *Provider) Retention() time.Duration { return p.config.Retention }
