package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"

	"github.com/powerbox-project/powerbox/integrations/keys/keystest"
)

// TestKeysAreInGoogleCloud checks the requests that the stock SDK sends to Cloud KMS.
func TestKeysAreInGoogleCloud(t *testing.T) {
	const ring = "projects/p/locations/europe-west3/keyRings/r"
	made, pending := map[string]crypto.Signer{}, map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Purpose         kmspb.CryptoKey_CryptoKeyPurpose // the SDK writes numbers
			VersionTemplate struct {
				Algorithm       kmspb.CryptoKeyVersion_CryptoKeyVersionAlgorithm
				ProtectionLevel kmspb.ProtectionLevel
			}
			Data         []byte
			DataCrc32c   string
			Digest       struct{ Sha256 []byte }
			DigestCrc32c string
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		path := strings.TrimPrefix(r.URL.Path, "/v1/")
		name, _, _ := strings.Cut(path, "/cryptoKeyVersions/1")
		var out map[string]any
		switch {
		case r.Method == http.MethodPost && path == ring+"/cryptoKeys" && q.Purpose == kmspb.CryptoKey_ASYMMETRIC_SIGN && q.VersionTemplate.ProtectionLevel == kmspb.ProtectionLevel_HSM:
			name = path + "/" + r.URL.Query().Get("cryptoKeyId")
			if made[name], pending[name] = nil, true; q.VersionTemplate.Algorithm == kmspb.CryptoKeyVersion_EC_SIGN_ED25519 {
				_, made[name], _ = ed25519.GenerateKey(rand.Reader)
			} else if q.VersionTemplate.Algorithm == kmspb.CryptoKeyVersion_EC_SIGN_P256_SHA256 {
				made[name], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			}
			out = map[string]any{"name": name}
		case strings.HasSuffix(path, "/cryptoKeyVersions/1"):
			out = map[string]any{"name": path, "state": "ENABLED"}
			if pending[name] {
				out["state"], pending[name] = "PENDING_GENERATION", false
			}
		case strings.HasSuffix(path, "/publicKey"):
			der, _ := x509.MarshalPKIXPublicKey(made[name].Public())
			out = map[string]any{"pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
		case strings.HasSuffix(path, ":asymmetricSign") && q.DataCrc32c+q.DigestCrc32c != "":
			var signature []byte
			if len(q.Data) > 0 {
				signature, _ = made[name].Sign(nil, q.Data, crypto.Hash(0))
			} else {
				signature, _ = made[name].Sign(rand.Reader, q.Digest.Sha256, crypto.SHA256)
			}
			out = map[string]any{"signature": signature}
		default:
			t.Errorf("an unknown request: %s %s %+v", r.Method, r.URL, q)
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	client, err := kms.NewKeyManagementRESTClient(t.Context(), option.WithEndpoint(server.URL), option.WithHTTPClient(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	keystest.Try(t, store{client, ring, true})
}
