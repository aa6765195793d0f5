package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"

	"github.com/powerbox-project/powerbox/integrations/keys/keystest"
)

type token struct{}

func (token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "a-token-of-azure", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// TestKeysAreInAzure checks the requests that the stock SDK sends to Key Vault.
func TestKeysAreInAzure(t *testing.T) {
	var key *ecdsa.PrivateKey
	encode := base64.RawURLEncoding.EncodeToString
	var server *httptest.Server
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a-token-of-azure" {
			w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.example/tenant", resource="https://vault.azure.net"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var q struct{ Kty, Crv, Alg, Value string }
		_ = json.NewDecoder(r.Body).Decode(&q)
		jwk := func() map[string]any {
			point, _ := key.PublicKey.Bytes()
			return map[string]any{"key": map[string]any{"kid": server.URL + "/keys/powerbox-evidence/v1", "kty": "EC-HSM", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}}
		}
		var out map[string]any
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/keys/powerbox-evidence-") && strings.HasSuffix(path, "/create") && q.Kty == "EC-HSM" && q.Crv == "P-256":
			key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			out = jwk()
		case r.Method == http.MethodGet && path == "/keys/powerbox-evidence/v1":
			out = jwk()
		case path == "/keys/powerbox-evidence/v1/sign" && q.Alg == "ES256":
			digest, _ := base64.RawURLEncoding.DecodeString(q.Value)
			a, b, _ := ecdsa.Sign(rand.Reader, key, digest)
			raw := make([]byte, 64)
			a.FillBytes(raw[:32])
			b.FillBytes(raw[32:])
			out = map[string]any{"value": encode(raw)}
		default:
			t.Errorf("an unknown request: %s %s %+v", r.Method, r.URL, q)
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	s, err := open(server.URL, true, token{}, &azkeys.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: server.Client()}, DisableChallengeResourceVerification: true})
	if err != nil {
		t.Fatal(err)
	}
	keystest.Try(t, s)
}
