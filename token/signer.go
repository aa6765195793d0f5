package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"fmt"
	"io"
	"log/slog"
	"math/big"

	"github.com/powerbox-project/powerbox"
)

// Signer signs with one key: a [PrivateKey], or a key that another process or
// a device keeps.
type Signer interface {
	// Public returns the key that verifies what Sign returns.
	Public() PublicKey
	// Sign returns the signature of a JWS signing input in the form of RFC
	// 7518: 64 bytes for both algorithms.
	Sign(signingInput []byte) ([]byte, error)
}

// PrivateKey is a private key. However it is printed, logged or marshalled, it
// shows the thumbprint of its public half and nothing else; [PrivateKey.JWK]
// alone gives it away.
type PrivateKey struct {
	public PublicKey
	ed     ed25519.PrivateKey
	ec     *ecdsa.PrivateKey
}

// GenerateKey makes a key from random.
func GenerateKey(algorithm Algorithm, random io.Reader) (*PrivateKey, error) {
	secret := make([]byte, 32)
	// One P-256 scalar in 2^32 is out of range: a source that gives several in
	// a row is not random.
	for range 8 {
		if _, err := io.ReadFull(random, secret); err != nil {
			return nil, fmt.Errorf("generating a key: %w", err)
		}
		if k, err := newPrivateKey(algorithm, secret); err == nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("generating a key: no %s key from the random source", algorithm)
}

func newPrivateKey(algorithm Algorithm, secret []byte) (*PrivateKey, error) {
	switch algorithm {
	case Ed25519:
		k := &PrivateKey{public: PublicKey{algorithm: Ed25519}, ed: ed25519.NewKeyFromSeed(secret)}
		copy(k.public.x[:], k.ed[ed25519.SeedSize:])
		return k, nil
	case ES256:
		ec, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
		if err != nil {
			return nil, refuse(CodeMalformed, "private key: d is out of range")
		}
		k := &PrivateKey{public: PublicKey{algorithm: ES256}, ec: ec}
		point, _ := ec.PublicKey.Bytes() // fails for points off the curve alone
		copy(k.public.x[:], point[1:33])
		copy(k.public.y[:], point[33:])
		return k, nil
	}
	return nil, refuse(CodeAlgorithm, "private key: algorithm %d is unknown; want Ed25519 or ES256", algorithm)
}

// ParsePrivateKey reads a private JWK. Its public members must belong to its
// private one. Errors do not quote it.
func ParsePrivateKey(jwk []byte) (*PrivateKey, error) {
	v, err := powerbox.ParseValue(jwk)
	if err != nil {
		// The decoder's message may quote a number of the input.
		return nil, refuse(CodeMalformed, "private key: not JSON; want a JWK")
	}
	public, err := publicMembers(v)
	if err != nil {
		return nil, err
	}
	secret, err := coordinate(v, "d")
	if err != nil {
		return nil, refuse(CodeMalformed, "private key: d; want 32 bytes in base64url without padding")
	}
	k, err := newPrivateKey(public.algorithm, secret[:])
	if err != nil {
		return nil, err
	}
	if k.public != public {
		return nil, refuse(CodeMalformed, "private key: x or y does not belong to d")
	}
	return k, nil
}

// Public implements [Signer].
func (k *PrivateKey) Public() PublicKey { return k.public }

// Sign implements [Signer]. Both algorithms are deterministic (RFC 8032, RFC
// 6979): a weak random source cannot give the key away.
func (k *PrivateKey) Sign(signingInput []byte) ([]byte, error) {
	if k.ec == nil {
		return ed25519.Sign(k.ed, signingInput), nil
	}
	digest := sha256.Sum256(signingInput)
	var point struct{ R, S *big.Int }
	der, err := k.ec.Sign(nil, digest[:], crypto.SHA256)
	if err == nil {
		_, err = asn1.Unmarshal(der, &point)
	}
	var signature []byte
	if err == nil {
		signature = make([]byte, 64)
		point.R.FillBytes(signature[:32])
		point.S.FillBytes(signature[32:])
	}
	return signature, err
}

// JWK returns the private key itself as a JWK, for a file with mode 0600.
func (k *PrivateKey) JWK() []byte {
	secret := k.ed[:len(k.ed)/2]
	if k.ec != nil {
		secret, _ = k.ec.Bytes() // fails for curves without a fixed length alone
	}
	members, _ := k.public.JWK().Members()
	private := powerbox.Object(append(members[:len(members):len(members)], textMember("d", encodeBase64(secret)))...)
	return private.AppendJSON(nil)
}

// String returns the thumbprint of the public key.
func (k *PrivateKey) String() string { return "private key of " + k.public.URI() }

// Format implements [fmt.Formatter]: every verb prints [PrivateKey.String].
func (k *PrivateKey) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.String()) }

// LogValue implements [slog.LogValuer] with [PrivateKey.String].
func (k *PrivateKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON returns [PrivateKey.String] as a JSON string.
func (k *PrivateKey) MarshalJSON() ([]byte, error) { return powerbox.String(k.String()).MarshalJSON() }
