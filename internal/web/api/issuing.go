package api

import (
	"context"
	"errors"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Issuing answers the extension's methods with the issuer's use cases.
type Issuing struct {
	Issuer *issuer.Issuer
	// Recipient returns the holder that an agent of that name is, and false
	// where it has none.
	Recipient func(agent string) (identity.Holder, bool)
}

// refused is a refusal of the issuer as the caller of a method gets it.
type refused struct{ *issuer.Refusal }

// Unwrap returns the refusal.
func (r refused) Unwrap() error { return r.Refusal }

// Denial words the refusal.
func (r refused) Denial() a2a.Denial {
	d := a2a.Denial{Reason: string(r.Code), Message: r.Error(), DecisionID: r.Record}
	switch r.Code {
	case issuer.CodeUnauthenticated, issuer.CodeHolderUnknown:
		d.Code = a2a.CodeUnauthenticated
	case issuer.CodeQueryInvalid, issuer.CodePurposeMissing, issuer.CodeExpiryInvalid, issuer.CodeGrantUnknown:
		d.Code, d.Fix = a2a.CodeInvalidParams, "fix the parameters"
	case issuer.CodeResourcesUnavailable:
		d.Retryable = true
	default:
	}
	return d
}

func worded(err error) error {
	var r *issuer.Refusal
	if errors.As(err, &r) {
		return refused{r}
	}
	return err
}

// Request answers a2a/capabilities/request (SEP-4).
func (s Issuing) Request(ctx context.Context, agent string, caller identity.Caller, p a2a.RequestParams) (a2a.CapabilitiesResult, error) {
	req := issuer.Request{Grants: p.Grants, Operations: p.Operations, Purpose: p.Purpose, Expires: p.Expires, Task: p.Task, Tenant: p.Tenant, Push: p.Push, Card: p.Card, ScopeToken: p.ScopeToken}
	if p.ResourceQuery.Kind() != powerbox.KindNull {
		q, err := catalogue.ParseQuery(p.ResourceQuery)
		if err != nil {
			return a2a.CapabilitiesResult{}, invalid("resourceQuery: " + err.Error())
		}
		req.Query, req.QueryText = &q, string(p.ResourceQuery.AppendJSON(nil))
	}
	if p.Arguments.Kind() != powerbox.KindNull {
		return a2a.CapabilitiesResult{}, invalid("arguments cannot be narrowed in a request yet; attenuate the capability offline")
	}
	issued, err := s.Issuer.Request(ctx, agent, caller, req)
	if pending := (*issuer.Pending)(nil); errors.As(err, &pending) {
		return a2a.CapabilitiesResult{Pending: &a2a.Pending{
			ID: pending.ID, ApprovalURL: pending.URL, Expires: pending.Expires, Interval: int(pending.Interval.Seconds()),
		}}, nil
	}
	if err != nil {
		return a2a.CapabilitiesResult{}, worded(err)
	}
	return result(issued), nil
}

// invalidParams is a denial for parameters that cannot be used.
type invalidParams struct{ message string }

func invalid(message string) error    { return invalidParams{message} }
func (e invalidParams) Error() string { return e.message }
func (e invalidParams) Denial() a2a.Denial {
	return a2a.Denial{Code: a2a.CodeInvalidParams, Reason: a2a.ReasonParams, Message: "params." + e.message}
}

func result(cs []issuer.Capability) a2a.CapabilitiesResult {
	out := a2a.CapabilitiesResult{Capabilities: make([]a2a.Capability, len(cs))}
	for i, c := range cs {
		out.Capabilities[i] = OnWire(c)
	}
	return out
}

// OnWire shows a capability as its holder may see it: handles and display
// names, never a real identifier (SEP-5, SEP-6).
func OnWire(c issuer.Capability) a2a.Capability {
	w := a2a.Capability{
		ID: c.ID, Grant: c.Grant, Token: c.Token, Operations: c.Operations(), Expires: c.Expires,
		RevocationID: c.RevocationID, Principal: c.Principal, Task: c.Task, Tenant: c.Tenant, Legacy: c.Legacy,
		ResourceHandles: []a2a.ResourceHandle{}, NextResources: c.NextResources,
	}
	if w.Token == "" {
		// A holder without a key presents the id; to the protocol that is a
		// token like any other (SEP-16, SEP-17).
		w.Token = c.ID
	}
	for _, h := range c.Handles {
		w.ResourceHandles = append(w.ResourceHandles, a2a.ResourceHandle{Handle: h.Handle, DisplayName: h.Name})
	}
	return w
}

// Attenuate answers a2a/capabilities/attenuate (SEP-12).
func (s Issuing) Attenuate(ctx context.Context, agent string, caller identity.Caller, p a2a.AttenuateParams) (a2a.CapabilitiesResult, error) {
	child, err := s.Issuer.Narrow(ctx, agent, caller, p.CapabilityID, narrowing(p.Constraints))
	if err != nil {
		return a2a.CapabilitiesResult{}, worded(err)
	}
	return result([]issuer.Capability{child}), nil
}

func narrowing(a a2a.Attenuation) issuer.Narrowing {
	return issuer.Narrowing{Handles: a.ResourceHandles, Operations: a.Operations, Expires: a.Expires}
}

// Revoke answers a2a/capabilities/revoke (SEP-20). A link is named by its hash in
// the answer.
func (s Issuing) Revoke(ctx context.Context, agent string, caller identity.Caller, p a2a.RevokeParams) (a2a.RevokeResult, error) {
	var r issuer.Revocation
	var err error
	if p.Chain != nil {
		r, err = s.Issuer.RevokeLink(ctx, agent, caller, p.Chain, p.Proof)
		p.RevocationID = r.Target
	} else {
		r, err = s.Issuer.Revoke(ctx, agent, caller, p.RevocationID)
	}
	if err != nil {
		return a2a.RevokeResult{}, worded(err)
	}
	return a2a.RevokeResult{RevocationID: p.RevocationID, RevokedAt: r.At}, nil
}

// List answers a2a/capabilities/list.
func (s Issuing) List(ctx context.Context, agent string, caller identity.Caller) (a2a.CapabilitiesResult, error) {
	held, err := s.Issuer.List(ctx, agent, caller)
	if err != nil {
		return a2a.CapabilitiesResult{}, worded(err)
	}
	return result(held), nil
}

// Delegate narrows capabilities that the caller holds for a task at an agent: those of that
// agent for the caller, those of others for that agent (SEP-13). It makes all of them or,
// if one is refused, none.
func (s Issuing) Delegate(ctx context.Context, caller identity.Caller, ids []string, asked map[string]a2a.Attenuation, at string) ([]struct{ Agent, ID string }, error) {
	out := make([]struct{ Agent, ID string }, len(ids))
	var parts []issuer.Part
	var made []int // where the child of each part belongs
	for i, id := range ids {
		parent, err := s.Issuer.Held(ctx, caller, id)
		if err != nil {
			return nil, worded(err)
		}
		n := narrowing(asked[id])
		if parent.Agent == at && n.Handles == nil && n.Operations == nil && n.Expires.IsZero() {
			out[i] = struct{ Agent, ID string }{parent.Agent, parent.ID}
			continue
		}
		if parent.Agent != at {
			holder, ok := s.Recipient(at)
			if !ok {
				return nil, invalid("capabilities: the agent that the task is sent to has no key or client id in the configuration, so nothing can be handed to it")
			}
			n.Recipient, n.Agent = holder, at
		}
		parts, made = append(parts, issuer.Part{Of: parent.Agent, Parent: parent.ID, Narrowing: n}), append(made, i)
	}
	children, err := s.Issuer.NarrowAll(ctx, caller, parts)
	if err != nil {
		return nil, worded(err)
	}
	for k, child := range children {
		out[made[k]] = struct{ Agent, ID string }{child.Agent, child.ID}
	}
	return out, nil
}
