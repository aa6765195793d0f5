package token

import (
	"errors"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox"
)

// ScopeCheckRequest is one question to [CheckScopes]: does the caller hold those
// scopes?
type ScopeCheckRequest struct {
	Keys        []byte   // JWK Set, where kid is the identifier of the key's owner
	Token       []byte   // the scope token, JSON
	Links       []byte   // the chain, a JSON array; nil where none is presented
	Requested   []string // scopes; none is refused
	Caller      string   // identifier
	At          time.Time
	MaxDepth    int
	MaxLifetime time.Duration // 0 for [MaxLifetime]
	Revoked     []string      // hashes of tokens and revocation ids of links
}

// ScopeResult is the answer (EXT-11).
type ScopeResult struct {
	Valid           bool
	FailurePoint    int           // where not valid: index of the link, [OfToken] for the token
	Reason          powerbox.Code // where not valid
	Message         string        // where not valid, for people
	ChainLength     int
	EffectiveScopes []string
	EffectiveExpiry time.Time
}

// MarshalJSON returns the members of the extension's section 5.2, and for a
// refusal a sentence.
func (r ScopeResult) MarshalJSON() ([]byte, error) {
	valid := powerbox.Member{Name: "valid", Value: powerbox.Bool(r.Valid)}
	if !r.Valid {
		return powerbox.Object(valid,
			powerbox.Member{Name: "failure_point", Value: number(int64(r.FailurePoint))},
			textMember("reason", string(r.Reason)), textMember("message", r.Message)).MarshalJSON()
	}
	scopes := scopesMember(r.EffectiveScopes).Value
	return powerbox.Object(valid,
		powerbox.Member{Name: "chain_length", Value: number(int64(r.ChainLength))},
		powerbox.Member{Name: "effective_scopes", Value: scopes},
		instantMember("effective_expiry", r.EffectiveExpiry)).MarshalJSON()
}

// CheckScopes answers one question from files alone (EXT-13). Malformed input is
// a refusal with a reason; there is no partial acceptance (EXT-12).
func CheckScopes(q ScopeCheckRequest) ScopeResult {
	v, err := checkedScopes(q)
	if err == nil {
		err = v.requested(q.Requested)
	}
	if e, ok := errors.AsType[*ScopeError](err); ok {
		return ScopeResult{FailurePoint: e.FailurePoint, Reason: e.Reason, Message: e.Message}
	}
	return ScopeResult{Valid: true, ChainLength: len(v.links), EffectiveScopes: v.scopes(), EffectiveExpiry: v.expires}
}

func checkedScopes(q ScopeCheckRequest) (VerifiedScopes, error) {
	keys, err := parseDirectory(q.Keys)
	if err != nil {
		return VerifiedScopes{}, fails(CodeUnknownKey, OfToken, err.Error())
	}
	t, err := ParseScopeToken(q.Token)
	if err != nil {
		return VerifiedScopes{}, err
	}
	var links []*DelegationLink
	if q.Links != nil {
		if links, err = ParseLinks(q.Links); err != nil {
			return VerifiedScopes{}, err
		}
	}
	revoked := map[string]bool{}
	for _, id := range q.Revoked {
		revoked[id] = true
	}
	return VerifyScopes(t, links, ScopeOptions{
		Now: q.At, Keys: func(id string) []PartyKey { return keys[id] }, Revoked: func(id string) bool { return revoked[id] },
		Caller: q.Caller, MaxDepth: q.MaxDepth, MaxLifetime: q.MaxLifetime,
	})
}

// requested checks that every requested scope is covered; none at all is refused,
// which the text's loop would admit (EXT-10).
func (v VerifiedScopes) requested(scopes []string) error {
	at := len(v.links) - 1 // OfToken without links
	patterns, err := parseScopes(scopes)
	switch {
	case err != nil:
		return fails(CodeScope, at, "requested: "+err.Error())
	case len(scopes) == 0:
		return fails(CodeScope, at, "no scope is requested")
	}
	var granted []powerbox.Pattern
	for _, c := range v.authority.Clauses() {
		granted = append(granted, c.Pattern)
	}
	if !within(granted, patterns) {
		return fails(CodeScope, at, "does not cover every scope that is requested")
	}
	return nil
}

// parseDirectory reads a JWK Set in which kid is the identifier of a key's owner;
// several keys may have one owner. A key that cannot be used refuses the set: its
// owner would be unknown without a word. Errors are [*Error].
func parseDirectory(jwks []byte) (map[string][]PartyKey, error) {
	v, err := powerbox.ParseValue(jwks)
	if err != nil {
		return nil, refuse(CodeMalformed, "keys: %v", err)
	}
	keys, _ := v.Get("keys")
	elements, ok := keys.Elements()
	if !ok {
		return nil, refuse(CodeMalformed, "keys: want an object with keys, an array of JWK")
	}
	out := map[string][]PartyKey{}
	for i, e := range elements {
		k, err := partyKey(e)
		if err != nil {
			return nil, prefixed("keys, key "+strconv.Itoa(i+1)+": ", err)
		}
		kid := member(e, "kid")
		if kid == "" {
			return nil, refuse(CodeMalformed, "keys, key %d has no kid; want the identifier of its owner", i+1)
		}
		out[kid] = append(out[kid], k)
	}
	return out, nil
}
