//go:build publicvectors

package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readPublic(t *testing.T, env, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(os.Getenv(env), file))
	if err != nil {
		t.Fatalf("%s: %v; run make vectors", env, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// publicVectors is a file of Wycheproof, of keys as JWK or as bytes.
type publicVectors struct {
	TestGroups []struct {
		PublicKey    json.RawMessage
		PublicKeyJwk json.RawMessage
		Tests        []struct {
			TcID                      int
			Comment, Msg, Sig, Result string
			Ctx                       *string
		}
	}
}

func unhexPublic(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWycheproofTokens puts signatures to the keys of tokens, proofs and links.
func TestWycheproofTokens(t *testing.T) {
	for _, file := range []string{"ed25519_test.json", "ecdsa_secp256r1_sha256_p1363_test.json", "mldsa_87_verify_test.json"} {
		t.Run(file, func(t *testing.T) {
			var vectors publicVectors
			readPublic(t, "POWERBOX_WYCHEPROOF", file, &vectors)
			n, skipped := 0, 0
			for _, g := range vectors.TestGroups {
				jwk := g.PublicKeyJwk
				if len(jwk) == 0 {
					jwk = jwkOf(t, g.PublicKey)
				}
				key, err := ParsePartyKey(jwk)
				for _, v := range g.Tests {
					if v.Ctx != nil && *v.Ctx != "" {
						skipped++ // signatures here have an empty context
						continue
					}
					n++
					got := err == nil && key.Verify(unhexPublic(t, v.Msg), unhexPublic(t, v.Sig))
					if got != (v.Result == "valid") {
						t.Errorf("%d %s: %v, want %s (%v)", v.TcID, v.Comment, got, v.Result, err)
					}
				}
			}
			t.Logf("vectors: %d, and %d with a context", n, skipped)
		})
	}
}

// jwkOf is the key of a group that has none as JWK: a P-256 point, or ML-DSA-87.
func jwkOf(t *testing.T, public json.RawMessage) []byte {
	t.Helper()
	var point struct{ Uncompressed string }
	var lattice string
	if json.Unmarshal(public, &lattice) == nil {
		return fmt.Appendf(nil, `{"alg":"ML-DSA-87","kty":"AKP","pub":"%s"}`, base64.RawURLEncoding.EncodeToString(unhexPublic(t, lattice)))
	}
	if err := json.Unmarshal(public, &point); err != nil {
		t.Fatal(err)
	}
	b := unhexPublic(t, point.Uncompressed)
	return fmt.Appendf(nil, `{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, base64.RawURLEncoding.EncodeToString(b[1:33]), base64.RawURLEncoding.EncodeToString(b[33:]))
}

// TestWycheproofJWS takes the JWS of every group, as parseJWS does up to the
// payload, which is no object in these vectors. One of another algorithm is
// refused, whether it is valid or not.
func TestWycheproofJWS(t *testing.T) {
	var file struct {
		TestGroups []struct {
			Comment         string
			Public, Private json.RawMessage
			Tests           []struct {
				TcID            int
				Comment, Result string
				JWS             json.RawMessage
			}
		}
	}
	readPublic(t, "POWERBOX_WYCHEPROOF", "json_web_signature_test.json", &file)
	n, ours := 0, 0
	for _, g := range file.TestGroups {
		key, errKey := ParsePublicKey(g.Public)
		for _, v := range g.Tests {
			var compact string
			if json.Unmarshal(v.JWS, &compact) != nil {
				continue // in JSON form, which has no reader here
			}
			n++
			got := errKey == nil && holds(compact, key)
			want := v.Result == "valid" && errKey == nil
			if want {
				ours++
			}
			if got != want {
				t.Errorf("%s %d %s: %v, want %v (%v)", g.Comment, v.TcID, v.Comment, got, want, errKey)
			}
		}
	}
	if n < 300 || ours < 2 {
		t.Errorf("%d vectors, %d of them valid for ES256", n, ours)
	}
	t.Logf("vectors: %d, of which %d are valid and for a key that tokens have", n, ours)
}

func holds(compact string, key PublicKey) bool {
	if checkParts(compact) != nil {
		return false
	}
	parts := strings.Split(compact, ".")
	head, err := readHeader(parts[0], TypeToken)
	if err != nil {
		return false
	}
	if _, err := decodeBase64(parts[1]); err != nil {
		return false
	}
	signature, err := decodeBase64(parts[2])
	if err != nil || len(signature) != 64 {
		return false
	}
	j := jws{header: head, signed: parts[0] + "." + parts[1], signature: [64]byte(signature)}
	return j.verify(key.Keep()) == nil
}

func TestCCTVTokens(t *testing.T) {
	var vectors []struct {
		Number        int
		Key, Sig, Msg string
	}
	readPublic(t, "POWERBOX_CCTV_ED25519", "ed25519vectors.json", &vectors)
	for _, v := range vectors {
		public, signature := unhexPublic(t, v.Key), unhexPublic(t, v.Sig)
		key, err := ParsePublicKey(fmt.Appendf(nil, `{"crv":"Ed25519","kty":"OKP","x":"%s"}`, base64.RawURLEncoding.EncodeToString(public)))
		if got, want := err == nil && key.Verify([]byte(v.Msg), signature), ed25519.Verify(public, []byte(v.Msg), signature); got != want {
			t.Errorf("%d: %v, want %v", v.Number, got, want)
		}
	}
	t.Logf("vectors: %d", len(vectors))
}
