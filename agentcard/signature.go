package agentcard

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/token"
)

// algorithms are those in which a card may be signed. None is symmetric: a card
// is for everybody.
var algorithms = []jose.SignatureAlgorithm{
	jose.EdDSA, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.RS256, jose.RS384, jose.RS512,
}

// maxSignatures bounds how many signatures of a card are tried: each may cost a
// check per pinned key.
const maxSignatures = 32

// ErrSignature is the root of all errors of the signatures of a card.
// Anyone who pins its keys must not use the card.
var ErrSignature = errors.New("the card has no signature of a pinned key")

// Keys are public keys that someone decided to trust for cards. The zero Keys
// verify nothing.
type Keys struct{ set jose.JSONWebKeySet }

// ParseKeys reads a JWK Set (RFC 7517) of at least one public key, or one such key
// alone. Private and symmetric keys are refused.
func ParseKeys(jwks []byte) (Keys, error) {
	var k Keys
	if len(jwks) > MaxBytes {
		return Keys{}, fmt.Errorf("key set of %d bytes; want at most %d", len(jwks), MaxBytes)
	}
	if err := json.Unmarshal(jwks, &k.set); err != nil {
		return Keys{}, fmt.Errorf("no key set: %w", err)
	}
	if n, err := readTree(jwks); err == nil && n.get("keys") == nil && n.get("kty") != nil {
		var one jose.JSONWebKey
		if err := json.Unmarshal(jwks, &one); err != nil {
			return Keys{}, fmt.Errorf("no key: %w", err)
		}
		k.set.Keys = []jose.JSONWebKey{one}
	}
	if len(k.set.Keys) == 0 {
		return Keys{}, errors.New("the key set has no key; want a JWK Set with at least one")
	}
	for i, key := range k.set.Keys {
		if !key.Valid() || !key.IsPublic() {
			return Keys{}, fmt.Errorf("keys[%d] is no public key; want one of type OKP, EC or RSA without its private members", i)
		}
	}
	return k, nil
}

// IsZero reports whether there are no keys.
func (k Keys) IsZero() bool { return len(k.set.Keys) == 0 }

// named returns the keys that the header of a signature may mean: of that kid, or
// of that thumbprint where the set gives a key no name.
func (k Keys) named(kid string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, key := range k.set.Keys {
		name := key.KeyID
		if name == "" {
			if sum, err := key.Thumbprint(crypto.SHA256); err == nil {
				name = base64.RawURLEncoding.EncodeToString(sum)
			}
		}
		if kid != "" && name == kid {
			found = append(found, key)
		}
	}
	return found
}

// entry is one of a card's signatures (A2A 1.0, section 8.4.2).
type entry struct{ protected, signature string }

func (n *node) signatures() []entry {
	var out []entry
	for _, s := range n.get("signatures").elements() {
		out = append(out, entry{s.get("protected").str(), s.get("signature").str()})
	}
	return out
}

// Sign replaces the signatures of a card, and leaves every value as it
// was written. Where SDKs differ in the canonical form it is signed in both. The
// name of the key in the header is its RFC 7638 thumbprint.
func Sign(raw []byte, signer token.Signer) ([]byte, error) {
	full, bare, err := Canonical(raw)
	if err != nil {
		return nil, err
	}
	payloads := [][]byte{full}
	if !bytes.Equal(full, bare) {
		payloads = append(payloads, bare)
	}
	key := signer.Public()
	header, err := json.Marshal(map[string]string{"alg": key.Algorithm().String(), "kid": key.Thumbprint(), "typ": "JOSE"})
	if err != nil {
		return nil, err
	}
	protected := base64.RawURLEncoding.EncodeToString(header)
	list := &node{kind: '['}
	for _, p := range payloads {
		s, err := signer.Sign([]byte(protected + "." + base64.RawURLEncoding.EncodeToString(p)))
		if err != nil {
			return nil, fmt.Errorf("card: %w", err)
		}
		list.list = append(list.list, &node{kind: '{', members: []member{
			{"protected", &node{kind: '"', text: protected}},
			{"signature", &node{kind: '"', text: base64.RawURLEncoding.EncodeToString(s)}},
		}})
	}
	n, err := readTree(raw)
	if err != nil {
		return nil, err
	}
	out := &node{kind: '{'}
	for _, m := range n.members {
		if m.name != "signatures" {
			out.members = append(out.members, m)
		}
	}
	out.members = append(out.members, member{"signatures", list})
	return out.append(nil), nil
}

// Signature says which signature of a card is good.
type Signature struct {
	Index     int    `json:"index"` // among the card's signatures
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Card      []byte `json:"-"` // what it is about: see Verify
}

// Verify looks for a signature of a pinned key, to which the card's own key URLs
// never add (CARD-15), and returns with it the signed part, in canonical form with
// all signatures. Everything else on the card is unproven: anyone who passes it on
// could have put it there. The error is [ErrSignature] where there is none.
func Verify(raw []byte, keys Keys) (Signature, error) {
	full, bare, err := Canonical(raw)
	if err != nil {
		return Signature{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	n, err := readTree(raw)
	if err != nil {
		return Signature{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	all := n.signatures()
	if len(all) > maxSignatures {
		return Signature{}, fmt.Errorf("%w: it has %d signatures; want at most %d", ErrSignature, len(all), maxSignatures)
	}
	for i, s := range all {
		for _, payload := range [][]byte{full, bare} {
			found, ok := keys.check(s, payload)
			if !ok {
				continue
			}
			found.Index = i
			covered, err := normal("", n, cardForm, "")
			if err != nil {
				return Signature{}, err
			}
			found.Card, err = canonicalJSON(covered)
			return found, err
		}
	}
	return Signature{}, ErrSignature
}

func (k Keys) check(s entry, payload []byte) (Signature, bool) {
	jws, err := jose.ParseDetached(s.protected+".."+s.signature, payload, algorithms)
	if err != nil {
		return Signature{}, false
	}
	header := jws.Signatures[0].Protected
	for _, key := range k.named(header.KeyID) {
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if jws.DetachedVerify(payload, key.Key) == nil {
			return Signature{Algorithm: header.Algorithm, KeyID: header.KeyID}, true
		}
	}
	return Signature{}, false
}
