package token_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

var (
	dpopNow  = time.Unix(1_800_000_000, 0)
	dpopSeen = token.DPoPRequest{
		Method: "POST", URL: "https://a.example/agents/documents", AccessToken: "session-token",
		Now: dpopNow, Window: 30 * time.Second,
	}
)

func dpopKey(t testing.TB, a token.Algorithm) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(a, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// dpopForge signs any header and claims, as an attacker could.
func dpopForge(t testing.TB, k token.Signer, header, claims string) string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	signed := b64([]byte(header)) + "." + b64([]byte(claims))
	signature, err := k.Sign([]byte(signed))
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + b64(signature)
}

func TestDPoPRoundTrip(t *testing.T) {
	for _, algorithm := range []token.Algorithm{token.Ed25519, token.ES256} {
		for _, accessToken := range []string{"", "session-token"} {
			k := dpopKey(t, algorithm)
			made := token.DPoPRequest{Method: "GET", URL: "HTTPS://A.example:443/x%2Fy?q=1#f", AccessToken: accessToken, Now: dpopNow}
			proof, err := token.SignDPoP(k, made, "proof-1")
			if err != nil {
				t.Fatal(err)
			}
			seen := token.DPoPRequest{
				Method: "GET", URL: "https://a.example/x%2Fy", AccessToken: accessToken,
				Now: dpopNow.Add(30 * time.Second), Window: 30 * time.Second,
			}
			p, err := token.VerifyDPoP(proof, seen)
			if err != nil {
				t.Fatalf("%v, access token %q: %v", algorithm, accessToken, err)
			}
			if p.Key != k.Public() || p.ID != "proof-1" || !p.IssuedAt.Equal(dpopNow) {
				t.Errorf("proof = %+v; want the key, id and time it was made with", p)
			}
		}
	}
}

// The example of RFC 9449, section 7.1, whose key, proof and token are those
// of the document.
func TestDPoPOfTheStandard(t *testing.T) {
	proof := "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6Ik" +
		"VDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCR" +
		"nMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JE" +
		"QSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIj" +
		"oiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0Z" +
		"WRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNF" +
		"c05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71E" +
		"OptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
	p, err := token.VerifyDPoP(proof, token.DPoPRequest{
		Method: "GET", URL: "https://resource.example.org/protectedresource",
		AccessToken: "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU",
		Now:         time.Unix(1562262618, 0), Window: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Key.Thumbprint(); got != "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" {
		t.Errorf("thumbprint = %s; want that of section 6.1", got)
	}
}

// dpopAttacks change one thing of a good proof each.
var dpopAttacks = []struct {
	name           string
	header, claims []string // old, new pairs
	want           powerbox.Code
}{
	{"other method", nil, []string{`"htm":"POST"`, `"htm":"GET"`}, token.CodeProofRequest},
	{"method in lower case", nil, []string{`"htm":"POST"`, `"htm":"post"`}, token.CodeProofRequest},
	{"method missing", nil, []string{`"htm":"POST",`, ``}, token.CodeProofRequest},
	{"other path", nil, []string{`agents/documents"`, `agents/mail"`}, token.CodeProofRequest},
	{"path below", nil, []string{`agents/documents"`, `agents/documents/"`}, token.CodeProofRequest},
	{"path encoded", nil, []string{`agents/documents"`, `agents%2Fdocuments"`}, token.CodeProofRequest},
	{"other host", nil, []string{`a.example`, `b.example`}, token.CodeProofRequest},
	{"other port", nil, []string{`a.example`, `a.example:80`}, token.CodeProofRequest},
	{"other scheme", nil, []string{`https:`, `http:`}, token.CodeProofRequest},
	{"no scheme", nil, []string{`https:`, ``}, token.CodeProofRequest},
	{"user in the URL", nil, []string{`a.example`, `u@a.example`}, token.CodeProofRequest},
	{"not a URL", nil, []string{`https://a.example`, `https://%zz`}, token.CodeProofRequest},
	{"URL missing", nil, []string{`"htu":"https://a.example/agents/documents",`, ``}, token.CodeProofRequest},
	{"stale", nil, []string{`1800000000`, `1799999969`}, token.CodeProofTime},
	{"from the future", nil, []string{`1800000000`, `1800000031`}, token.CodeProofTime},
	{"time as text", nil, []string{`1800000000`, `"1800000000"`}, token.CodeMissingClaim},
	{"time with a fraction from the future", nil, []string{`1800000000`, `1800000030.5`}, token.CodeProofTime},
	{"time missing", nil, []string{`"iat":1800000000,`, ``}, token.CodeMissingClaim},
	{"id missing", nil, []string{`"jti":"1",`, ``}, token.CodeMissingClaim},
	{"id empty", nil, []string{`"jti":"1"`, `"jti":""`}, token.CodeMissingClaim},
	{"id a number", nil, []string{`"jti":"1"`, `"jti":1`}, token.CodeMissingClaim},
	{"id endless", nil, []string{`"jti":"1"`, `"jti":"` + strings.Repeat("x", 257) + `"`}, token.CodeMissingClaim},
	{"other token", nil, []string{`"ath":"`, `"ath":"x`}, token.CodeProofToken},
	{"token hash missing", nil, []string{`"ath"`, `"Ath"`}, token.CodeProofToken},
	{"claim twice", nil, []string{`"jti":"1"`, `"jti":"1","jti":"2"`}, token.CodeMalformed},
	{"alg none", []string{`"EdDSA"`, `"none"`}, nil, token.CodeAlgorithm},
	{"alg symmetric", []string{`"EdDSA"`, `"HS256"`}, nil, token.CodeAlgorithm},
	{"alg of another key", []string{`"EdDSA"`, `"ES256"`}, nil, token.CodeAlgorithm},
	{"alg missing", []string{`"alg":"EdDSA",`, ``}, nil, token.CodeAlgorithm},
	{"type missing", []string{`"typ":"dpop+jwt",`, ``}, nil, token.CodeType},
	{"type JWT", []string{`dpop+jwt`, `JWT`}, nil, token.CodeType},
	{"type of a token", []string{`dpop+jwt`, `aat+jwt`}, nil, token.CodeType},
	{"type of another proof", []string{`dpop+jwt`, `aat-pop+jwt`}, nil, token.CodeType},
	{"key missing", []string{`"jwk"`, `"kid"`}, nil, token.CodeMalformed},
	{"key by another name", []string{`"jwk"`, `"JWK"`}, nil, token.CodeMissingClaim},
	{"key private", []string{`"jwk":{`, `"jwk":{"d":"AA",`}, nil, token.CodePrivateKey},
	{"key symmetric", []string{`"jwk":{`, `"jwk":{"k":"AA",`}, nil, token.CodePrivateKey},
	{"key of no use", []string{`"jwk":{`, `"jwk":{"use":"enc",`}, nil, token.CodeAlgorithm},
	{"crit", []string{`{"alg"`, `{"crit":["x"],"alg"`}, nil, token.CodeMalformed},
	{"large", nil, []string{`"jti"`, `"x":"` + strings.Repeat("x", 8<<10) + `","jti"`}, token.CodeTooLarge},
}

func TestATK13_DPoPAttacks(t *testing.T) {
	k := dpopKey(t, token.Ed25519)
	hash := sha256.Sum256([]byte("session-token"))
	header := `{"alg":"EdDSA","typ":"dpop+jwt","jwk":` + k.Public().JWK().String() + `}`
	claims := `{"jti":"1","htm":"POST","htu":"https://a.example/agents/documents","iat":1800000000,"ath":"` +
		base64.RawURLEncoding.EncodeToString(hash[:]) + `"}`
	if _, err := token.VerifyDPoP(dpopForge(t, k, header, claims), dpopSeen); err != nil {
		t.Fatalf("the proof that the attacks change is refused: %v", err)
	}
	// RFC 7519 section 2 lets times have a fraction.
	if got, err := token.VerifyDPoP(dpopForge(t, k, header, strings.Replace(claims, "1800000000", "1800000000.5", 1)), dpopSeen); err != nil || got.IssuedAt.UnixMilli() != 1800000000500 {
		t.Errorf("AAP-H2 a proof with a fraction of a second: %v, %v", got.IssuedAt, err)
	}
	for _, attack := range dpopAttacks {
		t.Run(attack.name, func(t *testing.T) {
			h := strings.NewReplacer(attack.header...).Replace(header)
			c := strings.NewReplacer(attack.claims...).Replace(claims)
			if h == header && c == claims {
				t.Fatal("the attack changes nothing")
			}
			_, err := token.VerifyDPoP(dpopForge(t, k, h, c), dpopSeen)
			wantDPoPCode(t, err, attack.want)
		})
	}
	t.Run("signed by another key", func(t *testing.T) {
		_, err := token.VerifyDPoP(dpopForge(t, dpopKey(t, token.Ed25519), header, claims), dpopSeen)
		wantDPoPCode(t, err, token.CodeSignature)
	})
	t.Run("made for a token, used without", func(t *testing.T) {
		seen := dpopSeen
		seen.AccessToken = ""
		_, err := token.VerifyDPoP(dpopForge(t, k, header, claims), seen)
		wantDPoPCode(t, err, token.CodeProofToken)
	})
	t.Run("server without a URL", func(t *testing.T) {
		seen := dpopSeen
		seen.URL = ""
		_, err := token.VerifyDPoP(dpopForge(t, k, header, strings.Replace(claims, "https://a.example/agents/documents", "", 1)), seen)
		wantDPoPCode(t, err, token.CodeProofRequest)
	})
	t.Run("not a JWS", func(t *testing.T) {
		_, err := token.VerifyDPoP("proof", dpopSeen)
		wantDPoPCode(t, err, token.CodeMalformed)
	})
}

func wantDPoPCode(t *testing.T, err error, want powerbox.Code) {
	t.Helper()
	var refused *token.Error
	if !errors.As(err, &refused) || !errors.Is(err, powerbox.ErrDenied) {
		t.Fatalf("err = %v; want a denial", err)
	}
	if diff := cmp.Diff(want, refused.Code); diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

// dpopBrokenSigner is a key that cannot be reached.
type dpopBrokenSigner struct{ token.PrivateKey }

var errDPoPSigner = errors.New("no key today")

func (*dpopBrokenSigner) Sign([]byte) ([]byte, error) { return nil, errDPoPSigner }

func TestSignDPoPRefuses(t *testing.T) {
	if _, err := token.SignDPoP(dpopKey(t, token.ES256), token.DPoPRequest{URL: "/relative"}, "1"); err == nil {
		t.Error("a proof for a relative URL was made")
	}
	r := token.DPoPRequest{Method: "GET", URL: "http://a.example:80", Now: dpopNow}
	if _, err := token.SignDPoP(&dpopBrokenSigner{}, r, "1"); !errors.Is(err, errDPoPSigner) {
		t.Errorf("err = %v; want that of the signer", err)
	}
}

// FuzzDPoP: no input causes a panic, and an accepted proof is for the request
// and has a key.
func FuzzDPoP(f *testing.F) {
	for _, a := range []token.Algorithm{token.Ed25519, token.ES256} {
		k := dpopKey(f, a)
		proof, err := token.SignDPoP(k, dpopSeen, "1")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(proof)
	}
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, proof string) {
		p, err := token.VerifyDPoP(proof, dpopSeen)
		if err != nil && !errors.Is(err, powerbox.ErrDenied) {
			t.Fatalf("err = %v; want a denial", err)
		}
		if err == nil && (p.Key.IsZero() || p.ID == "") {
			t.Fatalf("accepted without key or id: %+v", p)
		}
	})
}
