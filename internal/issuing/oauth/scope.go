package oauth

import (
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Resource is an agent that clients reach by OAuth.
type Resource struct {
	Agent  string
	URL    string // its public URL, which is the resource indicator (RFC 8707)
	Grants []Offer
}

// Offer is a grant of an agent with its operations.
type Offer struct {
	ID         string
	Operations []string
}

// Scopes are all scopes of a resource: its grants.
func (r Resource) Scopes() []string {
	out := make([]string, len(r.Grants))
	for n, g := range r.Grants {
		out[n] = g.ID
	}
	return out
}

// maxScopes is how many scopes one request can have.
const maxScopes = 64

// OfflineAccess is the scope of clients that want refresh tokens. Some clients that have one never
// send their person to authorize a wider scope, so it is not given to others.
const OfflineAccess = "offline_access"

// wanted reads a scope: the grants of it, each with the operations where it has not all
// of them. An empty scope is all that the resource offers.
func (r Resource) wanted(scope string) (grants []string, of map[string][]string, err error) {
	names := slices.DeleteFunc(strings.Fields(scope), func(s string) bool { return s == OfflineAccess })
	if len(names) > maxScopes {
		return nil, nil, Errorf(InvalidScope, "there are %d scopes; want at most %d", len(names), maxScopes)
	}
	if len(names) == 0 {
		return r.Scopes(), nil, nil
	}
	of = map[string][]string{}
	whole := map[string]bool{}
	for _, name := range names {
		grant, operation, single := r.find(name)
		if grant == "" {
			return nil, nil, Errorf(InvalidScope, "%s offers no scope %.100q; there are %s", r.Agent, name, strings.Join(r.Scopes(), ", "))
		}
		if !slices.Contains(grants, grant) {
			grants = append(grants, grant)
		}
		switch {
		case !single:
			whole[grant] = true
		case !slices.Contains(of[grant], operation):
			of[grant] = append(of[grant], operation)
		}
	}
	slices.Sort(grants)
	for grant := range of {
		if slices.Sort(of[grant]); whole[grant] {
			delete(of, grant)
		}
	}
	return grants, of, nil
}

// find returns the grant of a scope, and the operation where it names a single one.
func (r Resource) find(scope string) (grant, operation string, single bool) {
	for _, g := range r.Grants {
		if g.ID == scope {
			return g.ID, "", false
		}
		for _, op := range g.Operations {
			if g.ID+"/"+op == scope {
				return g.ID, op, true
			}
		}
	}
	return "", "", false
}

// scopeOf words capabilities as a scope.
func (r Resource) scopeOf(all []issuer.Capability) string {
	var out []string
	for _, c := range all {
		have := c.Operations()
		i := slices.IndexFunc(r.Grants, func(g Offer) bool { return g.ID == c.Grant })
		if i >= 0 && !slices.ContainsFunc(r.Grants[i].Operations, func(op string) bool { return !slices.Contains(have, op) }) {
			out = append(out, c.Grant)
			continue
		}
		for _, op := range have {
			out = append(out, c.Grant+"/"+op)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
