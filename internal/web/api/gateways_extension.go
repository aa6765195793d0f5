package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/token"
)

// scopes returns the scopes that a scope token of the gateway's agent was issued for. A
// token of another agent is unknown.
func (g *Gateways) scopes(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.ScopesQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	c, err := g.Issuer.ByScopeToken(r.Context(), q.Hash)
	scopes, ok := c.Scopes()
	if err != nil || c.ID == "" || c.Agent != of.Agent || !ok {
		return link.ScopesIssued{}, err
	}
	return link.ScopesIssued{ID: c.ID, Scopes: scopes}, nil
}

// link has a delegation link take its nonce, for all gateways.
func (g *Gateways) link(r *http.Request, _ issuer.Gateway, body []byte) (any, error) {
	var q link.NonceQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	now, until := g.Now(), time.Unix(q.Until, 0)
	if q.ID == "" || q.Link == "" || !until.After(now) || until.After(now.Add(token.MaxLifetime)) {
		return nil, status{http.StatusBadRequest, "want id, link and an end of the link that is to come"}
	}
	named, err := g.Links.Name(r.Context(), gate.NamedLink{ID: q.ID, Link: q.Link, Until: until}, now)
	return link.NonceAnswer{Named: named}, err
}

// policy returns the authority that policy gives a caller at the gateway's agent without
// a capability (EXT-2). The gateway has authenticated the caller, as it does for every
// call.
func (g *Gateways) policy(_ *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.PolicyQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	attributes, err := q.Attributes.Values()
	if err != nil {
		return nil, status{http.StatusBadRequest, "attributes: " + err.Error()}
	}
	allowed := g.Issuer.ByPolicy(of.Agent, identity.Caller{
		Principal: q.Principal, Groups: q.Groups, Roles: q.Roles, Attributes: attributes, Agent: q.Agent, Holder: identity.Holder{ID: q.Holder},
	})
	return link.PolicyAnswer{Authority: allowed.JSON().AppendJSON(nil)}, nil
}

// receipt tells a gateway the receipt of a record that it has shipped.
func (g *Gateways) receipt(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.ReceiptQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	receipt, err := g.Receipt(r.Context(), of.Agent, q.Record)
	if errors.Is(err, issuer.ErrNotFound) {
		return link.ReceiptAnswer{}, nil // it may be on its way
	}
	return link.ReceiptAnswer{Receipt: receipt}, err
}
