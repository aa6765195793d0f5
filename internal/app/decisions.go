package app

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// minimumGuardToken is the length of the shortest token of a guard, in bytes.
const minimumGuardToken = 32

// decisions answers programs that enforce in their own process.
func (i *Instance) decisions(a Assembly, w *Wiring, g *gate.Gate) (*api.Decisions, error) {
	d := &api.Decisions{
		Gate: g, Agent: i.guarded, Origin: w.Force.Origin, Scope: w.Force.Scope,
		Collections: map[string]string{}, Nowhere: trust.Issuer, Pseudonym: i.Issuer.Pseudonym,
		Redact: proxy.Redaction(i.Config.Evidence.Arguments), Now: a.Now, Log: a.Log, Keeper: i.keeper(), Recorded: i.recorded,
		Beside: api.Beside{Approvals: i.guardAsks(), Data: i.guardData(w, a.Now)}, Queue: i.queue, URL: i.Config.Issuer.URL,
	}
	d.Known = api.SearchKnown{Places: w.sealer, Agents: i.agentNames, Users: i.searchUsers, Items: func(agent, collection string) (ids []string) {
		known, err := i.Resources(agent)
		if err != nil {
			a.Log.Error("the catalogue of an agent cannot be read", "agent", agent, "error", err)
		}
		for _, item := range known {
			if item.Collection == collection {
				ids = append(ids, item.ID)
			}
		}
		return ids
	}}
	items := map[[3]string]map[string]powerbox.Value{}
	declared := map[[3]string]bool{} // attributes of a collection; of others policies cannot speak
	for _, agent := range i.Config.Agents {
		known, err := i.Resources(agent.ID)
		if err != nil {
			return nil, err
		}
		for _, item := range known {
			// A collection of two agents is of none that a question could mean.
			if of, taken := d.Collections[item.Collection]; taken && of != agent.ID {
				d.Collections[item.Collection] = ""
			} else if !taken {
				d.Collections[item.Collection] = agent.ID
			}
			items[[3]string{agent.ID, item.Collection, item.ID}] = item.Attributes
			for name := range item.Attributes {
				declared[[3]string{agent.ID, item.Collection, name}] = true
			}
		}
	}
	d.Item = func(agent, collection, id string) map[string]powerbox.Value {
		return items[[3]string{agent, collection, id}]
	}
	d.Policy = func(user identity.Caller, agent string, op powerbox.Operation, r *catalogue.Item) powerbox.Authority {
		maps.DeleteFunc(r.Attributes, func(name string, _ powerbox.Value) bool { return !declared[[3]string{agent, r.Collection, name}] })
		return allowedByPolicy(w, user, agent, op, r)
	}
	for n, c := range i.Config.Identity.Guards {
		text, err := i.ReadFile(string(c.TokenFile))
		if text = bytes.TrimSpace(text); err == nil && len(text) < minimumGuardToken {
			err = fmt.Errorf("%s has %d bytes; want at least %d", c.TokenFile, len(text), minimumGuardToken)
		}
		for _, other := range d.Guards {
			if err == nil && other.Token == string(text) {
				err = fmt.Errorf("the token is already that of %s", other.Name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("identity.guards[%d].token_file: %w", n, err)
		}
		d.Guards = append(d.Guards, api.Guard{Name: c.Name, Token: string(text), Agents: c.Agents, Users: c.Users})
	}
	return d, nil
}

// searchUsers are the users that are known by name: those that policies name, and built-in
// ones, of whom groups and roles are known too.
func (i *Instance) searchUsers() []api.SearchUser {
	var all []api.SearchUser
	for _, u := range i.Config.Identity.Dev {
		all = append(all, api.SearchUser{ID: u.Name, Groups: u.Groups, Roles: u.Roles})
	}
	for _, principal := range i.Force.Now.Load().engine.Users() {
		id, ok := strings.CutPrefix(principal, api.TypeUser+":")
		if ok && !slices.ContainsFunc(all, func(u api.SearchUser) bool { return u.ID == id }) {
			all = append(all, api.SearchUser{ID: id})
		}
	}
	return all
}

// guarded is an agent as its gateway knows it.
func (i *Instance) guarded(ctx context.Context, id string) (api.Guarded, bool, error) {
	target, skills, known, err := i.gateway.Target(ctx, id)
	if err != nil || !known {
		return api.Guarded{}, known, err
	}
	out := api.Guarded{Target: target, Skills: map[string]api.GuardedSkill{}}
	for name, s := range skills {
		out.Skills[name] = api.GuardedSkill{Operation: s.Operation, Handle: s.Handle, Write: s.Write, Approval: s.Approval, Flow: s.Flow}
	}
	for _, a := range i.current().Agents {
		if a.ID == id {
			out.Yields = proxy.LabelsOf(i.current(), id)[0]
		}
	}
	out.Mode, err = i.mode(ctx, id)
	return out, true, err
}

// allowedByPolicy is one operation, where policy allows a user that of a resource,
// and otherwise nothing. It is asked for one question and outlives it by nothing.
func allowedByPolicy(w *Wiring, user identity.Caller, agent string, op powerbox.Operation, r *catalogue.Item) powerbox.Authority {
	rest, ok := strings.CutPrefix(op.String(), agent+"/")
	grant, name, cut := strings.Cut(rest, "/")
	if !ok || !cut {
		return powerbox.Authority{}
	}
	if ruling := w.Force.Permits(user, agent, grant, name, r); !ruling.Allow || ruling.Approval != "" {
		return powerbox.Authority{}
	}
	clause := powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()}
	out, err := powerbox.NewAuthority(powerbox.Window{Until: w.Now().Add(token.MaxLifetime)}, 0, clause)
	if err != nil {
		return powerbox.Authority{}
	}
	return out
}
