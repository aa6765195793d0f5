package agentauth_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

func compact(head, claims string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(head)) + "." + e([]byte(claims)) + "." + e(make([]byte, 64))
}

const (
	goodHead   = `{"alg":"EdDSA","typ":"host+jwt"}`
	goodClaims = `{"iss":"h","aud":"a","iat":1,"exp":2,"jti":"j"}`
)

// TestAAPH2_FormsOfTokens: a token has one form.
func TestAAPH2_FormsOfTokens(t *testing.T) {
	good := compact(goodHead, goodClaims)
	if _, err := agentauth.ParseToken(good, agentauth.TypeHost); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"padded":             good + "=",
		"in four parts":      good + ".",
		"of another type":    compact(`{"alg":"EdDSA","typ":"HOST+JWT"}`, goodClaims),
		"with typ twice":     compact(`{"alg":"EdDSA","typ":"host+jwt","typ":"host+jwt"}`, goodClaims),
		"with typ as list":   compact(`{"alg":"EdDSA","typ":["host+jwt"]}`, goodClaims),
		"under none":         compact(`{"alg":"none","typ":"host+jwt"}`, goodClaims),
		"under RS256":        compact(`{"alg":"RS256","typ":"host+jwt"}`, goodClaims),
		"with jwk":           compact(`{"alg":"EdDSA","typ":"host+jwt","jwk":{}}`, goodClaims),
		"with jku":           compact(`{"alg":"EdDSA","typ":"host+jwt","jku":"x"}`, goodClaims),
		"with x5u":           compact(`{"alg":"EdDSA","typ":"host+jwt","x5u":"x"}`, goodClaims),
		"with crit":          compact(`{"alg":"EdDSA","typ":"host+jwt","crit":["x"]}`, goodClaims),
		"with b64":           compact(`{"alg":"EdDSA","typ":"host+jwt","b64":false}`, goodClaims),
		"with jti twice":     compact(goodHead, `{"jti":"a","iss":"h","aud":"a","iat":1,"exp":2,"jti":"j"}`),
		"with two of aud":    compact(goodHead, `{"iss":"h","aud":["a","b"],"iat":1,"exp":2,"jti":"j"}`),
		"with none of aud":   compact(goodHead, `{"iss":"h","aud":[],"iat":1,"exp":2,"jti":"j"}`),
		"with aud as number": compact(goodHead, `{"iss":"h","aud":[1],"iat":1,"exp":2,"jti":"j"}`),
		"with sub as number": compact(goodHead, `{"iss":"h","sub":1,"aud":"a","iat":1,"exp":2,"jti":"j"}`),
		"with kid as list":   compact(goodHead, `{"iss":"h","agent_kid":["k"],"aud":"a","iat":1,"exp":2,"jti":"j"}`),
		"without jti":        compact(goodHead, `{"iss":"h","aud":"a","iat":1,"exp":2}`),
		"with iat as text":   compact(goodHead, `{"iss":"h","aud":"a","iat":"1","exp":2,"jti":"j"}`),
		"before 1970 a bit":  compact(goodHead, `{"iss":"h","aud":"a","iat":-0.5,"exp":2,"jti":"j"}`),
		"before 1970":        compact(goodHead, `{"iss":"h","aud":"a","iat":-1,"exp":2,"jti":"j"}`),
		"after 9999":         compact(goodHead, `{"iss":"h","aud":"a","iat":1,"exp":1e300,"jti":"j"}`),
		"with nbf as text":   compact(goodHead, `{"iss":"h","aud":"a","iat":1,"exp":2,"nbf":"1","jti":"j"}`),
		"with NBF":           compact(goodHead, `{"iss":"h","aud":"a","iat":1,"exp":2,"NBF":1,"jti":"j"}`),
		"of an array":        compact(goodHead, `[]`),
		"too large":          compact(goodHead, `{"iss":"`+strings.Repeat("h", agentauth.MaxTokenBytes)+`","aud":"a","iat":1,"exp":2,"jti":"j"}`),
	} {
		if _, err := agentauth.ParseToken(bad, agentauth.TypeHost); err == nil {
			t.Errorf("AAP-H2, ATK-21: a token %s is read", name)
		}
	}
}

// TestAAPD6_Keys: keys are Ed25519, and public.
func TestAAPD6_Keys(t *testing.T) {
	x := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for name, jwk := range map[string]string{
		"EC":  `{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}`,
		"oct": `{"kty":"oct","k":"AAAA"}`, "private": `{"kty":"OKP","crv":"Ed25519","x":"` + x + `","d":"` + x + `"}`, "nothing": `{}`, "X25519": `{"kty":"OKP","crv":"X25519","x":"` + x + `"}`,
	} {
		if _, err := agentauth.ParseKey(value(t, jwk)); err == nil {
			t.Errorf("AAP-D6, AAP-Z1, ATK-11: a key of %s is taken", name)
		}
	}
}

// TestAAPH2_FormsOfRFC7519: libraries write an audience as an array of one, and times with
// a fraction.
func TestAAPH2_FormsOfRFC7519(t *testing.T) {
	got, err := agentauth.ParseToken(compact(goodHead, `{"iss":"h","aud":["a"],"iat":1.5,"exp":2.0,"jti":"j"}`), agentauth.TypeHost)
	if err != nil {
		t.Fatal(err)
	}
	late, err := agentauth.ParseToken(compact(goodHead, `{"iss":"h","aud":["a"],"iat":1.5,"nbf":40.25,"exp":50.5,"jti":"j"}`), agentauth.TypeHost)
	if err != nil || late.NotBefore.UnixMilli() != 40250 {
		t.Fatalf("AAP-H2: nbf is %v, %v", late.NotBefore, err)
	}
	if err := late.CheckTimes(time.Unix(2, 0), time.Unix(0, 0)); err == nil {
		t.Error("AAP-H2, AAP-H6: a token is taken 38 seconds before its nbf")
	}
	if err := late.CheckTimes(time.Unix(20, 0), time.Unix(0, 0)); err != nil {
		t.Errorf("AAP-H6: a token within the skew of its nbf: %v", err)
	}
	if got.Audience != "a" || got.IssuedAt.UnixMilli() != 1500 || got.Expires.UnixMilli() != 2000 {
		t.Errorf("AAP-H2: for %q from %v to %v", got.Audience, got.IssuedAt, got.Expires)
	}
}
