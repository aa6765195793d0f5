package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/kept"
)

const (
	keysFresh      = 10 * time.Minute // after which the set is fetched again
	keysStale      = time.Hour        // after which a set that cannot be fetched is not used
	keysMinRefresh = 30 * time.Second // between two fetches, whatever tokens name
	keysMaximum    = 100              // in one set
	keysTried      = 8                // for one token without a key id
	minimumRSABits = 2048
)

var jsonLimits = powerbox.Limits{Bytes: 1 << 20, Depth: 16}

// keySource has the keys of one issuer: given, or fetched and kept.
type keySource struct {
	issuer  string
	url     string // of the key set; empty means discovery
	fetch   Fetcher
	fixed   atomic.Pointer[[]jose.JSONWebKey] // nil where they are fetched, or gone
	fetched *kept.Values[[]jose.JSONWebKey]   // by issuer
}

func newKeySource(c Provider, fetch Fetcher) (*keySource, error) {
	k := &keySource{issuer: c.Issuer, url: c.JWKSURL, fetch: fetch}
	if c.Unkeyed {
		return k, nil
	}
	if len(c.JWKS) == 0 {
		if fetch == nil {
			return nil, fmt.Errorf("issuer %q has no key set and there is no client to fetch one", c.Issuer)
		}
		k.fetched = kept.New(kept.Times{Fresh: keysFresh, Stale: keysStale, Pause: keysMinRefresh}, 1, k.load)
		return k, nil
	}
	keys, err := parseKeys(c.JWKS)
	if err != nil {
		return nil, fmt.Errorf("key set of %q: %w", c.Issuer, err)
	}
	k.fixed.Store(&keys)
	return k, nil
}

// find returns the keys that may have signed a token with that key id: those
// with the id, or all of a small set when the token names none.
func (k *keySource) find(ctx context.Context, kid string, now time.Time) ([]jose.JSONWebKey, error) {
	if k.fetched == nil {
		keys := k.fixed.Load()
		if keys == nil {
			return nil, refuse(CodeKeysUnavailable, "the keys of issuer %q cannot be read; try again later", k.issuer)
		}
		return candidates(*keys, kid), nil
	}
	keys, ok, err := k.fetched.Get(ctx, k.issuer, func() time.Time { return now }, func(keys []jose.JSONWebKey) bool { return len(candidates(keys, kid)) > 0 })
	if !ok {
		return nil, &Error{CodeKeysUnavailable, fmt.Sprintf("the keys of issuer %q could not be fetched; try again later", k.issuer), err}
	}
	return candidates(keys, kid), nil
}

func (k *keySource) load(ctx context.Context, _ string) ([]jose.JSONWebKey, error) {
	address := k.url
	if address == "" {
		found, err := k.discover(ctx)
		if err != nil {
			return nil, err
		}
		address = found
	}
	body, _, err := k.fetch.Get(ctx, address, "application/jwk-set+json, application/json")
	if err != nil {
		return nil, err
	}
	return parseKeys(body)
}

// discover returns the jwks_uri of the issuer's metadata, whose issuer must be
// the one that was asked for (OpenID Connect Discovery, section 4.3).
func (k *keySource) discover(ctx context.Context) (string, error) {
	body, _, err := k.fetch.Get(ctx, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration", "application/json")
	if err != nil {
		return "", err
	}
	metadata, err := powerbox.DecodeValue(body, jsonLimits)
	if err != nil {
		return "", fmt.Errorf("discovery document: %w", err)
	}
	if issuer := textMember(metadata, "issuer"); issuer != k.issuer {
		return "", fmt.Errorf("discovery document is of issuer %q; want %q", issuer, k.issuer)
	}
	address := textMember(metadata, "jwks_uri")
	if address == "" {
		return "", errors.New("discovery document has no jwks_uri")
	}
	return address, nil
}

// parseKeys reads a key set. Keys that cannot verify a signature here (other
// types, secrets, small RSA, meant for encryption) are left out, since an
// issuer may publish them beside the ones that can.
func parseKeys(data []byte) ([]jose.JSONWebKey, error) {
	set, err := powerbox.DecodeValue(data, jsonLimits)
	if err != nil {
		return nil, err
	}
	member, _ := set.Get("keys")
	elements, ok := member.Elements()
	if !ok {
		return nil, errors.New(`no array "keys"; want a JWK set (RFC 7517, section 5)`)
	}
	if len(elements) > keysMaximum {
		return nil, fmt.Errorf("%d keys; want at most %d", len(elements), keysMaximum)
	}
	var keys []jose.JSONWebKey
	for _, e := range elements {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(e.AppendJSON(nil)) != nil || key.Use != "" && key.Use != "sig" || len(algorithms(key)) == 0 {
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no usable key; want RSA of at least 2048 bits, P-256, P-384, P-521 or Ed25519 public keys")
	}
	return keys, nil
}

// candidates looks a key id up. It is an opaque name: nothing is derived from
// it (ATK-14).
func candidates(keys []jose.JSONWebKey, kid string) []jose.JSONWebKey {
	if kid == "" {
		return keys[:min(len(keys), keysTried)]
	}
	var found []jose.JSONWebKey
	for _, k := range keys {
		if k.KeyID == kid && len(found) < keysTried {
			found = append(found, k)
		}
	}
	return found
}

// algorithms returns what the key may verify: the key decides, not the token.
func algorithms(key jose.JSONWebKey) []jose.SignatureAlgorithm {
	var of []jose.SignatureAlgorithm
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= minimumRSABits {
			of = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
		}
	case *ecdsa.PublicKey:
		of = map[string][]jose.SignatureAlgorithm{"P-256": {jose.ES256}, "P-384": {jose.ES384}, "P-521": {jose.ES512}}[k.Params().Name]
	case ed25519.PublicKey:
		of = []jose.SignatureAlgorithm{jose.EdDSA}
	}
	if key.Algorithm == "" {
		return of
	}
	return slices.DeleteFunc(of, func(a jose.SignatureAlgorithm) bool { return string(a) != key.Algorithm })
}

// Rekey puts another key set of an issuer in force, which was given with the configuration.
func (a *Authenticator) Rekey(issuer string, jwks []byte) error {
	p := a.providers[issuer]
	if p == nil {
		return fmt.Errorf("issuer %q is not configured", issuer)
	}
	keys, err := parseKeys(jwks)
	if err != nil {
		a.Unkey(issuer)
		return fmt.Errorf("key set of %q: %w", issuer, err)
	}
	p.keys.fixed.Store(&keys)
	return nil
}

// Unkey takes the key set of an issuer away: none of its tokens is believed until [Authenticator.Rekey].
func (a *Authenticator) Unkey(issuer string) {
	if p := a.providers[issuer]; p != nil {
		p.keys.fixed.Store(nil)
	}
}
