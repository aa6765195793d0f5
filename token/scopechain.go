package token

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// ScopeOptions are what the verification of a scope token needs beside it.
type ScopeOptions struct {
	// Now decides all times. Required.
	Now time.Time
	// Keys returns the keys of a party. An identifier that is a key (see
	// [PartyKey.DID]) is not asked for. nil knows no other party.
	Keys func(id string) []PartyKey
	// Revoked is asked for the hash of the token and for the revocation id of
	// every link. Required: nil refuses.
	Revoked func(id string) bool
	// Caller is who presents it, as authentication found: an identifier, or the
	// name of [HolderID] for it. "" is refused.
	Caller string
	// MaxDepth is how many links are accepted; the zero value accepts none.
	MaxDepth int
	// MaxLifetime is the longest accepted life of a token or link (EXT-39); 0
	// for [MaxLifetime].
	MaxLifetime time.Duration
}

// VerifiedScopes is a scope token with its links after they were verified. Like
// [Verified] it is not to be kept. The zero VerifiedScopes has no authority.
type VerifiedScopes struct {
	token     *ScopeToken
	links     []*DelegationLink
	expires   time.Time
	authority powerbox.Authority
}

// VerifyScopes checks a scope token, and the links where there are any, offline.
// The token comes first: key, signature, expiry, revocation, beginning,
// lifetime. Then the chain as the extension's section 5.2 has it, word for word
// in its order (EXT-9). What that text leaves out follows (EXT-10): that the
// first link continues the token, beginnings, lifetimes, nonces, and at last that
// the caller is the one that it was given to (EXT-7). Errors are [*ScopeError].
func VerifyScopes(t *ScopeToken, links []*DelegationLink, o ScopeOptions) (VerifiedScopes, error) {
	if o.Revoked == nil {
		return VerifiedScopes{}, fails(CodeRevocationUnknown, OfToken, "nobody says what is revoked")
	}
	if o.MaxLifetime == 0 {
		o.MaxLifetime = MaxLifetime
	}
	for _, check := range []func(*ScopeToken, []*DelegationLink, ScopeOptions) error{checkScopeToken, walkLinks, continueToken, checkPresenter} {
		if err := check(t, links, o); err != nil {
			return VerifiedScopes{}, err
		}
	}
	return verifiedScopes(t, links, o.MaxDepth-len(links)), nil
}

func checkScopeToken(t *ScopeToken, _ []*DelegationLink, o ScopeOptions) error {
	if err := o.signed(&t.statement, t.claims.Issuer, OfToken); err != nil {
		return err
	}
	switch {
	case t.expiresAt.Before(o.Now):
		return fails(CodeExpired, OfToken, "has expired")
	case o.Revoked(t.Hash()):
		return fails(CodeRevoked, OfToken, "has been revoked")
	}
	return o.checkLife(&t.statement, OfToken)
}

// walkLinks is the algorithm of the extension's section 5.2.
func walkLinks(_ *ScopeToken, links []*DelegationLink, o ScopeOptions) error {
	if len(links) > o.MaxDepth {
		return fails(CodeExceedsMaxDepth, 0, tooDeep(len(links), o.MaxDepth))
	}
	for i, l := range links {
		if err := o.signed(&l.statement, l.claims.Delegator, i); err != nil {
			return err
		}
		switch {
		case i > 0 && !within(links[i-1].patterns, l.patterns):
			return fails(CodeScopeEscalation, i, "has a scope that the link before it does not cover")
		case l.expiresAt.Before(o.Now):
			return fails(CodeExpired, i, "has expired")
		case i > 0 && l.expiresAt.After(links[i-1].expiresAt):
			return fails(CodeTemporalExceedsParent, i, "expires after the link before it")
		case i > 0 && l.claims.Delegator != links[i-1].claims.Delegate:
			return fails(CodeChainDiscontinuity, i, "its delegator is not the delegate of the link before it")
		case o.Revoked(l.RevocationID()):
			return fails(CodeRevoked, i, "has been revoked")
		}
	}
	return nil
}

// continueToken checks what the text does not: the first link against the token,
// and of every link that it has begun, its lifetime and its nonce.
func continueToken(t *ScopeToken, links []*DelegationLink, o ScopeOptions) error {
	for i, l := range links {
		switch {
		case i == 0 && !within(t.patterns, l.patterns):
			return fails(CodeScopeEscalation, i, "has a scope that the token does not cover")
		case i == 0 && l.expiresAt.After(t.expiresAt):
			return fails(CodeTemporalExceedsParent, i, "expires after the token")
		case i == 0 && l.claims.Delegator != t.claims.Subject:
			return fails(CodeChainDiscontinuity, i, "its delegator is not the token's subject")
		}
		if err := o.checkLife(&l.statement, i); err != nil {
			return err
		}
		same := func(m *DelegationLink) bool {
			return m.claims.Delegator == l.claims.Delegator && m.claims.Nonce == l.claims.Nonce
		}
		if slices.ContainsFunc(links[:i], same) {
			return fails(CodeNonceReused, i, "has the nonce of another link of its delegator")
		}
	}
	return nil
}

// checkPresenter refuses everybody but the one that the authority was given to,
// by the last link or, without links, by the token.
func checkPresenter(t *ScopeToken, links []*DelegationLink, o ScopeOptions) error {
	reason, at, given := CodeNotSubject, OfToken, t.claims.Subject
	if n := len(links); n > 0 {
		reason, at, given = CodeNotDelegate, n-1, links[n-1].claims.Delegate
	}
	if o.Caller == "" || HolderID(given) != HolderID(o.Caller) {
		return fails(reason, at, "was given to another agent than the one that presents it")
	}
	return nil
}

// signed checks a signature by the keys of its signer, each of which has one
// algorithm that the statement must name.
func (o *ScopeOptions) signed(s *statement, signer string, at int) error {
	keys := o.keysOf(signer)
	if len(keys) == 0 {
		return fails(CodeUnknownKey, at, "the key of its signer is not known")
	}
	for _, k := range keys {
		if k.Algorithm() == s.algorithm && k.Verify(s.signed, s.signature) {
			return nil
		}
	}
	return fails(CodeInvalidSignature, at, "its signature is not one by its signer's key and algorithm")
}

func (o *ScopeOptions) keysOf(id string) []PartyKey {
	if k, ok := keyOfDID(id); ok {
		return []PartyKey{k}
	}
	if o.Keys == nil {
		return nil
	}
	return o.Keys(id)
}

// checkLife checks when a statement begins, leaving [MaxIssuedAhead] for clocks
// that differ, and how long it lives (EXT-39).
func (o *ScopeOptions) checkLife(s *statement, at int) error {
	switch {
	case s.issuedAt.After(o.Now.Add(MaxIssuedAhead)):
		return fails(CodeNotYetValid, at, "was issued in the future")
	case s.expiresAt.Sub(s.issuedAt) > o.MaxLifetime:
		return fails(CodeLifetime, at, "lives longer than "+o.MaxLifetime.String()+", the longest that is accepted")
	}
	return nil
}

// within reports whether every one of the narrower patterns is covered by one of
// the wider ones (EXT-4).
func within(wider, narrower []powerbox.Pattern) bool {
	for _, n := range narrower {
		if !slices.ContainsFunc(wider, func(w powerbox.Pattern) bool { return w.Covers(n) }) {
			return false
		}
	}
	return true
}

// verifiedScopes makes the authority. It cannot fail: parsing has seen to number
// and names of the scopes and to the times. If it did, the authority would be the
// zero one, which admits nothing.
func verifiedScopes(t *ScopeToken, links []*DelegationLink, depth int) VerifiedScopes {
	last, from, until := &t.statement, t.issuedAt, t.expiresAt
	for _, l := range links {
		last = &l.statement
		if l.issuedAt.After(from) {
			from = l.issuedAt
		}
		if l.expiresAt.Before(until) {
			until = l.expiresAt
		}
	}
	clauses := make([]powerbox.Clause, len(last.patterns))
	for i, p := range last.patterns {
		clauses[i] = powerbox.Clause{Pattern: p, Shape: powerbox.AnyArguments()}
	}
	// An authority ends before its Until; a scope token is good at its expires_at.
	window := powerbox.Window{From: from.Add(-MaxIssuedAhead), Until: until.Add(time.Nanosecond)}
	v := VerifiedScopes{token: t, links: links, expires: until}
	v.authority, _ = powerbox.NewAuthority(window, depth, clauses...)
	return v
}

// Authority returns what the token, narrowed by its links, permits: scopes as
// patterns, with any arguments, for as long as all of it is good.
func (v VerifiedScopes) Authority() powerbox.Authority { return v.authority }

// scopes returns the effective scopes: those of the last link (EXT-11).
func (v VerifiedScopes) scopes() []string {
	switch n := len(v.links); {
	case v.token == nil:
		return nil
	case n > 0:
		return slices.Clone(v.links[n-1].scopes)
	}
	return slices.Clone(v.token.scopes)
}

// Links returns the verified links, the token's subject's first.
func (v VerifiedScopes) Links() []*DelegationLink { return slices.Clone(v.links) }

// Token returns the verified token, nil for the zero VerifiedScopes.
func (v VerifiedScopes) Token() *ScopeToken { return v.token }

// Delegate signs a link that continues a chain, offline: the signer must be the
// one that the last of it was given to, and what it passes on must lie within
// what it has. Anyone who enforces the link looks at it again. Errors are
// [*ScopeError], with the place that the new link would have.
func Delegate(signer PartySigner, t *ScopeToken, links []*DelegationLink, c LinkClaims) ([]byte, error) {
	n := len(links)
	holder, parent := t.claims.Subject, &t.statement
	if n > 0 {
		holder, parent = links[n-1].claims.Delegate, &links[n-1].statement
	}
	c.Delegator = holder
	if k, ok := keyOfDID(holder); ok && k.DID() != signer.Party().DID() {
		return nil, fails(CodeChainDiscontinuity, n, "the key is not that of the one that the chain was given to")
	}
	patterns, err := parseScopes(c.Scopes)
	switch {
	case err != nil:
		return nil, fails(CodeMalformed, n, "scopes: "+err.Error())
	case !within(parent.patterns, patterns):
		return nil, fails(CodeScopeEscalation, n, "would have a scope that is not covered by what is delegated")
	case c.ExpiresAt.After(parent.expiresAt):
		return nil, fails(CodeTemporalExceedsParent, n, "would expire after what is delegated")
	}
	return SignLink(signer, c)
}
