package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// codeScopesNotTaken is the reason of a gate that has no record of scope tokens.
const codeScopesNotTaken = "scope_tokens_not_taken"

// codeDelegation is the reason of a target that accepts no delegation links.
const codeDelegation = "delegation_not_supported"

// PresentedScopes is a scope token with its links as they came, JSON. Links is
// nil where none came.
type PresentedScopes struct{ Token, Links []byte }

// Scopes resolves scope tokens and delegation links (EXT-5 to EXT-14): the token
// under the target's own keys, the links under the keys that their delegators
// are, all of it bounded by what the issuer has on record. It is the third of the
// [Resolver]s.
type Scopes struct {
	Records     ScopeRecords // required
	Revocations Revocations  // required
	// MaxLifetime is the longest accepted life of a token or link (EXT-39).
	// Required.
	MaxLifetime time.Duration
}

// ScopeRecords tells what a scope token was issued for.
type ScopeRecords interface {
	// Issued returns the capability on record whose scope token has that hash. A
	// token that was not issued here is a [*Refusal].
	Issued(ctx context.Context, target *Target, hash string) (Issued, error)
}

// Issued is a capability that was issued as a scope token.
type Issued struct {
	Held Held // as in the record
	// Scopes are the scopes of its operations, by their names; "" for one that goes
	// with every scope. An operation that is not in there is held by none.
	Scopes map[string]string
}

// Resolve implements [Resolver]. Anyone who presents the token must be the caller
// that authentication found: holding the bytes is not enough (EXT-7).
func (s Scopes) Resolve(ctx context.Context, call *Call, p Presented, now time.Time) (Held, error) {
	t, links, err := parseScopes(p.Scopes)
	if err != nil {
		return Held{}, scopeRefusal(err)
	}
	if len(links) > 0 && call.Target.Links == 0 {
		return Held{}, &Refusal{atLink(0, because(codeDelegation))}
	}
	issued, err := s.Records.Issued(ctx, call.Target, t.Hash())
	if err != nil {
		return Held{}, err
	}
	v, err := token.VerifyScopes(t, links, token.ScopeOptions{
		Now: now, Revoked: s.Revocations.Revoked, Caller: call.Caller.Holder,
		MaxDepth: min(issued.Held.Authority.Depth(), call.Target.Links), MaxLifetime: s.MaxLifetime,
		Keys: func(id string) []token.PartyKey {
			if id != call.Target.URL {
				return nil
			}
			return call.Target.Anchors.Parties()
		},
	})
	if err != nil {
		return Held{}, scopeRefusal(err)
	}
	return issued.under(v)
}

func parseScopes(p *PresentedScopes) (*token.ScopeToken, []*token.DelegationLink, error) {
	t, err := token.ParseScopeToken(p.Token)
	if err != nil || p.Links == nil {
		return t, nil, err
	}
	links, err := token.ParseLinks(p.Links)
	return t, links, err
}

// under narrows the capability on record to the verified scopes. The record bounds the
// token: arguments and resources, which scopes cannot say, stay bound. When it is
// good is what the token and its links say.
func (i Issued) under(v token.VerifiedScopes) (Held, error) {
	held, scopes := i.Held, v.Authority()
	var kept []powerbox.Clause
	for _, c := range i.Held.Authority.Clauses() {
		scope, known := i.Scopes[c.Pattern.Name()]
		if known && (scope == "" || holdsScope(scopes, scope)) {
			kept = append(kept, c)
		}
	}
	var err error
	if held.Authority, err = powerbox.NewAuthority(scopes.Window(), scopes.Depth(), kept...); err != nil {
		return Held{}, err
	}
	holder := v.Token().Claims().Subject
	held.Links = append(slices.Clone(held.Links), v.Token().Hash())
	for _, l := range v.Links() {
		c := l.Claims()
		held.Through = append(held.Through, token.HolderID(holder))
		held.Links = append(held.Links, l.RevocationID())
		held.Named = append(held.Named, NamedLink{
			ID: token.LinkRevocationID(c.Delegator, "", c.Nonce), Link: l.Hash(), Until: c.ExpiresAt,
		})
		holder = c.Delegate
	}
	held.Holder = token.HolderID(holder)
	return held, nil
}

func holdsScope(a powerbox.Authority, scope string) bool {
	op, err := powerbox.ParseOperation(scope)
	if err != nil {
		return false
	}
	_, ok := a.Shape(op)
	return ok
}

func scopeRefusal(err error) error {
	var e *token.ScopeError
	if !errors.As(err, &e) {
		return err
	}
	var message string
	switch {
	case e.FailurePoint == token.OfToken:
		message = "the scope token " + e.Message
	case e.Reason == token.CodeExceedsMaxDepth || e.Reason == token.CodeEmptyChain:
		message = e.Message // which is about the chain as a whole
	default:
		message = fmt.Sprintf("link %d of the delegation chain %s", e.FailurePoint, e.Message)
	}
	return &Refusal{atLink(e.FailurePoint, says(string(e.Reason), message))}
}

// NamedLink is a link by what its delegator calls it.
type NamedLink struct {
	ID    string // of delegator and nonce
	Link  string // hash of the link
	Until time.Time
}

// Nonces keeps which link a nonce names (EXT-14).
type Nonces interface {
	// Name returns false where the id names another link, and otherwise remembers
	// that it names this one for as long as the link lives. An error means that it
	// cannot be told.
	Name(ctx context.Context, link NamedLink, now time.Time) (bool, error)
}

// name has the links of a call that everything else allows take their nonces:
// anyone who is refused must not be able to take one (ATK-9).
func (g *Gate) name(ctx context.Context, held Held, now time.Time) []evidence.Reason {
	for n, link := range held.Named {
		ok, err := g.Nonces.Name(ctx, link, now)
		switch {
		case err != nil:
			return atLink(n, untold("whether the link's nonce is its own cannot be told now"))
		case !ok:
			return atLink(n, says(string(token.CodeNonceReused), fmt.Sprintf("link %d of the delegation chain has the nonce of another link of its delegator", n)))
		}
	}
	return nil
}
