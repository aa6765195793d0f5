package gateway

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/token"
)

// contextLife is how long a context is good. It is for one request.
const contextLife = time.Minute

// sign puts the context of a body into headers for the agent, unless it gets none.
func (g *Gateway) sign(h http.Header, x *decided, delegated []Delegated, body []byte) error {
	if x.NoContext {
		return nil
	}
	signed, err := g.context(x, delegated, body)
	if err == nil {
		h.Set(HeaderContext, signed)
	}
	return err
}

// context signs the facts for the agent: the caller, its authority, and
// which resources are meant. It is the only place where real identifiers leave
// the gateway.
func (g *Gateway) context(x *decided, delegated []Delegated, body []byte) (string, error) {
	now, v := g.config.Now(), x.verdict
	handles, err := g.handles(x)
	if err != nil {
		return "", err
	}
	under, err := x.withoutUnapproved(v)
	if err == nil {
		under, err = x.underSkill(under)
	}
	if err != nil {
		return "", err
	}
	return x.contexts.Sign(x.Signer(), token.Context{
		Issuer: x.URL, Audience: x.ID, IssuedAt: now, Expires: now.Add(contextLife),
		Principal: principal(x, v, g), Holder: holder(x, v),
		Capability: v.Held.Capability, Root: v.Held.Root,
		Mode: string(x.mode), Basis: basis(v), Decision: v.Record.ID, Task: x.call.Task, Tenant: x.call.Tenant,
		Authority: under, Handles: handles, Delegated: g.delegations(delegated), Digest: token.DigestOf(body),
		Labels: labels(v),
	})
}

// withoutUnapproved is what a person has approved, exactly. Without that it leaves out what a person would have to approve, and has not:
// the agent behind must not take this call for a yes to it.
func (x *decided) withoutUnapproved(v gate.Verdict) (powerbox.Authority, error) {
	if v.Held.Digest != "" {
		return x.exactly(v.Under)
	}
	if !slices.ContainsFunc(v.Under.Clauses(), x.unsaid) {
		return v.Under, nil
	}
	kept := slices.DeleteFunc(slices.Clone(v.Under.Clauses()), x.unsaid)
	return powerbox.NewAuthority(v.Under.Window(), v.Under.Depth(), kept...)
}

// unsaid reports whether the agent behind is not told of a clause: this call gives no right
// to it.
func (x *decided) unsaid(c powerbox.Clause) bool { return x.unapproved(c) || !x.mayFlow(c) }

func (x *decided) unapproved(c powerbox.Clause) bool {
	for _, s := range x.Skills {
		if s.Approval && c.Pattern.Matches(s.Operation) {
			return true
		}
	}
	return false
}

// underSkill is what the agent behind may do for this call: what the verdict says,
// and at the URL of a skill no operation but that skill's. The words that come
// with it could ask for another one.
func (x *decided) underSkill(a powerbox.Authority) (powerbox.Authority, error) {
	if x.skill == "" || !x.isNamed {
		return a, nil
	}
	kept := slices.DeleteFunc(slices.Clone(a.Clauses()), func(c powerbox.Clause) bool {
		return !c.Pattern.Matches(x.mapped.Operation) && !slices.ContainsFunc(slices.Collect(maps.Values(reserved)), c.Pattern.Matches)
	})
	return powerbox.NewAuthority(a.Window(), a.Depth(), kept...)
}

// delegations are the capabilities of other agents that came with the call and
// were narrowed for the agent behind (SEP-13).
func (g *Gateway) delegations(delegated []Delegated) []token.ContextDelegation {
	var out []token.ContextDelegation
	for _, d := range delegated {
		if issuer, ok := g.all()[d.Agent]; ok {
			out = append(out, token.ContextDelegation{Agent: issuer.URL, Capability: d.ID})
		}
	}
	return out
}

// labels are those of all that the caller had read.
func labels(v gate.Verdict) []token.ContextLabel {
	if v.Data == nil {
		return nil
	}
	var out []token.ContextLabel
	for _, l := range v.Data.Labels {
		out = append(out, token.ContextLabel{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential})
	}
	return out
}

func principal(x *decided, v gate.Verdict, g *Gateway) string {
	if v.Held.Principal != "" {
		return v.Held.Principal
	}
	return g.config.Pseudonym(x.ID, x.caller.Principal)
}

func holder(x *decided, v gate.Verdict) string {
	if v.Held.Holder != "" {
		return v.Held.Holder
	}
	return x.caller.Holder.ID
}

func basis(v gate.Verdict) string {
	if v.Basis == gate.OnNothing {
		return string(gate.OnAmbient)
	}
	return string(v.Basis)
}

// handles are the resources that the call may touch: those that its authority
// lists, or, where its operations take no handle (search, list), all those of
// the capability on record. Without a capability nothing bounds them.
func (g *Gateway) handles(x *decided) (map[string]token.ContextHandle, error) {
	v := x.verdict
	if v.Basis != gate.OnCapability {
		return nil, nil
	}
	held, err := g.config.Resources.Held(x.request.Context(), v.Held.OnRecord)
	if err != nil {
		return nil, err
	}
	listed, bounded := x.listedHandles(v.Under)
	if !bounded {
		if listed, err = x.withinChain(held, v.Held.Chain); err != nil {
			return nil, err
		}
	}
	out := map[string]token.ContextHandle{}
	for _, h := range listed {
		if !slices.Contains(held, h) {
			continue // policy has taken it away since
		}
		if id, name, ok := g.config.Resources.Open(x.ID, v.Held.Root, h); ok {
			out[h] = token.ContextHandle{ID: id, Name: name}
		}
	}
	return out, nil
}

// withinChain leaves the handles that every link of a chain admits: a link that
// keeps only operations without a handle must not bring back what one before
// it has taken away (SEP-12).
func (x *decided) withinChain(handles, chain []string) ([]string, error) {
	if len(chain) < 2 {
		return handles, nil
	}
	u, err := token.ParseChain(chain)
	if err != nil {
		return nil, err
	}
	kept := slices.Clone(handles)
	for _, link := range u.Describe() {
		a, err := powerbox.NewAuthority(powerbox.Window{Until: link.Expires}, 0, link.Tools...)
		if err != nil {
			return nil, err
		}
		if listed, bounded := x.listedHandles(a); bounded {
			kept = slices.DeleteFunc(kept, func(h string) bool { return !slices.Contains(listed, h) })
		}
	}
	return kept, nil
}

// listedHandles returns the handles that an authority admits, and whether any
// of its operations takes one.
func (x *decided) listedHandles(a powerbox.Authority) (handles []string, bounded bool) {
	for _, s := range x.Skills {
		shape, ok := a.Shape(s.Operation)
		if !ok || s.Handle == "" {
			continue
		}
		field, ok := shape.Field(s.Handle)
		if !ok {
			continue
		}
		bounded = true
		for _, v := range values(field.Constraint) {
			if h, ok := v.Text(); ok {
				handles = append(handles, h)
			}
		}
	}
	return handles, bounded
}

// values returns the values that a constraint lists.
func values(c powerbox.Constraint) []powerbox.Value {
	switch c := c.(type) {
	case powerbox.ExactValue:
		return []powerbox.Value{c.Value}
	case powerbox.OneOf:
		return c.Values
	default:
		return nil
	}
}
