package oauth

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// The names of token exchange (RFC 8693).
const (
	GrantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	TypeAccess    = "urn:ietf:params:oauth:token-type:access_token"
)

// Exchange is a request to exchange an access token for a narrower one: the client's own, or
// that of a client which handed work to it.
type Exchange struct{ Subject, SubjectType, Scope, Details, Resource, Audience, Wanted string }

// Exchange narrows the capabilities of a token for the client. A token of another client
// becomes one of this client, where the operator lets it exchange and the capabilities may
// be passed on. The chain of holders on record is in the token (act). The new token ends with the
// old one: otherwise a thief of an access token could exchange it again and again.
func (s *Server) Exchange(ctx context.Context, c Client, e Exchange) (Tokens, error) {
	t, ok := s.signer.read(e.Subject)
	switch {
	case e.SubjectType != TypeAccess || e.Wanted != "" && e.Wanted != TypeAccess:
		return Tokens{}, Errorf(InvalidRequest, "subject_token_type and requested_token_type must be %s", TypeAccess)
	case !ok || s.config.Now().Unix() >= t.Expires:
		return Tokens{}, Errorf(InvalidGrant, "subject_token is no access token of this server, or has ended")
	case t.Client != c.ID && (!c.Exchanges || c.Secret == ""):
		return Tokens{}, Errorf(Unauthorized, "this client may not exchange tokens of other clients; the operator can let it: oauth.clients, exchanges")
	case e.Resource != "" && e.Resource != t.Audience, e.Audience != "" && e.Audience != t.Audience:
		return Tokens{}, Errorf(InvalidTarget, "resource or audience is not that of the subject_token")
	}
	of, err := s.Resource(t.Audience)
	if err != nil {
		return Tokens{}, err
	}
	_, usable, err := s.config.Issuing.InForceOf(ctx, t.Capabilities)
	if err != nil {
		return Tokens{}, err
	}
	if len(usable) == 0 {
		return Tokens{}, Errorf(InvalidGrant, "the capabilities of subject_token have ended, were revoked, or are frozen")
	}
	issued, err := s.narrow(ctx, of, c, t, usable, e)
	if err != nil {
		return Tokens{}, err
	}
	out, err := s.tokens(of, sealed{Client: c.ID, Principal: t.Subject, Resource: t.Audience}, issued, actorOf(issued[0]), time.Unix(t.Expires, 0))
	out.Kind = TypeAccess
	return out, err
}

// limits reads to what a token is narrowed.
func (e Exchange) limits(of Resource) (grants []string, operations map[string][]string, until time.Time, err error) {
	d, err := readDetails(e.Details, of)
	switch {
	case err != nil:
		return nil, nil, until, err
	case !d.any():
		grants, operations, err = of.wanted(e.Scope)
		return grants, operations, until, err
	case strings.TrimSpace(e.Scope) != "":
		return nil, nil, until, Errorf(InvalidRequest, "scope and authorization_details stand together; want one of them")
	case d.purpose != "":
		return nil, nil, until, Errorf(InvalidDetails, "the purpose is that of subject_token; leave purpose out")
	}
	grants, operations = d.grants()
	return grants, operations, d.expires, nil
}

// narrow narrows capabilities to a scope or details, for a client. What the token does not
// have is refused, whatever else could be narrowed.
func (s *Server) narrow(ctx context.Context, of Resource, c Client, t claims, live []issuer.Capability, e Exchange) ([]issuer.Capability, error) {
	grants, operations, until, err := e.limits(of)
	if err != nil {
		return nil, err
	}
	var chosen []issuer.Capability
	for _, grant := range grants {
		i := slices.IndexFunc(live, func(l issuer.Capability) bool { return l.Grant == grant })
		switch {
		case i < 0 && strings.TrimSpace(e.Scope) == "" && e.Details == "":
			continue // all that the token has
		case i < 0:
			return nil, Errorf(InvalidScope, "subject_token has nothing of %q; a token can only be narrowed", grant)
		}
		chosen = append(chosen, live[i])
	}
	if len(chosen) == 0 { // the operator took the grants out of the offers
		return nil, Errorf(InvalidGrant, "%s no longer offers anything that subject_token has; authorize again", of.Agent)
	}
	to := s.caller(c.ID, t.Subject, nil)
	parts := make([]issuer.Part, len(chosen))
	for n, parent := range chosen {
		parts[n] = issuer.Part{Of: of.Agent, Parent: parent.ID, Narrowing: issuer.Narrowing{Operations: operations[parent.Grant], Expires: until}}
		if t.Client != c.ID {
			parts[n].Recipient, parts[n].Agent = identity.Holder{ID: to.Holder.ID}, to.Agent
		}
	}
	out, err := s.config.Issuing.NarrowAll(ctx, s.caller(t.Client, t.Subject, nil), parts)
	if err != nil {
		return nil, asExchange(err)
	}
	return out, nil
}

// asExchange words a refusal to narrow.
func asExchange(err error) error {
	no, ok := refused(err).(*Error) //nolint:errorlint // refused returns it as it is
	if !ok {
		return err
	}
	return Errorf(InvalidScope, "%s", no.Message)
}

// actorOf is the chain of holders of a capability: who acts, and for whom; nil where it was
// passed on to no caller.
func actorOf(c issuer.Capability) *Actor {
	chain := slices.Compact(append(slices.Clone(c.Through), c.Holder))
	if len(chain) < 2 {
		return nil
	}
	var act *Actor
	for _, holder := range chain {
		act = &Actor{Subject: holder, Actor: act}
	}
	return act
}
