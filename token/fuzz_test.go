package token

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// seeds calls add with every vector.
func seeds(f *testing.F, add func(v vector)) {
	names, err := filepath.Glob(vectorFolder + "/*.json")
	if err != nil || len(names) == 0 {
		f.Fatal("no vectors:", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(data, &v); err != nil {
			f.Fatal(err)
		}
		add(v)
	}
}

// FuzzParseChain: whatever parses is linked, in bounds, and stays as it is; with
// no keys it is never verified.
func FuzzParseChain(f *testing.F) {
	seeds(f, func(v vector) {
		if tokens, err := ParseChainFile(v.Chain); err == nil && len(v.Chain) < 4<<10 {
			f.Add(JoinChain(tokens))
		}
	})
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseChain(SplitChain(text))
		if err != nil {
			if codeOf(err) == "other" {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		root := u.links[0]
		written, err := powerbox.DecodeValue(appendTools(nil, root.tools), powerbox.Limits{Bytes: 2 * MaxTokenBytes, Depth: maxJSONDepth})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseTools(written, root.draft); err != nil || len(again) != len(root.tools) {
			t.Errorf("the tools do not come back: %v", err)
		}
		links := u.Describe()
		for i, l := range links {
			if l.Depth != i || l.MaxDepth > MaxDepth || !l.Expires.After(l.IssuedAt) || len(l.Tools) > powerbox.MaxOperations {
				t.Errorf("token %d: %+v", i, l)
			}
		}
		if _, err := u.Verify(KeySet{}, quiet(links[0].IssuedAt)); err == nil {
			t.Error("verified without keys")
		}
	})
}

// FuzzParseProof: whatever parses is signed again as the same proof, if it can
// be.
func FuzzParseProof(f *testing.F) {
	seeds(f, func(v vector) {
		if parts := strings.Split(v.Proof, "."); len(parts) == 3 && len(v.Proof) < 4<<10 {
			payload, err := decodeBase64(parts[1])
			if err == nil {
				f.Add(string(payload))
			}
		}
	})
	key := keyOf(f, "fuzz", Ed25519)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			return
		}
		for _, draft := range []Draft{Draft01, Draft02} {
			signedAgain(t, key, draft, v)
		}
	})
}

// signedAgain signs what a payload says as a proof, and reads it again.
func signedAgain(t *testing.T, key *PrivateKey, draft Draft, payload powerbox.Value) {
	p, err := parseProof(payload, draft)
	if err != nil {
		return
	}
	compact, err := p.Sign(key, draft)
	if err != nil {
		return
	}
	j, err := parseJWS(compact, typeProof)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.header.mustBe(draft); err != nil {
		t.Error(err)
	}
	again, err := parseProof(j.payload, draft)
	if err != nil || again.TokenHash != p.TokenHash || again.Nonce != p.Nonce || again.ID != p.ID || !again.Arguments.Equal(p.Arguments) ||
		!again.IssuedAt.Equal(p.IssuedAt) || again.Audience != p.Audience {
		t.Errorf("draft %s: %+v became %+v: %v", draft, p, again, err)
	}
}

// FuzzJWK: whatever parses comes back as the same key, and no private key is
// taken for a public one.
func FuzzJWK(f *testing.F) {
	for _, s := range []string{rfc8037, rfc7515, string(keyOf(f, "a", Ed25519).JWK()), string(keyOf(f, "b", ES256).JWK()), `{"keys":[` + rfc8037 + `]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ParseKeySet([]byte(text)); codeOf(err) == "other" {
			t.Error(err)
		}
		if k, err := ParsePrivateKey([]byte(text)); err == nil {
			if _, err := ParsePublicKey([]byte(text)); err == nil {
				t.Error("a private key passes as a public one")
			}
			if again, err := ParsePrivateKey(k.JWK()); err != nil || again.Public() != k.Public() {
				t.Error("the private key does not come back:", err)
			}
		}
		k, err := ParsePublicKey([]byte(text))
		if err != nil {
			return
		}
		if again, err := ParsePublicKey(k.JWK().AppendJSON(nil)); err != nil || again != k {
			t.Errorf("%s does not come back: %v", text, err)
		}
	})
}

// FuzzCheck: no input makes it panic, an answer is always JSON, and a denial
// always has a reason.
func FuzzCheck(f *testing.F) {
	seeds(f, func(v vector) {
		if len(v.Chain) < 4<<10 && !strings.HasPrefix(v.Name, "table-") {
			f.Add(string(v.Anchors), string(v.Chain), v.Proof, v.Operation, v.Arguments, v.At, v.Audience, strings.Join(v.Revoked, ","))
		}
	})
	f.Fuzz(func(t *testing.T, anchors, chain, proof, operation, arguments string, at int64, audience, revoked string) {
		r := Check(CheckRequest{
			Anchors: []byte(anchors), Chain: []byte(chain), Proof: []byte(proof), Operation: operation,
			Arguments: []byte(arguments), At: time.Unix(at, 0), Issuer: "https://agent.example",
			Point: Point{Identity: []string{audience}}, Revoked: strings.Split(revoked, ","), Draft01: at%2 == 0,
		})
		if r.Allowed != (len(r.Reasons) == 0) {
			t.Errorf("allowed %t with %d reasons", r.Allowed, len(r.Reasons))
		}
		data, err := json.Marshal(r)
		if err != nil || !json.Valid(data) {
			t.Errorf("%v: %s", err, data)
		}
		if _, err := powerbox.ParseValue(data); err != nil {
			t.Errorf("the answer is not strict JSON: %v", err)
		}
	})
}
