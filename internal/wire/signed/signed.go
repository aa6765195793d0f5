// Package signed makes and opens the short statements by which the server and its
// gateways speak to each other through any intermediary: compact JWS (RFC 7515) with
// Ed25519.
//
// The laws: the key decides the algorithm, and there is one; a statement is of
// one type, and stands for none of another (ATK-13); its header has one form,
// which is compared and never parsed; claims are read only after the signature
// held, and strictly.
package signed

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// Public is the public half of a key. It can be compared.
type Public struct{ x [ed25519.PublicKeySize]byte }

// ParsePublic reads the text that [Public.String] returns.
func ParsePublic(s string) (Public, error) {
	var p Public
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(p.x) {
		return p, errors.New("signed: a public key is 32 bytes in base64url, without padding")
	}
	copy(p.x[:], b)
	return p, nil
}

// Bytes returns the 32 bytes of the key.
func (p Public) Bytes() []byte { return append([]byte(nil), p.x[:]...) }

// String returns the 32 bytes of the key in base64url.
func (p Public) String() string { return base64.RawURLEncoding.EncodeToString(p.x[:]) }

// MarshalText is String.
func (p Public) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePublic].
func (p *Public) UnmarshalText(text []byte) error {
	parsed, err := ParsePublic(string(text))
	*p = parsed
	return err
}

// ID returns the RFC 7638 thumbprint of the key.
func (p Public) ID() string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + p.String() + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Key signs. However it is printed, logged or marshalled, it shows its id alone.
type Key struct{ private func() crypto.Signer }

// NewKey returns the key of a seed of 32 bytes.
func NewKey(seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("signed: a seed of %d bytes; want %d", len(seed), ed25519.SeedSize)
	}
	return KeyOf(ed25519.NewKeyFromSeed(seed))
}

// KeyOf returns the key that a signer holds, which is Ed25519.
func KeyOf(private crypto.Signer) (Key, error) {
	if _, ok := private.Public().(ed25519.PublicKey); !ok {
		return Key{}, fmt.Errorf("signed: a key of %T; want Ed25519", private.Public())
	}
	return Key{func() crypto.Signer { return private }}, nil
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.private == nil }

// Public returns the public half.
func (k Key) Public() Public {
	var p Public
	public, _ := k.private().Public().(ed25519.PublicKey) // it was checked
	copy(p.x[:], public)
	return p
}

// String returns the id of the key.
func (k Key) String() string { return "key " + k.Public().ID() }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// LogValue is String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText is String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Sign returns a statement of that type with the claims as JSON.
func (k Key) Sign(typ string, claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("signed: %w", err)
	}
	input := header(typ, k.Public()) + "." + base64.RawURLEncoding.EncodeToString(payload)
	signature, err := k.private().Sign(nil, []byte(input), crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("signed: %w", err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func header(typ string, p Public) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"` + p.ID() + `","typ":"` + typ + `"}`))
}

// ErrInvalid is wrapped by every refusal of [Open].
var ErrInvalid = errors.New("signed: the statement is refused")

// Open verifies that one of the keys signed a statement of that type, reads its
// claims, and returns the key. Nothing is written to claims before that.
func Open(typ string, keys []Public, compact string, claims any) (Public, error) {
	at := strings.LastIndexByte(compact, '.')
	if at < 0 {
		return Public{}, fmt.Errorf("%w: it has not three parts", ErrInvalid)
	}
	head, payload, _ := strings.Cut(compact[:at], ".")
	signature, ok := unbase64(compact[at+1:])
	if !ok {
		return Public{}, fmt.Errorf("%w: its signature is not base64url", ErrInvalid)
	}
	for _, p := range keys {
		if head != header(typ, p) {
			continue
		}
		if !ed25519.Verify(p.x[:], []byte(compact[:at]), signature) {
			return Public{}, fmt.Errorf("%w: its signature does not hold", ErrInvalid)
		}
		return p, read(payload, claims)
	}
	return Public{}, fmt.Errorf("%w: it is not of type %s under a key that is known here", ErrInvalid, typ)
}

// unbase64 decodes a text that has its only form: without line ends, which the decoder
// passes over, and without bits that are left.
func unbase64(s string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return b, err == nil && base64.RawURLEncoding.EncodeToString(b) == s
}

// read decodes strictly: no member twice, none unknown.
func read(payload string, claims any) error {
	data, ok := unbase64(payload)
	if !ok {
		return fmt.Errorf("%w: its claims are not base64url", ErrInvalid)
	}
	if _, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data) + 1, Depth: 16}); err != nil {
		return fmt.Errorf("%w: claims: %w", ErrInvalid, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(claims); err != nil {
		return fmt.Errorf("%w: claims: %w", ErrInvalid, err)
	}
	return nil
}
