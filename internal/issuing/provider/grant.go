package provider

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// activate puts a grant in force. From then on there is a capability on record for it,
// by which executions are decided. Its limits of time hold for the agent, too, from then
// on.
func (p *Provider) activate(tx Tx, a *Agent, g *Grant, by string, now time.Time) error {
	shape, err := p.shape(*g)
	if err != nil {
		return err
	}
	if err := p.tighten(tx, a, g, now); err != nil {
		return err
	}
	op, err := p.operation(g.Capability)
	if err != nil {
		return err
	}
	h, err := tx.Host(a.Host)
	if err != nil {
		return err
	}
	until := p.until(*a, *g)
	clauses := []powerbox.Clause{{Pattern: powerbox.ExactPattern(op), Shape: shape}}
	if p.config.Tokens.Enabled {
		// A token needs these operations at a gateway: to send messages and look after their
		// tasks.
		reserved, err := p.config.Issuer.Reserved()
		if err != nil {
			return err
		}
		clauses = append(clauses, reserved...)
	}
	authority, err := powerbox.NewAuthority(powerbox.Window{Until: until}, p.config.Tokens.depth(), clauses...)
	if err != nil {
		return err
	}
	c := issuer.Capability{
		Agent: p.config.Agent, Grant: label, Principal: behind(h, *a), Holder: holder(a.ID),
		Authority: authority, Card: p.config.Issuer.Card(p.config.Agent), PolicyDigest: p.config.Issuer.PolicyDigest(), Created: now, Expires: until,
		Attenuable: p.config.Tokens.Enabled, ByPerson: true,
	}
	if c.ID, err = p.config.Issuer.NewID("cap_"); err != nil {
		return err
	}
	if c.RevocationID, err = p.config.Issuer.NewID("rv_"); err != nil {
		return err
	}
	c.Root = c.ID
	if err := tx.PutCapability(c); err != nil {
		return err
	}
	g.Status, g.GrantedBy, g.Record, g.Updated = agentauth.Active, by, c.ID, now
	return tx.PutGrant(*g)
}

// grants returns the grants of an agent as they are by now, oldest first. A grant whose
// capability on record was revoked past the provider, alone or with others, is revoked.
func (p *Provider) grants(r GrantReader, agent string) ([]Grant, error) {
	all, err := r.Grants(agent)
	if err != nil {
		return nil, err
	}
	for i := range all {
		g := &all[i]
		if g.Status != agentauth.Active || g.Record == "" {
			continue
		}
		c, err := r.Capability(g.Record)
		if err != nil && !notFound(err) {
			return nil, err
		}
		if err != nil || p.config.Issuer.Dead(c) {
			g.Status = agentauth.Revoked
		}
	}
	return all, nil
}

// behind is the user whom a capability of an agent is for. An agent that acts on its own at the
// host of a user has what it has by that user: what stops the user stops it (ATK-150).
func behind(h Host, a Agent) string { return cmp.Or(a.User, h.User) }

// until is when a grant ends at the latest: with its agent.
func (p *Provider) until(a Agent, g Grant) time.Time {
	end := a.Created.Add(a.Clocks.Absolute)
	if !g.Expires.IsZero() && g.Expires.Before(end) {
		return g.Expires
	}
	return end
}

// withdraw ends a grant. One that was in force is revoked on record, too.
func (p *Provider) withdraw(tx Tx, u *unit, g *Grant, by string, now time.Time) error {
	switch g.Status {
	case agentauth.Revoked, agentauth.Denied:
		return nil
	default:
	}
	g.Status, g.Updated = agentauth.Revoked, now
	if err := tx.PutGrant(*g); err != nil {
		return err
	}
	if g.Record == "" {
		return nil
	}
	c, err := tx.Capability(g.Record)
	if err != nil {
		return err
	}
	r := issuer.Revocation{Kind: issuer.KindRevoke, Target: g.Record, By: by, At: now, Until: c.Expires}
	if r.Sequence, err = tx.Revoke(r); err != nil {
		return err
	}
	u.revoked = append(u.revoked, r)
	return nil
}

// withdrawAll ends every grant of an agent.
func (p *Provider) withdrawAll(tx Tx, u *unit, agent, by string, now time.Time) error {
	grants, err := p.grants(tx, agent)
	if err != nil {
		return err
	}
	for i := range grants {
		if err := p.withdraw(tx, u, &grants[i], by, now); err != nil {
			return err
		}
	}
	return nil
}

// end brings an agent into a terminal state, with its grants and its open questions.
func (p *Provider) end(tx Tx, u *unit, a Agent, status agentauth.Status, by string, now time.Time) error {
	if err := p.withdrawAll(tx, u, a.ID, by, now); err != nil {
		return err
	}
	a.Status, a.Updated = status, now
	if err := tx.PutHostAgent(a); err != nil {
		return err
	}
	return p.dismiss(tx, &a, by, endedAgent, now)
}

// dismiss closes the open approvals of an agent, since nothing is left to answer.
// Further requests of an agent that continues are denied with the reason.
func (p *Provider) dismiss(tx Tx, a *Agent, by, why string, now time.Time) error {
	open, err := tx.PendingApprovals()
	if err != nil {
		return err
	}
	for _, ap := range open {
		if ap.Agent != a.ID {
			continue
		}
		if err := closed(tx, ap, by, why, now); err != nil {
			return err
		}
		if a.Status == agentauth.Pending {
			a.Unasked = why
			err = tx.PutHostAgent(*a)
		} else if ap.Kind == ForCapability {
			err = p.refuse(tx, a.ID, by, why, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func closed(tx GrantWriter, ap Approval, by, why string, now time.Time) error {
	ap.Status, ap.By, ap.Answered, ap.Ended = agentauth.Revoked, by, now, why
	return tx.PutApproval(ap)
}

// closeEmpty closes the questions of an agent for more of which nothing is left, since a person
// has taken back all that they ask for.
func (p *Provider) closeEmpty(tx Tx, agent, by string, now time.Time) error {
	open, err := tx.PendingApprovals()
	if err != nil {
		return err
	}
	for _, ap := range open {
		if ap.Agent != agent || ap.Kind != ForCapability {
			continue
		}
		q, err := p.question(tx, ap)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(q.Grants, func(g Grant) bool { return g.Status == agentauth.Pending }) {
			continue
		}
		if err := closed(tx, ap, by, endedTakenBack, now); err != nil {
			return err
		}
	}
	return nil
}

// terminal reports whether an agent's state is one that stays.
func terminal(status agentauth.Status) bool {
	return slices.Contains([]agentauth.Status{agentauth.Revoked, agentauth.Rejected, agentauth.Claimed}, status)
}

// narrowed returns the constraints of a grant after a person has narrowed them, and
// refuses wider ones (AAP-G3, AAP-P6).
func (p *Provider) narrowed(g Grant, constraints powerbox.Value) (json.RawMessage, error) {
	asked, err := p.shape(g)
	if err != nil {
		return nil, err
	}
	chosen, err := p.config.Options.ParseConstraints(constraints)
	if err != nil {
		return nil, err
	}
	met, left := asked.Meet(chosen)
	if _, sayable := agentauth.Constraints(met); !left || met.Empty() || !sayable {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing of %q remains under these constraints; deny it instead", g.Capability)
	}
	return wireConstraints(met), nil
}
