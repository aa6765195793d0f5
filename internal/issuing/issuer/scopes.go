package issuer

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// scopeRevocation begins the revocation id of a capability that was issued as a
// scope token: its hash follows, which is how the token is found again.
const scopeRevocation = "rv_"

// Scopes returns the scope of every operation of a capability, by its name: ""
// for those that go with every scope, since nothing could be done without them.
// The scope of an operation is its grant and its own name with ':' and '/' as
// dots, so that a grant's scope covers what it holds. It is false where a name
// cannot be said in the grammar of EXT-3, or two would have one scope.
func (c Capability) Scopes() (map[string]string, bool) {
	out, seen := map[string]string{}, map[string]bool{}
	for _, clause := range c.Authority.Clauses() {
		qualified := clause.Pattern.Name()
		switch qualified {
		case OperationMessage, OperationTaskRead, OperationTaskCancel:
			out[qualified] = ""
			continue
		}
		scope := qualified // push and card have dotted names
		if name, ours := unqualify(c.Agent, c.Grant, qualified); ours {
			scope = ScopeOf(c.Grant, name)
		}
		p, err := powerbox.ParseScope(scope)
		if err != nil || p.Kind() != powerbox.Subtree || seen[scope] {
			return nil, false
		}
		out[qualified], seen[scope] = scope, true
	}
	return out, true
}

// dotted replaces characters that a scope must not contain.
var dotted = strings.NewReplacer(":", ".", "/", ".")

// ScopeOf is the scope of an operation of a grant.
func ScopeOf(grant, operation string) string {
	return dotted.Replace(grant + "." + operation)
}

// mintScopes signs a scope token for the caller: a holder with a key is its
// key, any other is called as the holder is. What the token cannot say, arguments
// and resources, stays on record, which bounds it wherever it is used.
func (i *Issuer) mintScopes(agent *Agent, caller identity.Caller, c Capability) (Capability, *Refusal) {
	scopes, ok := c.Scopes()
	if !ok || c.Legacy || c.budgeted() {
		return Capability{}, refuse(CodeNotExpressible, "grant %q has operations that scopes cannot say; request it without format", c.Grant)
	}
	claims := token.ScopeClaims{
		Issuer: agent.URL, Subject: caller.Holder.ID, IssuedAt: i.config.Now().UTC(), ExpiresAt: c.Expires,
	}
	if key := caller.Holder.Key; !key.IsZero() {
		claims.Subject = key.Party().DID()
	}
	for _, scope := range scopes {
		if scope != "" {
			claims.Scopes = append(claims.Scopes, scope)
		}
	}
	slices.Sort(claims.Scopes)
	signed, err := token.SignScopeToken(token.AsParty(agent.Signer()), claims)
	if err == nil {
		var t *token.ScopeToken
		if t, err = token.ParseScopeToken(signed); err == nil {
			c.Token, c.RevocationID = string(signed), scopeRevocation+t.Hash()
		}
	}
	if err != nil {
		return Capability{}, refuse(CodeNotExpressible, "no scope token can be made for grant %q: %v", c.Grant, err)
	}
	return c, nil
}

// ByScopeToken returns the capability that was issued as the scope token of that
// hash, or the zero one where none was.
func (i *Issuer) ByScopeToken(ctx context.Context, hash string) (Capability, error) {
	var c Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		c, err = r.CapabilityByRevocation(scopeRevocation + hash)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Capability{}, nil
	}
	return c, err
}
