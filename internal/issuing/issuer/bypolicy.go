package issuer

import (
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// ByPolicy returns what policy allows a caller at an agent without a capability,
// where the agent's authorization model is ROLE or ATTRIBUTE (EXT-2): the offered
// operations that it permits on the agent itself, with any arguments, and what
// every capability has beside them. It is never passed on. A policy that is about
// single resources, that wants a person's approval, or a grant whose required
// grants are not allowed too (SEP-2), allows nothing here.
func (i *Issuer) ByPolicy(agent string, caller identity.Caller) powerbox.Authority {
	a, ok := i.all()[agent]
	if !ok || caller.Principal == "" {
		return powerbox.Authority{}
	}
	allowed := map[string][]string{} // operations by grant
	for _, g := range a.Grants {
		for _, op := range a.operationsOf(g) {
			if r := i.config.Policy.Permits(caller, a.ID, g.ID, op, nil); r.Allow && r.Approval == "" {
				allowed[g.ID] = append(allowed[g.ID], op)
			}
		}
	}
	var clauses []powerbox.Clause
	add := func(name string) {
		op, err := powerbox.ParseOperation(name)
		if err != nil || slices.ContainsFunc(clauses, func(c powerbox.Clause) bool { return c.Pattern.Matches(op) }) {
			return
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	for _, g := range a.Grants {
		if slices.ContainsFunc(g.Requires, func(id string) bool { return len(allowed[id]) == 0 }) {
			continue
		}
		for _, op := range allowed[g.ID] {
			add(Qualify(a.ID, g.ID, op))
		}
	}
	if len(clauses) == 0 {
		return powerbox.Authority{}
	}
	for _, name := range []string{OperationMessage, OperationTaskRead, OperationTaskCancel} {
		add(name)
	}
	// Policy is asked for every call, so that nothing here outlives its answer.
	out, err := powerbox.NewAuthority(powerbox.Window{Until: i.config.Now().Add(token.MaxLifetime)}, 0, clauses...)
	if err != nil {
		return powerbox.Authority{}
	}
	return out
}
