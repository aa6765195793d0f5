package app

import (
	"context"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/handoff"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/console"
)

// directory makes the contents of the pages about agents and their cards.
// People who may see every agent see everything. Others see the agents of their roles, and
// the entries that the registry would show to their own sessions.
func (i *Instance) directory(a Assembly) (*console.Directory, error) {
	agents, err := i.registry(a)
	if err != nil {
		return nil, err
	}
	return &console.Directory{
		Registry: agents, Agreed: i.agreed,
		Viewer: func(who provider.Person) registry.Viewer {
			rights := i.rights(a.Dev)(who)
			if rights.May(people.See) {
				return registry.Viewer{Operator: true}
			}
			caller := identity.Caller{Principal: who.Principal, Groups: who.Groups}
			return registry.Viewer{Principal: who.Principal, Groups: who.Groups, Sees: func(agent string) bool {
				return rights.MayAt(people.See, agent) || i.Issuer.Sees(caller, agent)
			}}
		},
		Enforcement: i.enforcement,
		Drift: func(ctx context.Context, id string) (out []console.Drift, err error) {
			seen, err := i.drifts(ctx, id)
			for _, d := range seen {
				out = append(out, console.Drift(d))
			}
			return out, err
		},
	}, nil
}

// named reports whether the operator has a name for an origin: a caller, or an
// agent that is protected here.
func (i *Instance) named(origin string) bool {
	return i.configured(origin) != nil ||
		slices.ContainsFunc(i.Force.Now.Load().config.Identity.Callers, func(c config.CallerRule) bool { return c.Agent == origin })
}

// enforcement says how far calls to an agent can be held to anything, nil for one
// that is not protected here.
func (i *Instance) enforcement(id string, card agentcard.Card) *console.Enforcement {
	e, err := config.Enforced(i.current(), id, card)
	if err != nil {
		return nil // one of others
	}
	out := &console.Enforcement{Level: e.Level, FreeText: e.FreeText}
	if mode, err := i.mode(context.Background(), id); err == nil { //nolint:contextcheck // it is known here
		out.Mode = string(mode)
	}
	for _, s := range e.Skills {
		out.Skills = append(out.Skills, console.EnforcedSkill(s))
	}
	return out
}

// looked fills in the gateway's last look at an agent: its health, and with whole the level of
// enforcement.
func (i *Instance) looked(status *api.AgentStatus, whole bool) {
	status.Health.State = "unknown"
	look, err := i.gateway.Look(status.ID)
	if err != nil {
		return // it was added just now
	}
	switch {
	case !look.Asked:
		status.Health.State = "not_asked"
	case look.Failure != nil:
		status.Health = api.AgentHealth{State: "unreachable", Since: &look.Down, Why: look.Failure.Error()}
	case look.Card != nil:
		status.Health = api.AgentHealth{State: "answers", Since: &look.At}
	}
	if look.Card == nil || !whole {
		return
	}
	card, err := i.cards.Parse(look.Card)
	if err != nil {
		return
	}
	if e, err := config.Enforced(i.current(), status.ID, card); err == nil {
		status.Enforcement = &api.Enforcement{Level: e.Level, FreeText: e.FreeText, Skills: []api.SkillLevel{}}
		for _, s := range e.Skills {
			status.Enforcement.Skills = append(status.Enforcement.Skills, api.SkillLevel(s))
		}
	}
}

// drifts are the behaviour of an agent that its card does not declare.
func (i *Instance) drifts(ctx context.Context, agent string) ([]api.Drift, error) {
	seen, _, err := i.scores.Drifts(ctx, agent)
	return seen, err
}

// declared is an agent with the operations of its skills: those of the last card that the
// gateway saw, otherwise those of the configuration. The graph waits for no agent.
func (i *Instance) declared(id string, at handoff.Place) (*handoff.Agent, error) {
	a := &handoff.Agent{ID: id, Place: at, Skills: map[string]string{}, Prefix: id + "/"}
	skills := []string{}
	for _, s := range i.current().Skills[id] {
		a.Skills[s.Skill] = s.Grant + "/" + s.Operation
		skills = append(skills, s.Skill)
	}
	if look, err := i.gateway.Look(id); err == nil && look.Card != nil {
		card, err := i.cards.Parse(look.Card)
		if err != nil {
			return nil, err
		}
		skills = skills[:0]
		for _, s := range card.Skills() {
			skills = append(skills, s.ID)
		}
	}
	for s := range a.Skills { // callers cannot ask for a mapped skill that is not on the card
		if !slices.Contains(skills, s) {
			delete(a.Skills, s)
		}
	}
	return a, a.Carries(skills)
}

// delegations are the hand-overs that configuration and cards allow, and the recorded
// attempts.
func (i *Instance) delegations(ctx context.Context, q api.DelegationQuery) (*graph.Graph, api.Tried, error) {
	d := handoff.New()
	at := handoff.Place{File: "the configuration"}
	for _, id := range i.agentNames() {
		if !q.Sees(id) {
			continue
		}
		a, err := i.declared(id, at)
		if err != nil {
			return nil, api.Tried{}, err
		}
		d.Agents[id] = a
	}
	for from, scopes := range i.Force.Now.Load().config.Scopes {
		for to, operations := range scopes {
			if q.Without == [2]string{from, to} || !q.Sees(to) {
				continue
			}
			if err := d.AddScope(handoff.Scope{From: from, To: to, Place: at, Entries: operations}); err != nil {
				return nil, api.Tried{}, err
			}
		}
	}
	sorting.Sort(d.Scopes, func(a, b handoff.Scope) int { return strings.Compare(a.From+"\x00"+a.To, b.From+"\x00"+b.To) })
	tried, err := i.scores.Pairs(ctx, q.Until, q.Sees)
	if err != nil {
		return nil, tried, err
	}
	tried.Pairs = slices.DeleteFunc(tried.Pairs, func(t api.Pair) bool { return d.Agents[t.To] == nil || q.Without == [2]string{t.From, t.To} })
	wires(d, tried.Pairs)
	g, err := d.Graph()
	return g, tried, err
}

// wires adds the hand-overs between agents: along every scope the existing operations
// that it allows, and along every pair on record the operations that were required of
// it. Attempts are those at agents that are served now.
func wires(d *handoff.Declarations, tried []api.Pair) {
	at := handoff.Place{File: "the configuration"}
	scoped := map[[2]string][]string{}
	for _, s := range d.Scopes {
		scoped[[2]string{s.From, s.To}] = s.Entries
		requires := []string{}
		if to := d.Agents[s.To]; to != nil {
			for _, op := range to.Operations {
				if handoff.Admits(s.Entries, op) {
					requires = append(requires, op)
				}
			}
		}
		if len(requires) > 0 {
			d.Wires = append(d.Wires, handoff.Wire{From: s.From, To: s.To, Place: at, Requires: requires, Gate: "gateway"})
		}
	}
	for _, t := range tried {
		var beyond []string
		for _, op := range t.Operations {
			name, own := strings.CutPrefix(op, t.To+"/")
			if own && !handoff.Admits(scoped[[2]string{t.From, t.To}], name) {
				beyond = append(beyond, name)
			}
		}
		if len(beyond) > 0 {
			d.Wires = append(d.Wires, handoff.Wire{From: t.From, To: t.To, Place: at, Requires: beyond, Gate: "gateway"})
		}
	}
}
