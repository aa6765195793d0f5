package token

import (
	"fmt"
	"log/slog"
	"strings"

	"filippo.io/mldsa"

	"github.com/powerbox-project/powerbox"
)

// nameMLDSA87 is the name of the algorithm in messages and in JWK.
const nameMLDSA87 = "ML-DSA-87"

// PartyKey is the public key of a party to scope tokens and delegation links:
// Ed25519, ES256 or ML-DSA-87 (EXT-6). The key has one algorithm; what a message
// says of it can only refuse. The zero PartyKey verifies nothing.
type PartyKey struct {
	classic PublicKey
	lattice *mldsa.PublicKey // nil for the other two
}

// Party returns k as the key of a party to scope tokens.
func (k PublicKey) Party() PartyKey { return PartyKey{classic: k} }

// ParsePartyKey reads a public JWK: what [ParsePublicKey] reads, and an ML-DSA-87
// key with kty AKP. Errors are [*Error].
func ParsePartyKey(jwk []byte) (PartyKey, error) {
	v, err := powerbox.ParseValue(jwk)
	if err != nil {
		return PartyKey{}, refuse(CodeMalformed, "key: %v", err)
	}
	return partyKey(v)
}

func partyKey(v powerbox.Value) (PartyKey, error) {
	if member(v, "kty") != "AKP" {
		k, err := parseJWK(v)
		return PartyKey{classic: k}, err
	}
	if _, ok := v.Get("priv"); ok {
		return PartyKey{}, refuse(CodePrivateKey, "key: has the private member %q; want a public key", "priv")
	}
	return latticeKey(v)
}

func latticeKey(v powerbox.Value) (PartyKey, error) {
	if alg := member(v, "alg"); alg != nameMLDSA87 {
		return PartyKey{}, refuse(CodeAlgorithm, "key: alg of kty AKP is %.32q; want %s", alg, nameMLDSA87)
	}
	encoding, err := decodeBase64(member(v, "pub"))
	if err != nil {
		return PartyKey{}, refuse(CodeMalformed, "key: pub is not base64url without padding")
	}
	k, err := mldsa.NewPublicKey(mldsa.MLDSA87(), encoding)
	if err != nil {
		return PartyKey{}, refuse(CodeMalformed, "key: pub has %d bytes; want %d", len(encoding), mldsa.MLDSA87().PublicKeySize())
	}
	return PartyKey{lattice: k}, nil
}

// Algorithm returns the name that the one algorithm of k has in a scope token
// (EXT-6).
func (k PartyKey) Algorithm() string {
	switch {
	case k.lattice != nil:
		return nameMLDSA87
	case k.classic.algorithm == Ed25519:
		return "Ed25519"
	}
	return k.classic.algorithm.String()
}

// Verify reports whether signature is one of message under k.
func (k PartyKey) Verify(message, signature []byte) bool {
	if k.lattice != nil {
		return mldsa.Verify(k.lattice, message, signature, nil) == nil
	}
	return k.classic.Verify(message, signature)
}

// JWK returns the required members of k as a JSON Web Key.
func (k PartyKey) JWK() powerbox.Value {
	if k.lattice == nil {
		return k.classic.JWK()
	}
	return powerbox.Object(textMember("alg", nameMLDSA87), textMember("kty", "AKP"), textMember("pub", encodeBase64(k.lattice.Bytes())))
}

// didPrefix begins an identifier that is its own key, by the did:jwk method.
const didPrefix = "did:jwk:"

// DID returns the identifier that says which key it is: did:jwk with the
// required members of the JWK in order, so that a key has one identifier. Anyone who
// is called so needs to be in no directory.
func (k PartyKey) DID() string {
	return didPrefix + encodeBase64(k.JWK().AppendJSON(nil))
}

// keyOfDID returns the key that an identifier is, and false for every other
// identifier and for every other spelling.
func keyOfDID(id string) (PartyKey, bool) {
	text, ok := strings.CutPrefix(id, didPrefix)
	if !ok {
		return PartyKey{}, false
	}
	jwk, err := decodeBase64(text)
	if err != nil {
		return PartyKey{}, false
	}
	k, err := ParsePartyKey(jwk)
	return k, err == nil && k.DID() == id
}

// HolderID returns the name under which the rest of the product knows a party:
// "key:" and the thumbprint where the identifier is a key that can prove calls,
// the identifier itself for all others.
func HolderID(id string) string {
	if k, ok := keyOfDID(id); ok && k.lattice == nil {
		return keyName(k.classic)
	}
	return id
}

const keyPrefix = "key:"

// keyName is "key:" and the thumbprint (RFC 7638).
func keyName(k PublicKey) string { return keyPrefix + k.Thumbprint() }

// PartySigner signs scope tokens and delegation links with one key.
type PartySigner interface {
	// Party returns the key that verifies what Sign returns.
	Party() PartyKey
	Sign(message []byte) ([]byte, error)
}

// AsParty returns a signer of tokens as one of scope tokens.
func AsParty(s Signer) PartySigner { return classicSigner{s} }

type classicSigner struct{ Signer }

// Party implements [PartySigner].
func (s classicSigner) Party() PartyKey { return s.Public().Party() }

// Party implements [PartySigner].
func (k *PrivateKey) Party() PartyKey { return k.public.Party() }

// LatticeKey is a private ML-DSA-87 key. However it is printed, logged or
// marshalled, it shows its algorithm and nothing else; [LatticeKey.JWK] alone
// gives it away.
type LatticeKey struct{ key *mldsa.PrivateKey }

// NewLatticeKey makes the key of a seed of 32 bytes, which must be random.
func NewLatticeKey(seed []byte) (*LatticeKey, error) {
	k, err := mldsa.NewPrivateKey(mldsa.MLDSA87(), seed)
	if err != nil {
		return nil, refuse(CodeMalformed, "private key: the seed has %d bytes; want %d", len(seed), mldsa.PrivateKeySize)
	}
	return &LatticeKey{k}, nil
}

// ParsePartySigner reads a private JWK: what [ParsePrivateKey] reads, and an
// ML-DSA-87 key with kty AKP, whose pub must belong to its priv. Errors do not
// quote it.
func ParsePartySigner(jwk []byte) (PartySigner, error) {
	v, err := powerbox.ParseValue(jwk)
	if err != nil || member(v, "kty") != "AKP" {
		return ParsePrivateKey(jwk)
	}
	public, err := latticeKey(v)
	if err != nil {
		return nil, err
	}
	seed, err := decodeBase64(member(v, "priv"))
	if err != nil {
		return nil, refuse(CodeMalformed, "private key: priv is not base64url without padding")
	}
	k, err := NewLatticeKey(seed)
	if err != nil {
		return nil, err
	}
	if !k.key.PublicKey().Equal(public.lattice) {
		return nil, refuse(CodeMalformed, "private key: pub does not belong to priv")
	}
	return k, nil
}

// Party implements [PartySigner].
func (k *LatticeKey) Party() PartyKey { return PartyKey{lattice: k.key.PublicKey()} }

// Sign implements [PartySigner], deterministically: a weak random source cannot
// give the key away.
func (k *LatticeKey) Sign(message []byte) ([]byte, error) {
	return k.key.SignDeterministic(message, nil)
}

// JWK returns the private key itself as a JWK, for a file with mode 0600.
func (k *LatticeKey) JWK() []byte {
	members, _ := k.Party().JWK().Members()
	return powerbox.Object(append(members[:len(members):len(members)], textMember("priv", encodeBase64(k.key.Bytes())))...).AppendJSON(nil)
}

// String returns what kind of key it is.
func (k *LatticeKey) String() string { return "private key for " + nameMLDSA87 }

// Format implements [fmt.Formatter]: every verb prints [LatticeKey.String].
func (k *LatticeKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// LogValue implements [slog.LogValuer] with [LatticeKey.String].
func (k *LatticeKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON returns [LatticeKey.String] as a JSON string.
func (k *LatticeKey) MarshalJSON() ([]byte, error) { return powerbox.String(k.String()).MarshalJSON() }
