// Package oidctest is an OpenID provider for tests, as far as a resource server sees one: it serves discovery
// and keys, and its tokens are signed.
package oidctest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Provider serves discovery and keys.
type Provider struct {
	*httptest.Server

	Fetches atomic.Int32 // of the keys
	Broken  atomic.Bool  // the keys cannot be fetched

	keys atomic.Pointer[jose.JSONWebKeySet]
}

// New starts a provider with these keys, for the time of a test.
func New(t testing.TB, keys ...jose.JSONWebKey) *Provider {
	t.Helper()
	p := &Provider{}
	p.Publish(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.Fetches.Add(1)
		if p.Broken.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(p.keys.Load())
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// Publish replaces the keys.
func (p *Provider) Publish(keys ...jose.JSONWebKey) {
	p.keys.Store(&jose.JSONWebKeySet{Keys: keys})
}

// Sign returns a token of claims, signed by a key.
func Sign(t testing.TB, alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}
