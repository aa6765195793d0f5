package identity_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/token"
)

const audience = "https://pb.example/agents/documents"

var now = time.Unix(1_800_000_000, 0)

// issuer is an OpenID provider as far as a resource server sees one: it serves
// discovery and keys, and it has signed tokens.
type issuer struct {
	*httptest.Server
	rsa     *rsa.PrivateKey
	keys    atomic.Pointer[jose.JSONWebKeySet]
	fetches atomic.Int32
	broken  atomic.Bool
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{rsa: key}
	i.publish(jose.JSONWebKey{Key: key.Public(), KeyID: "one", Use: "sig"})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if i.broken.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		json.NewEncoder(w).Encode(i.keys.Load())
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(keys ...jose.JSONWebKey) { i.keys.Store(&jose.JSONWebKeySet{Keys: keys}) }

func (i *issuer) provider() identity.Provider {
	return identity.Provider{Issuer: i.URL, Audiences: []string{"https://pb.example"}, GroupsClaim: "groups", RolesClaim: "/realm_access/roles", Attributes: []string{"department"}}
}

// claims are those of a good token for alice, with what differs.
func (i *issuer) claims(differs map[string]any) map[string]any {
	c := map[string]any{
		"iss": i.URL, "sub": "alice", "aud": audience, "azp": "orchestrator",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"groups": []string{"finance"}, "realm_access": map[string]any{"roles": []string{"reader"}}, "department": "accounts",
	}
	maps.Copy(c, differs)
	for name, v := range c {
		if v == nil {
			delete(c, name)
		}
	}
	return c
}

func (i *issuer) token(t testing.TB, differs map[string]any) string {
	t.Helper()
	return signWith(t, jose.RS256, i.rsa, map[jose.HeaderKey]any{"kid": "one", "typ": "at+jwt"}, i.claims(differs))
}

func signWith(t testing.TB, alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, claims any) string {
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

func authenticator(t testing.TB, c identity.Config) *identity.Authenticator {
	t.Helper()
	if c.Started.IsZero() {
		c.Started = now.Add(-time.Hour)
	}
	if c.Fetch == nil {
		c.Fetch = outbound.New(outbound.Policy{AllowLoopback: true})
	}
	a, err := identity.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// request is one to the audience, with headers in name, value pairs.
func request(t testing.TB, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agents/documents", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func holderKey(t testing.TB) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func proof(t testing.TB, k *token.PrivateKey, accessToken, id string) string {
	t.Helper()
	p, err := token.SignDPoP(k, token.DPoPRequest{Method: "POST", URL: audience, AccessToken: accessToken, Now: now}, id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// otherKeys are one key of each kind that is not RSA.
func otherKeys(t testing.TB) map[jose.SignatureAlgorithm]any {
	t.Helper()
	keys := make(map[jose.SignatureAlgorithm]any)
	for alg, curve := range map[jose.SignatureAlgorithm]elliptic.Curve{jose.ES256: elliptic.P256(), jose.ES384: elliptic.P384(), jose.ES512: elliptic.P521()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys[alg] = k
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys[jose.EdDSA] = ed
	return keys
}
