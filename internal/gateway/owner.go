package gateway

import (
	"slices"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

// maxNamed is how many tasks and contexts one call can name.
const maxNamed = 64

// owns answers whether the tasks and contexts that a call names are the
// caller's (ATK-18). In observe an unknown one is nobody's and may pass.
func (g *Gateway) owns(x *exchange, c *gate.Call) error {
	named := append([]string{x.call.Task, x.call.Context}, x.call.ReferenceTasks...)
	if x.call.Method == a2a.ListTasks {
		named = []string{x.call.Task} // of a context that is not the caller's the list is empty
	}
	names := slices.DeleteFunc(named, func(s string) bool { return s == "" })
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxNamed {
		c.Refused = append(c.Refused, gate.Reason{Code: a2a.ReasonTask, Link: -1, Message: "a call can name at most 64 tasks and contexts"})
		return nil
	}
	if len(names) == 0 {
		return nil
	}
	owners := make(map[string]Owner, len(names))
	for _, name := range names {
		o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, x.call.Tenant, name)
		if err != nil {
			return err
		}
		if !known && x.claimable(name) {
			x.claims = true
			continue
		}
		if !known {
			c.Owns = func(gate.Held) bool { return false }
			return nil
		}
		owners[name] = o
	}
	var beside *Owner
	if x.losesTenant() {
		o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, "", x.call.Task)
		if err != nil {
			return err
		}
		if known {
			beside = &o
		}
	}
	c.Owns = func(held gate.Held) bool {
		mine := g.ownerOf(x, held)
		if mine == (Owner{}) {
			return false // two callers of whom nothing is known are not the same one
		}
		for name, o := range owners {
			// A capability that was issued for the very task was issued to its
			// owner.
			if o != mine && (held.Task != name || held.Tenant != x.call.Tenant || o.Principal != held.Principal) {
				return false
			}
		}
		return beside == nil || *beside == mine
	}
	return nil
}

// losesTenant reports whether the agent may take the call for one about the task of
// that id which is in no tenant: what a2a-go 2.4.0 serves over gRPC has no tenant of
// CancelTask and SubscribeToTask.
func (x *exchange) losesTenant() bool {
	return x.call.Binding == a2a.GRPC && x.call.Tenant != "" && !x.ReadsTenants && (x.call.Method == a2a.CancelTask || x.call.Method == a2a.SubscribeToTask)
}

// claimable reports whether a name that nobody has may be taken by the call: by
// a message, for its context, where callers choose those. In a tenant, and in none
// beside tenants, nobody has it only where the agent tells them apart: to one that does
// not read them the name may be somebody's all the same.
func (x *exchange) claimable(name string) bool {
	return x.ClientContexts && x.tellsTenants() && x.mode != gate.Observe && x.call.Method.IsMessage() && x.call.Task == "" && name == x.call.Context &&
		!slices.Contains(x.call.ReferenceTasks, name)
}

// tellsTenants reports whether the agent behind reads the tenant of the call, or that it
// has none: its card declares so, or has an interface of that tenant.
func (x *exchange) tellsTenants() bool {
	return x.view.card.HasTenant(x.call.Tenant) || x.view.contract.Supports("multi_tenant")
}

// claim makes the context that the call names the caller's, before the agent
// behind hears of it. Where two claim one at a time the first has it, and false
// says that it was the other.
func (g *Gateway) claim(x *exchange) (bool, error) {
	if !x.claims {
		return true, nil
	}
	mine := g.ownerOf(x, x.verdict.Held)
	first, err := g.config.Tasks.Bind(x.request.Context(), x.ID, x.call.Tenant, x.call.Context, mine)
	return first == mine, err
}

// ownerOf is to whom what a call makes belongs: the holder, under the root of
// the capability that allowed it, and otherwise the caller. What somebody else
// holds of the same root, narrowed for them, is theirs: a delegate neither sees
// nor ends the tasks of whoever delegated to it.
func (g *Gateway) ownerOf(x *exchange, held gate.Held) Owner {
	if x.owner != nil {
		return *x.owner
	}
	if held.Holder != "" {
		return Owner{Root: held.Root, Principal: held.Principal, Holder: held.Holder}
	}
	return Owner{Principal: g.config.Pseudonym(x.ID, x.caller.Principal), Holder: x.caller.Holder.ID}
}
