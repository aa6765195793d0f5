package provider_test

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// The reference: what hosts, agents, grants and approvals should become, without
// rows, records or events.
type (
	modelHost struct {
		key    okp
		id     string
		status agentauth.Status
		user   string
		agents []*modelAgent
	}
	modelAgent struct {
		*member
		host                           *modelHost
		autonomous                     bool
		status                         agentauth.Status
		created, active, used, written time.Time
		grants                         []*modelGrant
		was                            agentauth.Status // as it was seen last
	}
	modelGrant struct {
		capability string
		max        int // of the amount, 0 for a capability that has none
		status     agentauth.Status
	}
	modelAsk struct {
		id      string
		kind    provider.Kind
		agent   *modelAgent
		grants  []*modelGrant
		user    string
		expires time.Time
		over    bool
	}
	model struct {
		hosts []*modelHost
		asks  []*modelAsk
	}
)

// state is the state of an agent by the clocks.
func (a *modelAgent) state(now time.Time) agentauth.Status {
	switch last := latest(a.used, a.active); {
	case over(a.status):
		return a.status
	case now.Sub(a.created) >= 12*time.Hour:
		return agentauth.Revoked
	case a.status == agentauth.Pending:
		return agentauth.Pending
	case now.Sub(a.active) >= 4*time.Hour, now.Sub(last) >= 30*time.Minute:
		return agentauth.Expired
	}
	return agentauth.Active
}

// mayAct has an agent active for a tenth of its session longer: another node may know
// of a request.
func (a *modelAgent) mayAct(now time.Time) bool {
	return a.status == agentauth.Active && now.Sub(a.created) < 12*time.Hour && now.Sub(a.active) < 4*time.Hour && now.Sub(latest(a.used, a.active)) < 33*time.Minute
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func over(s agentauth.Status) bool {
	return s == agentauth.Revoked || s == agentauth.Rejected || s == agentauth.Claimed
}

// admits reports whether a grant in force admits a capability with an amount.
func (a *modelAgent) admits(capability string, amount int) bool {
	return slices.ContainsFunc(a.grants, func(g *modelGrant) bool {
		return g.capability == capability && g.status == agentauth.Active && (g.max == 0 || amount <= g.max)
	})
}

// end ends an agent with whatever it has and has asked for.
func (m *model) end(a *modelAgent, status agentauth.Status) {
	a.status = status
	m.drop(a)
}

func (m *model) drop(a *modelAgent) {
	for _, g := range a.grants {
		if g.status == agentauth.Active || g.status == agentauth.Pending {
			g.status = agentauth.Revoked
		}
	}
	m.dismiss(a)
}

func (m *model) dismiss(a *modelAgent) {
	for _, k := range m.asks {
		k.over = k.over || k.agent == a
	}
}

func (m *model) endHost(h *modelHost) {
	if over(h.status) {
		return
	}
	h.status = agentauth.Revoked
	for _, a := range h.agents {
		if !over(a.status) {
			m.end(a, agentauth.Revoked)
		}
	}
}

// link gives a host a user, who takes over from its autonomous agents.
func (m *model) link(h *modelHost, user string, now time.Time) {
	h.user, h.status = user, agentauth.Active
	for _, a := range h.agents {
		if a.autonomous && a.mayAct(now) {
			m.end(a, agentauth.Claimed)
		}
	}
}

func (m *model) agents() (all []*modelAgent) {
	for _, h := range m.hosts {
		all = append(all, h.agents...)
	}
	return all
}
