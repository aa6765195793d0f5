//go:build publicvectors

package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func readPublic(t *testing.T, env, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(os.Getenv(env), file))
	if err != nil {
		t.Fatalf("%s: %v; run make vectors", env, err)
	}
	must(t, json.Unmarshal(data, into))
}

// publicVector is one signature under one key, for both verifiers.
type publicVector struct {
	name               string
	key                Key
	raw                string // of the key, hex, as verify.mjs takes it
	message, signature string // hex
	valid              bool
}

// bothHold puts signatures to the keys of records, and to verify.mjs where its
// platform has the algorithm.
func bothHold(t *testing.T, vectors []publicVector) {
	t.Helper()
	var questions []asked
	for _, v := range vectors {
		message, err := hex.DecodeString(v.message)
		must(t, err)
		signature, err := hex.DecodeString(v.signature)
		must(t, err)
		if got := v.key.verify(message, signature) == nil; got != v.valid {
			t.Errorf("%s: %v, want %v", v.name, got, v.valid)
		}
		questions = append(questions, asked{Algorithm: v.key.Algorithm, Public: v.raw, Hex: v.message, Signature: v.signature})
	}
	lacking := 0
	for i, answer := range inNode(t, questions) {
		switch {
		case answer.Text == "undefined":
			lacking++
		case (answer.Text == "true") != vectors[i].valid:
			t.Errorf("%s: verify.mjs says %s %s, want %v", vectors[i].name, answer.Text, answer.Error, vectors[i].valid)
		}
	}
	if len(vectors) < 100 {
		t.Errorf("only %d vectors", len(vectors))
	}
	t.Logf("vectors: %d in Go, %d in verify.mjs", len(vectors), len(vectors)-lacking)
}

func TestWycheproofEvidence(t *testing.T) {
	for file, read := range map[string]func(t *testing.T, public json.RawMessage) (Key, string){
		"ed25519_test.json": func(t *testing.T, public json.RawMessage) (Key, string) {
			var k struct{ Pk string }
			must(t, json.Unmarshal(public, &k))
			return described(Key{KeyType: "OKP", Curve: "Ed25519", Algorithm: Ed25519, X: inBase64(t, k.Pk)}), k.Pk
		},
		"ecdsa_secp256r1_sha256_p1363_test.json": func(t *testing.T, public json.RawMessage) (Key, string) {
			var k struct{ Uncompressed string }
			must(t, json.Unmarshal(public, &k))
			point := k.Uncompressed
			return described(Key{KeyType: "EC", Curve: "P-256", Algorithm: ES256, X: inBase64(t, point[2:66]), Y: inBase64(t, point[66:])}), point
		},
		"mldsa_87_verify_test.json": func(t *testing.T, public json.RawMessage) (Key, string) {
			var k string
			must(t, json.Unmarshal(public, &k))
			return described(Key{KeyType: "AKP", Algorithm: MLDSA87, Pub: inBase64(t, k)}), k
		},
	} {
		t.Run(file, func(t *testing.T) {
			var vectors []publicVector
			var groups struct {
				TestGroups []struct {
					PublicKey json.RawMessage
					Tests     []struct {
						TcID                      int
						Comment, Msg, Sig, Result string
						Ctx                       *string
					}
				}
			}
			readPublic(t, "POWERBOX_WYCHEPROOF", file, &groups)
			for _, g := range groups.TestGroups {
				key, raw := read(t, g.PublicKey)
				for _, v := range g.Tests {
					if v.Ctx != nil && *v.Ctx != "" {
						continue // signatures here have an empty context
					}
					vectors = append(vectors, publicVector{fmt.Sprintf("%d %s", v.TcID, v.Comment), key, raw, v.Msg, v.Sig, v.Result == "valid"})
				}
			}
			bothHold(t, vectors)
		})
	}
}

func described(k Key) Key {
	k.ID = k.thumbprint()
	return k
}

func inBase64(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	must(t, err)
	return base64.RawURLEncoding.EncodeToString(b)
}

func TestCCTVEvidence(t *testing.T) {
	var vectors []struct {
		Number        int
		Key, Sig, Msg string
	}
	readPublic(t, "POWERBOX_CCTV_ED25519", "ed25519vectors.json", &vectors)
	var list []publicVector
	for _, v := range vectors {
		public, err := hex.DecodeString(v.Key)
		must(t, err)
		signature, err := hex.DecodeString(v.Sig)
		must(t, err)
		list = append(list, publicVector{
			fmt.Sprint(v.Number), described(Key{KeyType: "OKP", Curve: "Ed25519", Algorithm: Ed25519, X: inBase64(t, v.Key)}), v.Key,
			hex.EncodeToString([]byte(v.Msg)), v.Sig, ed25519.Verify(public, []byte(v.Msg), signature),
		})
	}
	bothHold(t, list)
}
