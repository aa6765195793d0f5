//go:build publicvectors

package eddsa_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerbox-project/powerbox/eddsa"
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

func unhexPublic(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWycheproofEd25519(t *testing.T) {
	var file struct {
		TestGroups []struct {
			PublicKey struct{ Pk string }
			Tests     []struct {
				TcID                      int
				Comment, Msg, Sig, Result string
			}
		}
	}
	readPublic(t, "POWERBOX_WYCHEPROOF", "ed25519_test.json", &file)
	n := 0
	for _, g := range file.TestGroups {
		public := unhexPublic(t, g.PublicKey.Pk)
		key := eddsa.NewKey([32]byte(public))
		for _, v := range g.Tests {
			n++
			message, signature := unhexPublic(t, v.Msg), unhexPublic(t, v.Sig)
			for range 3 { // a kept key answers the same from its second use on
				if got := key.Verify(message, signature); got != (v.Result == "valid") {
					t.Errorf("%d %s: kept key says %v, want %s", v.TcID, v.Comment, got, v.Result)
				}
			}
			if got := eddsa.Verify(public, message, signature); got != (v.Result == "valid") {
				t.Errorf("%d %s: %v, want %s", v.TcID, v.Comment, got, v.Result)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d vectors", n)
	}
	t.Logf("vectors: %d", n)
}

// TestCCTVEd25519 are signatures on which implementations disagree. The rule is
// that of crypto/ed25519.
func TestCCTVEd25519(t *testing.T) {
	var vectors []struct {
		Number        int
		Key, Sig, Msg string
		Flags         []string
	}
	readPublic(t, "POWERBOX_CCTV_ED25519", "ed25519vectors.json", &vectors)
	accepted := 0
	for _, v := range vectors {
		public, signature := unhexPublic(t, v.Key), unhexPublic(t, v.Sig)
		want := ed25519.Verify(public, []byte(v.Msg), signature)
		key := eddsa.NewKey([32]byte(public))
		for range 3 {
			if got := key.Verify([]byte(v.Msg), signature); got != want {
				t.Errorf("%d %v: kept key says %v, want %v", v.Number, v.Flags, got, want)
			}
		}
		if got := eddsa.Verify(public, []byte(v.Msg), signature); got != want {
			t.Errorf("%d %v: %v, want %v", v.Number, v.Flags, got, want)
		}
		if want {
			accepted++
		}
	}
	if len(vectors) < 700 || accepted == 0 || accepted == len(vectors) {
		t.Errorf("%d of %d are accepted", accepted, len(vectors))
	}
	t.Logf("vectors: %d, of which %d are accepted", len(vectors), accepted)
}
