package gateway

import (
	"errors"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// maxNamed is how many tasks and contexts one call can name.
const maxNamed = 64

// reference is what a call or an answer names, and what someone owns: ids of tasks and of
// contexts are apart.
type reference struct {
	kind referenceKind
	id   string
}

type referenceKind uint8

const (
	aTask referenceKind = iota
	aContext
	aSession    // of MCP
	sendsToURLs // a session whose client sends people to URLs
	anEnd       // of a task, among the names of an answer
)

// names are those that one answer told, each once.
type names struct {
	told  map[reference]bool
	bytes int
}

const (
	// maxNames bounds the names of one answer: an agent can stream new ones without end.
	maxNames = 64 << 10
	// nameBytes is what a name takes beside its characters.
	nameBytes = 64
)

// errNames is an answer with more names than one call is about.
var errNames = errors.New("the answer names more tasks and contexts than one call is about")

// add reports whether a name is new in the answer.
func (n *names) add(name reference) (fresh bool, err error) {
	if n.told[name] {
		return false, nil
	}
	if n.bytes += len(name.id) + nameBytes; n.bytes > maxNames {
		return false, errNames
	}
	if n.told == nil {
		n.told = map[reference]bool{}
	}
	name.id = strings.Clone(name.id) // and not the event that it stands in
	n.told[name] = true
	return true, nil
}

func taskNamed(id string) reference    { return reference{aTask, id} }
func contextNamed(id string) reference { return reference{aContext, id} }
func sessionNamed(id string) reference { return reference{aSession, id} }

// key is the name under which its owner is remembered.
func (t reference) key() string {
	switch t.kind {
	case aContext:
		return a2a.ContextKey(t.id)
	case aSession:
		return a2a.SessionKey(t.id)
	case sendsToURLs:
		return a2a.URLsKey(t.id)
	default:
		return a2a.TaskKey(t.id)
	}
}

// things are the tasks and contexts that a call names, each once, which must be the
// caller's. Of a context that is not, a list is empty.
func (x *decoded) things() []reference {
	var all []reference
	add := func(t reference) {
		if t.id != "" && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	add(taskNamed(x.call.Task))
	if x.call.Method == a2a.ListTasks {
		return all
	}
	if session, ok := x.session(); ok {
		add(sessionNamed(session))
		return all
	}
	add(contextNamed(x.call.Context))
	for _, id := range x.call.ReferenceTasks[:min(len(x.call.ReferenceTasks), maxNamed+1)] {
		add(taskNamed(id))
	}
	return all
}

// owns answers whether the tasks and contexts that a call names are the
// caller's (ATK-18). In observe an unknown one has no owner and may pass.
func (g *Gateway) owns(x *decoded, tried *attempted, c *gate.Call) error {
	names := x.things()
	if len(names) > maxNamed {
		c.Refused = append(c.Refused, evidence.Reason{Code: a2a.ReasonTask, Message: "a call can name at most 64 tasks and contexts"})
		return nil
	}
	if len(names) == 0 {
		return nil
	}
	owners := make(map[reference]Owner, len(names))
	for _, name := range names {
		o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, x.call.Tenant, name.key())
		if err != nil {
			return err
		}
		if !known && x.claimable(name) {
			tried.claims = true
			continue
		}
		if !known {
			c.Ask.Owns = func(gate.Held) bool { return false }
			return nil
		}
		owners[name] = o
	}
	var beside *Owner
	if x.losesTenant() {
		o, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, "", taskNamed(x.call.Task).key())
		if err != nil {
			return err
		}
		if known {
			beside = &o
		}
	}
	c.Ask.Owns = func(held gate.Held) bool {
		mine := g.ownerOf(x, held)
		if mine == (Owner{}) {
			return false // two callers of whom nothing is known are not the same one
		}
		for name, o := range owners {
			// A capability that was issued for the very task was issued to its
			// owner.
			if o != mine && (held.Task != name.id || name.kind != x.kindOf(g, held.Task) || held.Tenant != x.call.Tenant || o.Principal != held.Principal) {
				return false
			}
		}
		return beside == nil || *beside == mine
	}
	return nil
}

// kindOf says what a capability was issued for by an id: a task, where there is one of it,
// and otherwise a context, as its issuer took it.
func (x *decoded) kindOf(g *Gateway, id string) referenceKind {
	_, known, err := g.config.Tasks.Owner(x.request.Context(), x.ID, x.call.Tenant, taskNamed(id).key())
	if err == nil && !known {
		return aContext
	}
	return aTask
}

// losesTenant reports whether the agent may take the call for one about the task of
// that id which is in no tenant: what a2a-go 2.4.0 serves over gRPC has no tenant of
// CancelTask and SubscribeToTask.
func (x *decoded) losesTenant() bool {
	return x.call.Binding == a2a.GRPC && x.call.Tenant != "" && !x.ReadsTenants && (x.call.Method == a2a.CancelTask || x.call.Method == a2a.SubscribeToTask)
}

// claimable reports whether an unused name may be taken by the call: by
// a message, for its context, where callers choose those. In a tenant, and in none
// beside tenants, it is unused only if the agent tells them apart: to one that does
// not read them the name may be someone's all the same.
func (x *decoded) claimable(name reference) bool {
	return x.ClientContexts && x.tellsTenants() && x.mode != gate.Observe && x.call.Method.IsMessage() && x.call.Task == "" && name == contextNamed(x.call.Context)
}

// tellsTenants reports whether the agent behind reads the tenant of the call, or that it
// has none: its card declares so, or has an interface of that tenant.
func (x *decoded) tellsTenants() bool {
	return x.view.card.HasTenant(x.call.Tenant) || x.view.contract.Supports("multi_tenant")
}

// claim makes the context that the call names the caller's, before the agent
// behind hears of it. Where two claim one at a time the first has it, and false
// says that it was the other.
func (g *Gateway) claim(x *decided) (bool, error) {
	if !x.claims {
		return true, nil
	}
	mine := g.ownerOf(x.decoded, x.verdict.Held)
	first, err := g.config.Tasks.Bind(x.request.Context(), x.ID, x.call.Tenant, contextNamed(x.call.Context).key(), mine)
	return first == mine, err
}

// ownerOf is to whom what a call makes belongs: the holder, under the root of
// the capability that allowed it, and otherwise the caller. What someone else
// holds of the same root, narrowed for them, is theirs: a delegate neither sees
// nor ends the tasks of the one who delegated to it.
//
// What the client of an access token makes belongs to it for the person, so that it keeps
// that with a wider token.
func (g *Gateway) ownerOf(x *decoded, held gate.Held) Owner {
	if x.released != nil {
		return x.released.Owner
	}
	if held.Holder != "" && x.caller.Token.IsZero() {
		return Owner{Root: held.Root, Principal: held.Principal, Holder: held.Holder}
	}
	return Owner{Principal: g.config.Pseudonym(x.ID, x.caller.Principal), Holder: x.caller.Holder.ID}
}
