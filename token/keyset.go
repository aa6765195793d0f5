package token

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/powerbox-project/powerbox"
)

// KeySet is a set of trusted root keys. The zero KeySet trusts no key.
type KeySet struct {
	keys        []namedKey
	issuer      string   // whose keys they are; "" where the caller checks that
	fingerprint [32]byte // of all keys with their names and the issuer, for Memo
}

// Of returns s as the keys of that issuer: the root of a chain must name it in iss
// (draft, section 8, step 3k).
func (s KeySet) Of(issuer string) KeySet {
	s.issuer = issuer
	h := sha256.New()
	h.Write(s.fingerprint[:])
	fmt.Fprintf(h, "issuer %s", issuer)
	h.Sum(s.fingerprint[:0])
	return s
}

type namedKey struct {
	key        KeptKey
	kid        string // meaningful where hasKid
	hasKid     bool
	thumbprint string
}

// NewKeySet returns the set of those keys, each without a kid.
func NewKeySet(keys ...PublicKey) KeySet {
	var s KeySet
	for _, k := range keys {
		s.add(namedKey{key: k.Keep()})
	}
	return s
}

func (s *KeySet) add(k namedKey) {
	k.thumbprint = k.key.Thumbprint()
	s.keys = append(s.keys, k)
	h := sha256.New()
	h.Write(s.fingerprint[:])
	// Thumbprints have one length, so what follows can only be the kid.
	fmt.Fprintf(h, "%s %t %s", k.thumbprint, k.hasKid, k.kid)
	h.Sum(s.fingerprint[:0])
}

// Parties returns the keys of the set, as those of a party to scope tokens.
func (s KeySet) Parties() []PartyKey {
	out := make([]PartyKey, len(s.keys))
	for i, k := range s.keys {
		out[i] = k.key.Party()
	}
	return out
}

// ParseKeySet reads a JWK Set (RFC 7517 section 5). Keys that this package
// cannot use are left out, as the RFC asks; a key with a private member
// refuses the set, since its owner has published a secret. A kid is an opaque
// name, never a path or an address (ATK-14).
func ParseKeySet(jwks []byte) (KeySet, error) {
	v, err := powerbox.ParseValue(jwks)
	if err != nil {
		return KeySet{}, refuse(CodeMalformed, "key set: %v", err)
	}
	keys, _ := v.Get("keys")
	elements, ok := keys.Elements()
	if !ok {
		return KeySet{}, refuse(CodeMalformed, "key set: has no keys; want an object with keys, an array of JWK")
	}
	var s KeySet
	for i, e := range elements {
		k, err := parseNamedKey(e)
		var refused *Error
		if errors.As(err, &refused) {
			if refused.Code == CodeAlgorithm {
				continue
			}
			return KeySet{}, refuse(refused.Code, "key set, key %d: %s", i+1, refused.Message)
		}
		s.add(k)
	}
	return s, nil
}

func parseNamedKey(v powerbox.Value) (namedKey, error) {
	key, err := parseJWK(v)
	if err != nil {
		return namedKey{}, err
	}
	kid, ok := v.Get("kid")
	if !ok {
		return namedKey{key: key.Keep()}, nil
	}
	name, ok := kid.Text()
	if !ok {
		return namedKey{}, refuse(CodeMalformed, "kid is %s; want a string", kid.Kind())
	}
	return namedKey{key: key.Keep(), kid: name, hasKid: true}, nil
}

// Len returns how many keys s has.
func (s KeySet) Len() int { return len(s.keys) }

// candidates returns the keys that a root token with that header may be signed
// with: without kid every key; with one the keys of that name, those whose
// thumbprint it is, and those that have no name.
func (s KeySet) candidates(h header) []KeptKey {
	var out []KeptKey
	for _, k := range s.keys {
		if !h.hasKid || !k.hasKid || k.kid == h.kid || k.thumbprint == h.kid {
			out = append(out, k.key)
		}
	}
	return out
}

// JWKS returns keys as a JWK Set in which every kid is the key's thumbprint.
func JWKS(keys ...PublicKey) powerbox.Value {
	list := make([]powerbox.Value, len(keys))
	for i, k := range keys {
		members, _ := k.JWK().Members()
		list[i] = powerbox.Object(append(members[:len(members):len(members)],
			textMember("kid", k.Thumbprint()), textMember("use", "sig"))...)
	}
	return powerbox.Object(powerbox.Member{Name: "keys", Value: powerbox.List(list...)})
}
