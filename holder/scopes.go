package holder

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// SchemeScopes is the scheme of an Authorization header that holds a scope token,
// and after a dot its links, in base64url (EXT-5).
const SchemeScopes = "A2A-Capability"

// Link is the delegated part of a scope token.
type Link struct {
	// To is the identifier of the next holder, such as [token.PartyKey.DID].
	// Required.
	To      string
	Scopes  []string  // nil for all held ones, which the link names one by one
	Expires time.Time // zero for the expiry of the held one
}

// Link passes a scope token on to another agent, offline (EXT-8): a link that the
// holder's key signs, behind those that it has already. Nothing of it is secret:
// it is useless without the key of whom it is for. Anything that is wider is refused, and
// the error names it.
func (c *Client) Link(held Capability, l Link) (Capability, error) {
	if err := c.check(); err != nil {
		return Capability{}, err
	}
	t, links, err := held.scopes()
	if err != nil {
		return Capability{}, err
	}
	nonce, err := c.newID()
	if err != nil {
		return Capability{}, err
	}
	scopes, expires := t.Claims().Scopes, t.Claims().ExpiresAt
	if n := len(links); n > 0 {
		scopes, expires = links[n-1].Claims().Scopes, links[n-1].Claims().ExpiresAt
	}
	claims := token.LinkClaims{Delegate: l.To, Scopes: l.Scopes, IssuedAt: c.Now().UTC(), ExpiresAt: l.Expires, Nonce: nonce}
	if l.Scopes == nil {
		claims.Scopes = scopes
	}
	if l.Expires.IsZero() {
		claims.ExpiresAt = expires
	}
	signed, err := token.Delegate(c.Key, t, links, claims)
	if err != nil {
		return Capability{}, err
	}
	held.Links = append(slices.Clone(held.Links), string(signed))
	held.Operations, held.Expires, held.RevocationID = claims.Scopes, claims.ExpiresAt, ""
	return held, nil
}

// scopes reads the scope token and the links of a capability.
func (held Capability) scopes() (*token.ScopeToken, []*token.DelegationLink, error) {
	if held.ScopeToken == "" {
		return nil, nil, errors.New("holder: the capability is no scope token; request one with format scope_token")
	}
	t, err := token.ParseScopeToken([]byte(held.ScopeToken))
	if err != nil || len(held.Links) == 0 {
		return t, nil, err
	}
	links, err := token.ParseLinks(held.linksJSON())
	return t, links, err
}

// linksJSON returns the links as the array that is presented.
func (held Capability) linksJSON() []byte {
	all := []byte("[")
	for i, l := range held.Links {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, l...)
	}
	return append(all, ']')
}

// presentScopes puts a scope token on the headers of a call, with a proof of the
// key that it was given to. One beyond the budget is [ErrHeaderBudget].
func (c *Client) presentScopes(h http.Header, agent Agent, held Capability) error {
	if held.Agent != agent.Issuer {
		return fmt.Errorf("holder: the capability is of %s; it is not presented to %s", held.Agent, agent.Issuer)
	}
	credentials := base64.RawURLEncoding.EncodeToString([]byte(held.ScopeToken))
	if len(held.Links) > 0 {
		credentials += "." + base64.RawURLEncoding.EncodeToString(held.linksJSON())
	}
	if len(credentials) > HeaderBudget {
		return fmt.Errorf("%w: scope token and links have %d", ErrHeaderBudget, len(credentials))
	}
	h.Set("Authorization", SchemeScopes+" "+credentials)
	return c.proveKey(h, http.MethodPost, agent.URL)
}

// acceptScopes takes a scope token in that is for our key and from the agent that
// was asked.
func (c *Client) acceptScopes(agent Agent, text string) error {
	t, err := token.ParseScopeToken([]byte(text))
	switch {
	case err != nil:
		return err
	case t.Claims().Subject != c.Key.Party().DID():
		return errors.New("the scope token is for another holder than the client's key")
	case t.Claims().Issuer != agent.Issuer:
		return fmt.Errorf("the scope token is of issuer %q; want %q", t.Claims().Issuer, agent.Issuer)
	}
	return nil
}
