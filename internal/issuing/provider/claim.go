package provider

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// AskClaim asks for someone to take over from an autonomous agent (section 2.10,
// AAP-U3). Only the agent's host can ask, since the id of an agent is no secret and
// proves nothing. Anyone who has the code and says yes becomes the user of the host, and
// every autonomous agent under it ends as claimed.
func (p *Provider) AskClaim(ctx context.Context, s HostSession, agent string, asking Asking) (AgentState, error) {
	var out AgentState
	err := p.update(ctx, func(tx Tx, _ *unit) error {
		h, err := current(tx, s.Host)
		if err != nil {
			return err
		}
		a, err := own(tx, h, agent)
		if err != nil {
			return err
		}
		now := p.config.Now()
		p.merge(&a)
		switch state := a.at(now); {
		case a.Mode != agentauth.Autonomous:
			return agentauth.Errorf(agentauth.CodeUnsupportedMode, "the agent acts for a user already; only autonomous agents are claimed")
		case state != agentauth.Active:
			return stateError(state)
		case h.User != "":
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent's host is linked to a user already")
		}
		grants, err := p.grants(tx, a.ID)
		if err != nil {
			return err
		}
		c, err := p.challenge(tx, h, a, nil, ForClaim, asking, now)
		if err != nil {
			return err
		}
		a.Claim, a.Updated = agentauth.Pending, now
		if err := tx.PutHostAgent(a); err != nil {
			return err
		}
		out = p.standing(h, a, grants, c)
		return p.append(tx, hostName(h), "", action.AgentAskClaim, map[string]any{"agent": a.ID, "host": h.ID, "approval": c.Approval.ID})
	})
	return out, err
}

// takeOver links the host of a question to the one who answered it, which claims its
// autonomous agents.
func (p *Provider) takeOver(tx Tx, u *unit, q *Question, who Person, now time.Time) error {
	q.Host.User, q.Host.Vouched, q.Host.Updated = who.Principal, vouches(who), now
	if err := tx.PutHost(q.Host); err != nil {
		return err
	}
	if err := p.claim(tx, u, q.Host, who.Principal, now); err != nil {
		return err
	}
	var err error
	q.Agent, err = tx.HostAgent(q.Agent.ID)
	return err
}

// historyShown bounds the actions of an agent that a person sees before taking over.
const historyShown = 50

// History returns the actions of the agent of a question, newest first, for anyone who
// may answer it. A person sees the past of an agent before they take it over (AAP-U3).
func (p *Provider) History(ctx context.Context, who Person, q Question) ([]Action, error) {
	if !p.mayAnswer(who, q) {
		return nil, agentauth.Errorf(agentauth.CodeNotFound, "there is no request of that id for you")
	}
	return p.actions(ctx, issuer.RecordQuery{Agent: p.config.Agent, Requester: holder(q.Agent.ID), Limit: historyShown, Scan: actionsScan})
}
