package token

import (
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// Verified is a chain that has been verified. It has the signed claims; whether
// it is still good depends on the time and on revocation, so it is not to be
// kept. The zero Verified has no authority.
type Verified struct{ chain *chain }

// Authority returns what the chain permits its holder: the operations of the
// last token, for as long as every token is good, and how often it may still
// be passed on. The beginning of its window leaves [MaxIssuedAhead] for clocks
// that differ.
func (v Verified) Authority() powerbox.Authority {
	if v.chain == nil {
		return powerbox.Authority{}
	}
	return v.chain.permits()
}

// Holder returns the key of the one that may present the chain.
func (v Verified) Holder() PublicKey {
	if v.chain == nil {
		return PublicKey{}
	}
	return v.chain.leaf().holder
}

// ID returns the jti of the last token, which proofs name.
func (v Verified) ID() string {
	if v.chain == nil {
		return ""
	}
	return v.chain.leaf().id
}

// Issuer returns the iss of the root token, or "".
func (v Verified) Issuer() string {
	if v.chain == nil {
		return ""
	}
	return v.chain.links[0].issuer
}

// Private returns what our own issuer says about the grant behind the root,
// and false where it says nothing.
func (v Verified) Private() (Private, bool) {
	if v.chain == nil || v.chain.links[0].private == nil {
		return Private{}, false
	}
	return *v.chain.links[0].private, true
}

// Tools returns the operations of the last token as they are written; the
// caller must not change them.
func (v Verified) Tools() []powerbox.Clause {
	if v.chain == nil {
		return nil
	}
	return slices.Clone(v.chain.leaf().tools)
}

// Tokens returns the compact tokens, root first.
func (v Verified) Tokens() []string {
	if v.chain == nil {
		return nil
	}
	tokens := make([]string, len(v.chain.links))
	for i, l := range v.chain.links {
		tokens[i] = l.compact
	}
	return tokens
}

// JoinChain returns tokens as the value of the Powerbox-Capability header.
func JoinChain(tokens []string) string { return strings.Join(tokens, ",") }

// SplitChain returns the tokens of a Powerbox-Capability header.
func SplitChain(header string) []string {
	if header == "" {
		return nil
	}
	return strings.Split(header, ",")
}

// IDs returns the ids by which the chain can be revoked, root first: the jti
// of the root, and the hash of every token's signing input.
func (v Verified) IDs() []string {
	if v.chain == nil {
		return nil
	}
	ids := []string{v.chain.links[0].id}
	for _, l := range v.chain.links {
		ids = append(ids, l.hash)
	}
	return ids
}
