package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/powerbox-project/powerbox/integrations/keys"
	"github.com/powerbox-project/powerbox/integrations/keys/keystest"
)

// TestKeysAreInAWS checks the requests that the stock SDK sends to KMS.
func TestKeysAreInAWS(t *testing.T) {
	made := map[string]crypto.Signer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			KeySpec, KeyUsage, KeyID, MessageType, SigningAlgorithm string
			Message                                                 []byte
		}
		if json.NewDecoder(r.Body).Decode(&q) != nil || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKID/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		var out map[string]any
		switch op := r.Header.Get("X-Amz-Target"); {
		case op == "TrentService.CreateKey" && q.KeyUsage == "SIGN_VERIFY" && q.KeySpec == "ECC_NIST_EDWARDS25519":
			_, made["arn:ed"], _ = ed25519.GenerateKey(rand.Reader)
			out = map[string]any{"KeyMetadata": map[string]any{"KeyId": "ed", "Arn": "arn:ed"}}
		case op == "TrentService.CreateKey" && q.KeyUsage == "SIGN_VERIFY" && q.KeySpec == "ECC_NIST_P256":
			made["arn:ec"], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			out = map[string]any{"KeyMetadata": map[string]any{"KeyId": "ec", "Arn": "arn:ec"}}
		case op == "TrentService.GetPublicKey":
			der, _ := x509.MarshalPKIXPublicKey(made[q.KeyID].Public())
			out = map[string]any{"PublicKey": der}
		case op == "TrentService.Sign" && (q.KeyID == "arn:ed" && q.MessageType == "RAW" && q.SigningAlgorithm == "ED25519_SHA_512" || q.KeyID == "arn:ec" && q.MessageType == "DIGEST" && q.SigningAlgorithm == "ECDSA_SHA_256"):
			hash := map[string]crypto.Hash{"arn:ed": 0, "arn:ec": crypto.SHA256}[q.KeyID]
			signature, _ := made[q.KeyID].Sign(rand.Reader, q.Message, hash)
			out = map[string]any{"Signature": signature}
		default:
			t.Errorf("an unknown request: %s %+v", op, q)
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	s := store{kms.New(kms.Options{Region: "eu-central-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", "")})}
	keystest.Try(t, s)
	if _, err := s.Sign(t.Context(), "arn:ed", keys.Ed25519, make([]byte, 4097)); err == nil || !strings.Contains(err.Error(), "4096") {
		t.Errorf("a message that KMS does not sign: %v", err)
	}
}
