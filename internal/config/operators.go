package config

import (
	"fmt"
	"slices"
	"strings"
)

// Operators says who operates this server, and how they log in from a shell.
type Operators struct {
	Roles []RoleGiven    `key:"roles" doc:"Roles of people, on the pages, in /v1 and on the command line. A person without a role sees only their own questions."`
	Login OperatorsLogin `key:"login" doc:"How powerbox login logs people in who operate."`
	Token bool           `key:"token" default:"true" doc:"Whether the shared operator token of issuer.directory is accepted. false: every operator has a name. Refused if no person could administer then."`
}

// RoleGiven is a role that some people have.
type RoleGiven struct {
	Role    string   `key:"role" required:"true" enum:"viewer,approver,auditor,operator,administrator" doc:"The role (docs/how-to/operators.md)."`
	Who     []string `key:"who" required:"true" doc:"Holders of the role: principals such as user:bob, or group:NAME."`
	Agents  []string `key:"agents" doc:"Agents at which it is held. Absent, and without tenants: at all, and for the server as a whole."`
	Tenants []string `key:"tenants" doc:"Labels (agents[].tenant) of further agents at which it is held."`
}

// Everywhere reports whether the role is held at every agent, and for the server as a whole.
func (r RoleGiven) Everywhere() bool { return len(r.Agents) == 0 && len(r.Tenants) == 0 }

// Principals and Groups are those who have the role.
func (r RoleGiven) Principals() []string {
	return slices.DeleteFunc(slices.Clone(r.Who), func(who string) bool { return strings.HasPrefix(who, GroupPrefix) })
}

// Groups are the groups who have the role.
func (r RoleGiven) Groups() (groups []string) {
	for _, who := range r.Who {
		if group, ok := strings.CutPrefix(who, GroupPrefix); ok {
			groups = append(groups, group)
		}
	}
	return groups
}

// OperatorsLogin is the client that powerbox login is at an OpenID provider.
type OperatorsLogin struct {
	Issuer   string   `key:"issuer" format:"url" doc:"One of identity.providers. Default: approvals.login.issuer."`
	ClientID string   `key:"client_id" doc:"Client id of powerbox login there, of no other program: a public client with the redirect URI http://127.0.0.1/callback at any port. The session is an ID token for this client alone. Absent: people cannot log in from a shell to operate."`
	Scopes   []string `key:"scopes" doc:"Scopes to request besides openid, such as groups, or offline_access for a refresh token."`
}

// RoleApprover is the approver of a rule that stands for everyone with that role.
const RoleApprover = "role:approver"

const administratorRole = "administrator"

// administers reports whether some person could administer the whole server, without the
// shared token.
func (c *Config) administers() bool {
	passkeys := c.Approvals.Login.Issuer == "" && len(c.Identity.Dev) == 0
	var named, groups bool
	for _, a := range c.Agents {
		named = named || len(a.AgentAuth.Administrators) > 0
	}
	for _, r := range c.Operators.Roles {
		if r.Role == administratorRole && r.Everywhere() {
			named, groups = named || len(r.Principals()) > 0, groups || len(r.Groups()) > 0
		}
	}
	if passkeys && c.Operators.Login.ClientID == "" {
		// A passkey is of one named person. Without any name it is that of the first.
		return named || !groups && len(c.Identity.Providers) == 0
	}
	return named || groups
}

// checkOperators wants roles that a person can have, and a way to administer.
func (k checker) checkOperators() {
	var tenants []string
	for _, a := range k.Agents {
		tenants = append(tenants, a.Tenant)
	}
	for n, r := range k.Operators.Roles {
		at := fmt.Sprintf("operators.roles[%d]", n)
		if len(r.Who) == 0 {
			k.place(at+".who", "is empty; want principals such as user:bob, or group:NAME")
		}
		k.checkWho(at+".who", r.Who)
		for i, agent := range r.Agents {
			k.known(fmt.Sprintf("%s.agents[%d]", at, i), "agent", agent, k.agents)
		}
		for i, tenant := range r.Tenants {
			if tenant == "" || !slices.Contains(tenants, tenant) {
				k.place(fmt.Sprintf("%s.tenants[%d]", at, i), "no agent has the tenant %q; want that of an agent in agents[].tenant", tenant)
			}
		}
	}
	k.checkOperatorsLogin()
	if !k.Operators.Token && !k.administers() {
		k.place("operators.token", "is false, and no person could administer this server; give the role administrator under operators.roles, without agents and tenants, to a person who can log in")
	}
}

// checkWho wants principals and groups.
func (k checker) checkWho(at string, all []string) {
	for n, who := range all {
		if !strings.Contains(who, ":") || who == GroupPrefix {
			k.place(fmt.Sprintf("%s[%d]", at, n), "%q is not a principal; want a principal such as user:bob, or group:NAME", who)
		}
	}
}

// checkOperatorsLogin wants a client of the command line alone, at a provider that is believed.
func (k checker) checkOperatorsLogin() {
	l := k.Operators.Login
	at := "operators.login.client_id"
	switch {
	case l.ClientID == "" && (l.Issuer != "" || len(l.Scopes) > 0):
		k.place(at, "is missing; the provider gave powerbox login one when it was registered")
	case l.ClientID == "":
	case l.Issuer == "":
		k.place("operators.login.issuer", "is missing, and so is approvals.login.issuer; want one of identity.providers")
	case !slices.ContainsFunc(k.Identity.Providers, func(p Provider) bool { return p.Issuer == l.Issuer }):
		k.place("operators.login.issuer", "%q is none of identity.providers; put it there, which says what its people are called", l.Issuer)
	case l.ClientID == k.Approvals.Login.ClientID && l.Issuer == k.Approvals.Login.Issuer:
		k.place(at, "%q is approvals.login.client_id, with which the pages log people in; want a client of its own, without a secret", l.ClientID)
	case slices.ContainsFunc(k.Identity.Callers, func(r CallerRule) bool { return r.Client == l.ClientID || r.Client == l.Issuer+"#"+l.ClientID }):
		k.place(at, "%q is that of an agent in identity.callers; want a client by which only people log in", l.ClientID)
	case slices.ContainsFunc(k.Identity.Providers, func(p Provider) bool { return slices.Contains(p.Audience, l.ClientID) }):
		k.place(at, "%q is in the audience of one of identity.providers, which agents take; want a client of its own", l.ClientID)
	}
}
