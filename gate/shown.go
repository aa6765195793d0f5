package gate

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// Shown resolves what someone shows who does not hold it: chains without a proof, and
// scope tokens for the party that they name. What it returns tells whether a capability
// stands. No call is decided with it.
type Shown struct {
	Memo        *token.Memo // required
	Revocations Revocations // required
	Scopes      Resolver    // for scope tokens; nil takes none
	Drafts      Drafts      // as in [Chains]
}

// Resolve implements [Resolver].
func (s Shown) Resolve(ctx context.Context, call *Call, p Presented, now time.Time) (Held, error) {
	if p.Scopes != nil {
		return s.scopes(ctx, call, p, now)
	}
	v, err := s.Memo.Verify(token.JoinChain(p.Chain), call.Target.Anchors, s.Drafts.options(now, s.Revocations))
	if err != nil {
		return Held{}, refusal(err)
	}
	if v.Issuer() != call.Target.URL {
		return Held{}, notIssued()
	}
	return heldBy(v, call.Target, call.Target.URL)
}

// scopes resolves a scope token as the party that it, or its last link, names.
func (s Shown) scopes(ctx context.Context, call *Call, p Presented, now time.Time) (Held, error) {
	t, links, err := parseScopes(p.Scopes)
	if err != nil {
		return Held{}, scopeRefusal(err)
	}
	if s.Scopes == nil {
		return Held{}, &Refusal{says(codeScopesNotTaken, "scope tokens are not taken here")}
	}
	named := *call
	named.Caller.Holder = token.HolderID(t.Claims().Subject)
	if n := len(links); n > 0 {
		named.Caller.Holder = token.HolderID(links[n-1].Claims().Delegate)
	}
	return s.Scopes.Resolve(ctx, &named, p, now)
}

// Stands reports whether a capability could be used at a target now: it has not ended,
// and neither it nor anything that it comes from was revoked or frozen.
func (g *Gate) Stands(target *Target, origin func(holder string) string, held Held) bool {
	held.Origin = origin(held.Holder)
	_, good := g.Recheck(Verdict{Basis: OnCapability, Held: held, call: &Call{Target: target, Mode: Require, Origin: origin}})
	return good
}
