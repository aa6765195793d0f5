package people

import (
	"maps"
	"slices"
	"strings"
)

// Permission is a set of things that a person who operates may do. The zero Permission is
// none, and is given to no person.
type Permission uint8

// The permissions.
const (
	See        Permission = 1 << iota // agents, capabilities, gateways, policies
	Evidence                          // records and their proofs
	Contents                          // bodies that were kept, and keys of digests
	Stop                              // freeze and revoke: takes authority away
	Steer                             // thaw, modes, cards: gives authority
	Administer                        // people, keys, gateways, configuration, erasure
	Approve                           // answer questions whose rule names role:approver

	// LoggedIn is what every person has, with a role or without.
	LoggedIn Permission = 1 << 7
)

// permissionNames are in the order of the bits.
var permissionNames = []string{"see", "evidence", "contents", "stop", "steer", "administer", "approve"}

// Permissions returns each permission alone.
func Permissions() []Permission {
	return []Permission{See, Evidence, Contents, Stop, Steer, Administer, Approve}
}

// Names returns the names of the permissions in a set.
func (p Permission) Names() []string {
	out := []string{}
	for n, name := range permissionNames {
		if p&(1<<n) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// String returns the names.
func (p Permission) String() string { return strings.Join(p.Names(), " or ") }

// Any reports whether a set has one of the wanted permissions.
func (p Permission) Any(wanted Permission) bool { return p&wanted != 0 }

// NeedsFresh reports whether only a person who has logged in just now may use a
// permission: it gives authority, or administers. An agent may have a person's session.
func (p Permission) NeedsFresh() bool { return p&(Steer|Administer) != 0 }

// Role is a name for what a person may do.
type Role struct {
	Name string
	May  Permission
	Says string // for documents
}

// RoleApprover is also who answers where a rule of approvals names the role.
const RoleApprover = "approver"

// The roles that other settings stand for.
const (
	RoleOperator      = "operator"      // approvals.operators
	RoleAdministrator = "administrator" // agent_auth.administrators
)

// Roles is the table of roles.
func Roles() []Role {
	return []Role{
		{"viewer", See | Evidence, "sees every page, and changes nothing"},
		{RoleApprover, Approve, "answers the questions whose rule names role:approver"},
		{"auditor", Evidence | Contents, "reads and exports the evidence, with bodies that were kept"},
		{RoleOperator, See | Evidence | Contents | Stop | Steer, "sees everything, freezes, revokes, thaws, sets modes, accepts cards"},
		{RoleAdministrator, See | Evidence | Contents | Stop | Steer | Administer, "does all that, and looks after people, keys, gateways and the configuration"},
	}
}

// PermissionOf returns the permissions of a role; none of a name that is no role.
func PermissionOf(role string) Permission {
	for _, r := range Roles() {
		if r.Name == role {
			return r.May
		}
	}
	return 0
}

// Given is a role that some people have at some agents.
type Given struct {
	Role   string
	Who    []string // principals
	Groups []string // of people, as their identity provider says
	// Everywhere says that it is held at every agent and for the server as a whole.
	// Otherwise it is held at Agents alone.
	Everywhere bool
	Agents     []string
}

// To reports whether a person has the role.
func (g Given) To(principal string, groups []string) bool {
	return principal != "" && (slices.Contains(g.Who, principal) || slices.ContainsFunc(g.Groups, func(group string) bool { return slices.Contains(groups, group) }))
}

// Rights are what one person may do here. The zero Rights are those of a person without a
// role.
type Rights struct {
	everywhere Permission
	at         map[string]Permission // by agent
	roles      []string
}

// RightsOf adds up the roles of a person.
func RightsOf(given []Given, principal string, groups []string) Rights {
	var r Rights
	for _, g := range given {
		if !g.To(principal, groups) {
			continue
		}
		if !slices.Contains(r.roles, g.Role) {
			r.roles = append(r.roles, g.Role)
		}
		if g.Everywhere {
			r.everywhere |= PermissionOf(g.Role)
			continue
		}
		if r.at == nil {
			r.at = map[string]Permission{}
		}
		for _, agent := range g.Agents {
			r.at[agent] |= PermissionOf(g.Role)
		}
	}
	return r
}

// AllRights are those of the shared token of operators.
func AllRights() Rights {
	return Rights{everywhere: PermissionOf(RoleAdministrator), roles: []string{RoleAdministrator}}
}

// Equal reports whether two people may do the same.
func (r Rights) Equal(other Rights) bool {
	return r.everywhere == other.everywhere && maps.Equal(r.at, other.at)
}

// Roles are the names of the roles.
func (r Rights) Roles() []string { return slices.Clone(r.roles) }

// May reports whether one of the wanted permissions is held for the server as a whole.
func (r Rights) May(wanted Permission) bool { return r.everywhere.Any(wanted) }

// MayAt reports whether one of the wanted permissions is held at an agent.
func (r Rights) MayAt(wanted Permission, agent string) bool {
	return r.everywhere.Any(wanted) || r.at[agent].Any(wanted)
}

// Somewhere reports whether one of the wanted permissions is held anywhere.
func (r Rights) Somewhere(wanted Permission) bool {
	if r.everywhere.Any(wanted) {
		return true
	}
	for _, at := range r.at {
		if at.Any(wanted) {
			return true
		}
	}
	return false
}

// Agents returns the agents at which one of the wanted permissions is held, in order; all
// reports that it is held at every agent.
func (r Rights) Agents(wanted Permission) (agents []string, all bool) {
	if r.everywhere.Any(wanted) {
		return nil, true
	}
	for agent, at := range r.at {
		if at.Any(wanted) {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	return agents, false
}
