package app

import (
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// given are the roles of people by the configuration in force. Roles at tenants are those
// at the agents that have the label now.
func (i *Instance) given(dev bool) []people.Given {
	c := i.current()
	var out []people.Given
	add := func(r config.RoleGiven) {
		g := people.Given{Role: r.Role, Who: r.Principals(), Groups: r.Groups(), Everywhere: r.Everywhere(), Agents: slices.Clone(r.Agents)}
		for _, a := range c.Agents {
			if a.Tenant != "" && slices.Contains(r.Tenants, a.Tenant) {
				g.Agents = append(g.Agents, a.ID)
			}
		}
		out = append(out, g)
	}
	for _, r := range c.Operators.Roles {
		add(r)
	}
	for _, a := range c.Agents {
		if len(a.AgentAuth.Administrators) > 0 {
			add(config.RoleGiven{Role: people.RoleAdministrator, Who: a.AgentAuth.Administrators})
		}
	}
	if len(c.Approvals.Operators) > 0 {
		add(config.RoleGiven{Role: people.RoleOperator, Who: c.Approvals.Operators})
	}
	named := len(out) > 0
	if !slices.ContainsFunc(out, administers) && i.loginByPasskey(dev) && len(c.Identity.Providers) == 0 {
		add(config.RoleGiven{Role: people.RoleAdministrator, Who: []string{firstAdministrator}})
	}
	if dev && !named { // anyone at this machine can log in as each of them
		everyone := config.RoleGiven{Role: people.RoleOperator}
		for _, u := range c.Identity.Dev {
			everyone.Who = append(everyone.Who, "user:"+u.Name)
		}
		add(everyone)
	}
	return out
}

// administers reports whether a role is that of administrators of the whole server.
func administers(g people.Given) bool { return g.Role == people.RoleAdministrator && g.Everywhere }

// rights are what a person may do here by roles.
func (i *Instance) rights(dev bool) func(people.Person) people.Rights {
	return func(who people.Person) people.Rights {
		rights := people.RightsOf(i.given(dev), who.Principal, who.Groups)
		i.seen.See(who, rights)
		return rights
	}
}

// administrators are the people who administer the whole server: those whom the configuration
// names, and those by a group who were seen since the start.
func (i *Instance) administrators(dev bool) func() []string {
	return func() []string {
		all := i.seen.All()
		for _, g := range i.given(dev) {
			if administers(g) {
				all = append(all, g.Who...)
			}
		}
		return all
	}
}

// administrator reports whether a person administers the whole server.
func (i *Instance) administrator(dev bool) func(principal string, groups []string) bool {
	return func(principal string, groups []string) bool {
		return people.RightsOf(i.given(dev), principal, groups).May(people.Administer)
	}
}

// namesAdministrator reports whether operators.roles, or what stands for it, can be of the
// person who registers the first passkey.
func (i *Instance) namesAdministrator(dev bool) bool {
	return len(i.Config.Operators.Roles) > 0 && slices.ContainsFunc(i.given(dev), func(g people.Given) bool { return administers(g) && len(g.Who) > 0 })
}

// first is the principal of the first administrator: the one whose passkey the printed URL
// registers.
func (i *Instance) first(dev bool) string {
	for _, g := range i.given(dev) {
		if administers(g) && len(g.Who) > 0 {
			return g.Who[0]
		}
	}
	return firstAdministrator
}

// approvers are the people and groups with the role approver at an agent.
func (i *Instance) approvers(agent string) (who, groups []string) {
	for _, g := range i.given(false) {
		if g.Role == people.RoleApprover && (g.Everywhere || slices.Contains(g.Agents, agent)) {
			who, groups = append(who, g.Who...), append(groups, g.Groups...)
		}
	}
	return who, groups
}

// operators says who operates by /v1: with the shared token, unless it is switched off, or
// with a session of powerbox login.
func (i *Instance) operators(a Assembly, token string) api.Operators {
	out := api.Operators{Rights: i.rights(a.Dev), Administrators: i.administrators(a.Dev)}
	if i.Config.Operators.Token {
		out.Token = token
	}
	l := i.Config.Operators.Login
	if l.ClientID == "" {
		return out
	}
	out.Login = operators.Login{Issuer: l.Issuer, ClientID: l.ClientID, Scopes: l.Scopes, MaxAge: int(i.Config.Approvals.Fresh / time.Second)}
	out.Person = func(r *http.Request) (people.Person, error) { return i.operating(r, a.Now()) }
	return out
}

// operating returns the person who operates by a session of powerbox login. A session
// from a login that is older than those on the pages may be does not count.
func (i *Instance) operating(r *http.Request, now time.Time) (people.Person, error) {
	caller, err := i.sessions.Operator(r, now)
	if err != nil {
		return people.Person{}, err
	}
	age := now.Sub(caller.Authenticated)
	if !caller.Authenticated.IsZero() && age > i.Config.Approvals.Session {
		return people.Person{}, errOldLogin
	}
	return provider.Book(i.Store, i.Issuer).Recognize(r.Context(), people.Claim{
		Principal: caller.Principal, Groups: caller.Groups, Login: people.BySession, Began: caller.Authenticated, Address: peer.Of(r).Network(),
		Fresh: !caller.Authenticated.IsZero() && age < i.Config.Approvals.Fresh,
	})
}

// errOldLogin refuses a session whose login is too old.
var errOldLogin = agentauth.Errorf(agentauth.CodeUnauthenticated, "your login is older than approvals.session; run powerbox login again")
