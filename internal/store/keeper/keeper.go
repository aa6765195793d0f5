// Package keeper signs with keys that are not in this process: a program, such as one
// that speaks to a hardware token or a cloud, or the Transit engine of Vault and OpenBao.
//
// The laws: a signature has a time limit; every signature is verified under the public key
// before it is used; what a keeper says is read within limits; a private key never comes
// here.
package keeper

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The algorithms of keys.
const (
	Ed25519 = "Ed25519"
	ES256   = "ES256" // ECDSA on P-256 with SHA-256
)

// Keeper makes keys and signs with them. Its methods can be called by many goroutines.
type Keeper interface {
	// String says what and where it is, for people.
	String() string
	// Create makes a key by the first of the algorithms that the keeper has. The
	// name is for people: a key is known by its reference.
	Create(ctx context.Context, name string, algorithms []string) (Made, error)
	// Public returns the public half of a key.
	Public(ctx context.Context, reference string) (jose.JSONWebKey, error)
	// Sign signs a message by Ed25519, and by ES256 the SHA-256 digest that message is.
	// The signature has 64 bytes.
	Sign(ctx context.Context, reference, algorithm string, message []byte) ([]byte, error)
	// Close ends everything that the keeper started.
	Close() error
}

// Made is a key of a keeper: the reference that it knows it by, and its public half.
type Made struct {
	Reference string          `json:"key"`
	Public    jose.JSONWebKey `json:"public"`
}

// maxReference bounds a reference, which becomes part of files and requests.
const maxReference = 512

// check refuses a key that cannot be used.
func (m Made) check() error {
	if m.Reference == "" || len(m.Reference) > maxReference || strings.ContainsFunc(m.Reference, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("the reference of a key has 1 to %d characters on one line", maxReference)
	}
	_, err := algorithmOf(m.Public)
	return err
}

// algorithmOf is that of a public key.
func algorithmOf(k jose.JSONWebKey) (string, error) {
	switch public := k.Key.(type) {
	case ed25519.PublicKey:
		return Ed25519, nil
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P256() {
			return ES256, nil
		}
	}
	return "", fmt.Errorf("a key is the public JWK of Ed25519 or P-256, and not a %T", k.Key)
}

// Thumbprint names a public key (RFC 7638).
func Thumbprint(k jose.JSONWebKey) string {
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

// Key is a key of a keeper as the standard library's signer. However it is printed, it
// shows where it is.
type Key struct {
	keeper    Keeper
	made      Made
	algorithm string
	patience  time.Duration
}

var _ crypto.Signer = (*Key)(nil)

// NewKey returns the signer of a key. A signature takes as long as patience at the most.
func NewKey(k Keeper, made Made, patience time.Duration) (*Key, error) {
	if err := made.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	algorithm, _ := algorithmOf(made.Public) // it was checked
	return &Key{k, made, algorithm, patience}, nil
}

// Confirm asks the keeper for the public key, which must be the one that is known here.
func (k *Key) Confirm() error {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	public, err := k.keeper.Public(ctx, k.made.Reference)
	if err != nil {
		return fmt.Errorf("%s: key %q: %w", k.keeper, k.made.Reference, err)
	}
	if Thumbprint(public) != Thumbprint(k.made.Public) {
		return fmt.Errorf("%s: key %q is %s; want %s, as when it was made", k.keeper, k.made.Reference, Thumbprint(public), Thumbprint(k.made.Public))
	}
	return nil
}

// Made returns the reference and the public half.
func (k *Key) Made() Made { return k.made }

// Algorithm is Ed25519 or ES256.
func (k *Key) Algorithm() string { return k.algorithm }

// Public implements [crypto.Signer].
func (k *Key) Public() crypto.PublicKey { return k.made.Public.Key }

// String says where the key is.
func (k *Key) String() string { return "key " + k.made.Reference + " of " + k.keeper.String() }

// LogValue is String.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Sign implements [crypto.Signer]: a message for Ed25519, and for ES256 its digest, whose
// signature is in ASN.1.
func (k *Key) Sign(_ io.Reader, message []byte, _ crypto.SignerOpts) ([]byte, error) {
	if k.algorithm == ES256 && len(message) != sha256.Size {
		return nil, errors.New("keeper: ES256 signs a SHA-256 digest")
	}
	signature, err := k.SignRaw(message)
	if err != nil || k.algorithm == Ed25519 {
		return signature, err
	}
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return asn1.Marshal(struct{ R, S *big.Int }{r, s})
}

// ErrSigning is wrapped by every failure to sign.
var ErrSigning = errors.New("the key cannot sign now")

// SignRaw returns the 64 bytes of a signature, of a message for Ed25519 and of its digest
// for ES256.
func (k *Key) SignRaw(message []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	defer cancel()
	signature, err := k.keeper.Sign(ctx, k.made.Reference, k.algorithm, message)
	if err == nil && !k.holds(message, signature) {
		err = errors.New("the signature does not verify under the key's public half")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSigning, k, err)
	}
	return signature, nil
}

// holds reports whether a signature verifies: a keeper that fails or lies must not have it
// stand in evidence.
func (k *Key) holds(message, signature []byte) bool {
	if len(signature) != 64 {
		return false
	}
	if public, ok := k.made.Public.Key.(ed25519.PublicKey); ok {
		return ed25519.Verify(public, message, signature)
	}
	public, ok := k.made.Public.Key.(*ecdsa.PublicKey)
	return ok && ecdsa.Verify(public, message, new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}
