package provider

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Tokens says whether agents can have attenuating tokens for their grants: an
// extension of the protocol, off unless it is configured (docs/how-to/agent-auth.md).
type Tokens struct {
	Enabled  bool
	Lifetime time.Duration // of one, at the longest
	Depth    int           // how often one may be passed on
}

// depth is how often the capability on record for a grant may be passed on: the token is
// the agent's key's, which is the first time.
func (t Tokens) depth() int {
	if !t.Enabled {
		return 0
	}
	return t.Depth + 1
}

// TokenRequest is an agent's request for tokens.
type TokenRequest struct {
	Capabilities []string
	// Arguments are those that calls may have beside the ones that are constrained or
	// required, by capability: a token admits exactly the arguments that it names.
	Arguments map[string][]string
	Lifetime  time.Duration // 0 for as long as it can be
}

// maxTokens is how many tokens one request is for.
const maxTokens = 16

// IssueTokens issues attenuating tokens for grants in force, bound to the agent's key.
// They are children of the capabilities on record for the grants. They end with those,
// with the agent's session as it stands, or when its key is replaced.
func (p *Provider) IssueTokens(ctx context.Context, s Session, r TokenRequest) ([]issuer.Capability, error) {
	switch {
	case !p.config.Tokens.Enabled:
		return nil, agentauth.Errorf(agentauth.CodeNotFound, "this provider issues no tokens for grants")
	case len(r.Capabilities) == 0 || len(r.Capabilities) > maxTokens:
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "capabilities; want 1 to %d names", maxTokens)
	case s.Agent.KeysURL != "":
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent's keys are at a URL, and a token is bound to one key; register an agent with a key of its own")
	case r.Lifetime < 0:
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "expires_in is negative")
	}
	v, err := powerbox.ParseValue(s.Agent.Key)
	if err != nil {
		return nil, err
	}
	key, err := agentauth.ParseKey(v)
	if err != nil {
		return nil, err
	}
	var out []issuer.Capability
	for _, name := range r.Capabilities {
		c, err := p.issueToken(ctx, s, key, name, r)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// issueToken issues the token of one capability, for the newest grant of it that a
// token can say.
func (p *Provider) issueToken(ctx context.Context, s Session, key token.PublicKey, name string, r TokenRequest) (issuer.Capability, error) {
	c := p.capabilities[name]
	switch {
	case c == nil || c.Blocked || !s.token.Allows(name):
		return issuer.Capability{}, agentauth.Errorf(agentauth.CodeNotGranted, "%q is not granted to this agent", clipped(name))
	case !c.Budgets.none():
		return issuer.Capability{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "%q has a budget, which only the provider can count; execute it here", name)
	}
	now := p.config.Now()
	until := s.Agent.expires()
	for _, life := range []time.Duration{p.config.Tokens.Lifetime, r.Lifetime} {
		if end := now.Add(life); life > 0 && end.Before(until) {
			until = end
		}
	}
	refused := error(agentauth.Errorf(agentauth.CodeNotGranted, "%q is not granted to this agent", name))
	for _, g := range slices.Backward(s.Grants) {
		if g.Capability != name || !g.Effective(now) {
			continue
		}
		shape, err := p.closed(g, c, r.Arguments[name])
		if err != nil {
			return issuer.Capability{}, err
		}
		end := until
		if !g.Expires.IsZero() && g.Expires.Before(end) {
			end = g.Expires
		}
		made, err := p.config.Issuer.Narrow(ctx, p.config.Agent, identity.Caller{Principal: s.Agent.User, Holder: identity.Holder{ID: s.holder()}}, g.Record, issuer.Narrowing{
			Shapes: map[string]powerbox.Shape{name: shape}, Expires: end, Recipient: identity.Holder{ID: "key:" + key.Thumbprint(), Key: key}, Agent: s.holder(),
		})
		refusal := (*issuer.Refusal)(nil)
		switch {
		case errors.As(err, &refusal):
			refused = &agentauth.Error{Code: agentauth.CodeUnauthorized, Message: "no token can be issued for " + name + ": " + refusal.Error(), Decision: refusal.Record}
			continue
		case err != nil:
			return issuer.Capability{}, err
		case made.Token == "":
			refused = agentauth.Errorf(agentauth.CodeInvalidRequest, "no token can say the constraints of the grant of %q; execute it here", name)
			continue
		}
		return made, nil
	}
	return issuer.Capability{}, refused
}

func (s *Session) holder() string { return holder(s.Agent.ID) }

// closed returns the arguments that a grant admits, as far as a token can express them.
// With any constraint a token names all arguments. So it admits only those that are
// constrained, required by the schema, or in the request.
func (p *Provider) closed(g Grant, c *Capability, also []string) (powerbox.Shape, error) {
	shape, left, err := p.within(g)
	if err == nil && !left {
		err = agentauth.Errorf(agentauth.CodeNotGranted, "nothing of what was granted of %q remains within what the operator admits by now", c.Name)
	}
	if err != nil || len(shape.Fields()) == 0 && len(also) == 0 {
		return shape, err
	}
	fields := slices.Clone(shape.Fields())
	for i := range fields {
		fields[i].Required = true
	}
	required, _ := c.Input.Get("required")
	elements, _ := required.Elements()
	names := slices.Clone(also)
	for _, e := range elements {
		if name, ok := e.Text(); ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(fields, func(f powerbox.Field) bool { return f.Name == name }) {
			fields = append(fields, powerbox.Field{Name: name, Constraint: powerbox.Wildcard{}, Required: true})
		}
	}
	return powerbox.NewShape(powerbox.RestNone, fields...)
}

// endTokens ends the tokens that were issued to the agent's key so far: it is dead
// everywhere (section 5.8).
func (p *Provider) endTokens(tx issuer.CapabilityWriter, u *unit, a Agent, by string, now time.Time) error {
	if !p.config.Tokens.Enabled {
		return nil
	}
	r := issuer.Revocation{Kind: issuer.KindEpoch, Target: issuer.EndsHolder("key:" + a.Thumbprint), By: by, Reason: "the agent's key was replaced", At: now, Until: now.Add(p.config.Tokens.Lifetime)}
	var err error
	if r.Sequence, err = tx.Revoke(r); err == nil {
		u.revoked = append(u.revoked, r)
	}
	return err
}
