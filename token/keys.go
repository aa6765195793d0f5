package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/eddsa"
)

// Algorithm is a signature algorithm. There is none for "none", and none that
// a header could choose: a key has one.
type Algorithm uint8

// The algorithms. The zero Algorithm verifies nothing.
const (
	Ed25519 Algorithm = iota + 1 // RFC 8032
	ES256                        // ECDSA on P-256 with SHA-256, RFC 7518 section 3.4
)

// String returns the name that headers of contexts and DPoP proofs carry, and those of
// draft -01. Those of draft -02 call Ed25519 by its own name.
func (a Algorithm) String() string {
	switch a {
	case Ed25519:
		return "EdDSA"
	case ES256:
		return "ES256"
	}
	return "none"
}

// headerAlgorithm returns what the alg of a header names. Ed25519 is the fully
// specified name of RFC 9864.
func headerAlgorithm(alg string) (Algorithm, bool) {
	switch alg {
	case "EdDSA", "Ed25519":
		return Ed25519, true
	case "ES256":
		return ES256, true
	}
	return 0, false
}

// thumbprintURI is what the issuer of a derived token begins with (RFC 9278).
const thumbprintURI = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:"

// PublicKey is a public key. It is comparable; the zero PublicKey verifies
// nothing.
type PublicKey struct {
	algorithm Algorithm
	x, y      [32]byte // y is zero for Ed25519
}

// ParsePublicKey reads a JWK (RFC 7517): an Ed25519 or a P-256 key, on its
// curve, of the right length, without a private member.
func ParsePublicKey(jwk []byte) (PublicKey, error) {
	v, err := powerbox.ParseValue(jwk)
	if err != nil {
		return PublicKey{}, refuse(CodeMalformed, "key: %v", err)
	}
	return parseJWK(v)
}

// privateMembers are the members of a JWK that no public key has (RFC 7518
// section 6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

func parseJWK(v powerbox.Value) (PublicKey, error) {
	if v.Kind() != powerbox.KindObject {
		return PublicKey{}, refuse(CodeMalformed, "key: JSON %s; want an object", v.Kind())
	}
	for _, name := range privateMembers {
		if _, ok := v.Get(name); ok {
			return PublicKey{}, refuse(CodePrivateKey, "key: has the private member %q; want a public key", name)
		}
	}
	return publicMembers(v)
}

// publicMembers reads the members of a public key and does not look at others.
func publicMembers(v powerbox.Value) (PublicKey, error) {
	k, err := keyPoint(v)
	if err != nil {
		return PublicKey{}, err
	}
	if alg, ok := v.Get("alg"); ok {
		name, _ := alg.Text()
		if a, ok := headerAlgorithm(name); !ok || a != k.algorithm {
			return PublicKey{}, refuse(CodeAlgorithm, "key: alg %s does not fit the key; want %s", alg, k.algorithm)
		}
	}
	if ops, ok := v.Get("key_ops"); ok && !hasElement(ops, "verify") {
		return PublicKey{}, refuse(CodeAlgorithm, "key: key_ops is %s; want it with \"verify\"", ops)
	}
	if use, ok := v.Get("use"); ok && !use.Equal(powerbox.String("sig")) {
		return PublicKey{}, refuse(CodeAlgorithm, "key: use is %s; want \"sig\"", use)
	}
	return k, nil
}

// hasElement reports whether a list has a text.
func hasElement(list powerbox.Value, text string) bool {
	elements, _ := list.Elements()
	return slices.ContainsFunc(elements, powerbox.String(text).Equal)
}

func keyPoint(v powerbox.Value) (PublicKey, error) {
	switch kty, crv := member(v, "kty"), member(v, "crv"); {
	case kty == "OKP" && crv == "Ed25519":
		x, err := coordinate(v, "x")
		return PublicKey{algorithm: Ed25519, x: x}, err
	case kty == "EC" && crv == "P-256":
		x, err := coordinate(v, "x")
		if err != nil {
			return PublicKey{}, err
		}
		y, err := coordinate(v, "y")
		if err != nil {
			return PublicKey{}, err
		}
		k := PublicKey{ES256, x, y}
		if _, err := k.ecdsa(); err != nil {
			return PublicKey{}, refuse(CodeMalformed, "key: x and y are no point on P-256")
		}
		return k, nil
	default:
		return PublicKey{}, refuse(CodeAlgorithm, "key: kty and crv are %q; want OKP with Ed25519, or EC with P-256", kty+" "+crv)
	}
}

// member returns a member that is a string, or "".
func member(v powerbox.Value, name string) string {
	m, _ := v.Get(name)
	s, _ := m.Text()
	return s
}

func coordinate(v powerbox.Value, name string) (c [32]byte, err error) {
	var room [48]byte
	b, err := appendDecoded(room[:0], member(v, name))
	if err != nil || len(b) != len(c) {
		return c, refuse(CodeMalformed, "key: %s has %d bytes; want 32 in base64url without padding", name, len(b))
	}
	copy(c[:], b)
	return c, nil
}

// jose is base64url as in JOSE: no padding, no bits beyond the last byte.
var jose = base64.RawURLEncoding.Strict()

var errLineBreak = errors.New("it has a line break")

// decodeBase64 decodes base64url as in JOSE, without line breaks, which
// the encoding alone would skip.
func decodeBase64(s string) ([]byte, error) { return appendDecoded(nil, s) }

// appendDecoded is decodeBase64 that appends to b.
func appendDecoded(b []byte, s string) ([]byte, error) {
	if strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0 {
		return b, errLineBreak
	}
	return jose.AppendDecode(b, []byte(s))
}

func encodeBase64(b []byte) string {
	var text [96]byte // enough for hashes, coordinates and signatures
	return string(jose.AppendEncode(text[:0], b))
}

func (k PublicKey) ecdsa() (*ecdsa.PublicKey, error) {
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, k.x[:], k.y[:]))
}

// Algorithm returns the one algorithm of k.
func (k PublicKey) Algorithm() Algorithm { return k.algorithm }

// IsZero reports whether k is the zero PublicKey.
func (k PublicKey) IsZero() bool { return k.algorithm == 0 }

// JWK returns k as a JSON Web Key without kid.
func (k PublicKey) JWK() powerbox.Value {
	x := textMember("x", encodeBase64(k.x[:]))
	switch k.algorithm {
	case Ed25519:
		return powerbox.Object(textMember("crv", "Ed25519"), textMember("kty", "OKP"), x)
	case ES256:
		return powerbox.Object(textMember("crv", "P-256"), textMember("kty", "EC"), x, textMember("y", encodeBase64(k.y[:])))
	}
	return powerbox.Value{}
}

func textMember(name, text string) powerbox.Member {
	return powerbox.Member{Name: name, Value: powerbox.String(text)}
}

// Thumbprint returns the SHA-256 thumbprint of k (RFC 7638) in base64url.
func (k PublicKey) Thumbprint() string {
	var room [usualName]byte
	return string(k.appendThumbprint(room[:0]))
}

func (k PublicKey) appendThumbprint(b []byte) []byte {
	sum := sha256.Sum256(k.appendJWK(make([]byte, 0, 160)))
	return jose.AppendEncode(b, sum[:])
}

// appendJWK appends the required members of k as a JWK, sorted, without spaces:
// what RFC 7638 section 3 hashes, and what [PublicKey.JWK] is as JSON.
func (k PublicKey) appendJWK(b []byte) []byte {
	switch k.algorithm {
	case Ed25519:
		b = append(b, `{"crv":"Ed25519","kty":"OKP","x":"`...)
		b = jose.AppendEncode(b, k.x[:])
	case ES256:
		b = append(b, `{"crv":"P-256","kty":"EC","x":"`...)
		b = jose.AppendEncode(b, k.x[:])
		b = append(b, `","y":"`...)
		b = jose.AppendEncode(b, k.y[:])
	}
	return append(b, `"}`...)
}

// URI returns the thumbprint as a URI (RFC 9278).
func (k PublicKey) URI() string {
	var room [usualName]byte
	return string(k.appendURI(room[:0]))
}

func (k PublicKey) appendURI(b []byte) []byte { return k.appendThumbprint(append(b, thumbprintURI...)) }

// isNamed reports whether uri is that of k.
func (k PublicKey) isNamed(uri string) bool {
	var room [usualName]byte
	return uri == string(k.appendURI(room[:0]))
}

// usualName is room for the URI of a key, in bytes.
const usualName = 96

// String returns the thumbprint URI.
func (k PublicKey) String() string { return k.URI() }

// Verify reports whether signature is one of message under k.
func (k PublicKey) Verify(message, signature []byte) bool {
	switch k.algorithm {
	case Ed25519:
		return eddsa.Verify(k.x[:], message, signature)
	case ES256:
		return k.verifyES256(message, signature)
	}
	return false
}

// KeptKey is a key that is kept because signatures under it may be checked again. It is
// safe for use by several goroutines. The zero one verifies nothing.
type KeptKey struct {
	PublicKey
	again *eddsa.Key // nil for other algorithms, and where the key is seen for the first time
}

// Keep returns k to be kept. It takes 1.5 KiB more once it has verified twice, and 40
// KiB for one of the 256 keys of the process that have a table ([eddsa.Key]).
func (k PublicKey) Keep() KeptKey {
	if k.algorithm != Ed25519 {
		return KeptKey{PublicKey: k}
	}
	return KeptKey{k, eddsa.NewKey(k.x)}
}

// Verify is [PublicKey.Verify], faster from the second time on.
func (k KeptKey) Verify(message, signature []byte) bool {
	if k.again == nil {
		return k.PublicKey.Verify(message, signature)
	}
	return k.again.Verify(message, signature)
}

func (k PublicKey) verifyES256(message, signature []byte) bool {
	point, err := k.ecdsa()
	if err != nil || len(signature) != 64 {
		return false
	}
	digest := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(point, digest[:], r, s)
}
