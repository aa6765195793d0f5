package identity_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/token"
)

const audience = "https://pb.example/agents/documents"

var now = time.Unix(1_800_000_000, 0)

// issuer is an OpenID provider that signs tokens with an RSA key.
type issuer struct {
	*oidctest.Provider

	rsa *rsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key := rsaKey(t)
	return &issuer{oidctest.New(t, jose.JSONWebKey{Key: key.Public(), KeyID: "one", Use: "sig"}), key}
}

// rsaKeys are the keys of issuers. Issuers of one test have different ones, and those of the
// next test have them again: each takes a large part of a second to make.
var rsaKeys = struct {
	sync.Mutex
	made []*rsa.PrivateKey
	used map[string]int // by the name of the test
}{used: map[string]int{}}

func rsaKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	rsaKeys.Lock()
	defer rsaKeys.Unlock()
	test, _, _ := strings.Cut(t.Name(), "/")
	n := rsaKeys.used[test]
	rsaKeys.used[test]++
	if n == len(rsaKeys.made) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		rsaKeys.made = append(rsaKeys.made, key)
	}
	return rsaKeys.made[n]
}

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
	return oidctest.Sign(t, jose.RS256, i.rsa, map[jose.HeaderKey]any{"kid": "one", "typ": "at+jwt"}, i.claims(differs))
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
