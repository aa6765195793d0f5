package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/powerbox-project/powerbox"
)

// The keys of RFC 8037, appendix A, and RFC 7515, appendix A.3.
const (
	rfc8037 = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	rfc7515 = `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`
)

func TestThumbprintIsThatOfRFC8037(t *testing.T) {
	k, err := ParsePublicKey([]byte(rfc8037))
	if err != nil {
		t.Fatal(err)
	}
	const want = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
	if k.Thumbprint() != want || k.URI() != thumbprintURI+want || k.String() != k.URI() {
		t.Errorf("got %s, want %s", k.Thumbprint(), want)
	}
}

func TestSignatureOfRFC7515IsVerified(t *testing.T) {
	k, err := ParsePublicKey([]byte(rfc7515))
	if err != nil {
		t.Fatal(err)
	}
	const signed = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	signature, err := decodeBase64("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")
	if err != nil {
		t.Fatal(err)
	}
	if !k.Verify([]byte(signed), signature) {
		t.Error("the signature does not verify")
	}
	if k.Verify([]byte(signed+"x"), signature) || k.Verify([]byte(signed), signature[:63]) || (PublicKey{}).Verify([]byte(signed), signature) {
		t.Error("a wrong signature verifies")
	}
}

func TestPublicKeysRoundTrip(t *testing.T) {
	for _, text := range []string{rfc8037, rfc7515} {
		k, err := ParsePublicKey([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if DigestOf(k.JWK().AppendJSON(nil)) != k.Thumbprint() {
			t.Errorf("%s: the thumbprint is not of the JWK", text)
		}
		again, err := ParsePublicKey(k.JWK().AppendJSON(nil))
		if err != nil || again != k || k.IsZero() {
			t.Errorf("%s: %v", text, err)
		}
	}
	if !(PublicKey{}).JWK().Equal(powerbox.Value{}) || Algorithm(0).String() != "none" || !(PublicKey{}).IsZero() {
		t.Error("the zero key is something")
	}
}

func TestPublicKeyRefuses(t *testing.T) {
	with := func(jwk, member string) string { return strings.Replace(jwk, "{", "{"+member+",", 1) }
	for name, c := range map[string]struct {
		jwk  string
		code powerbox.Code
	}{
		"no JSON":             {`{`, CodeMalformed},
		"no object":           {`[]`, CodeMalformed},
		"no kty":              {`{}`, CodeAlgorithm},
		"RSA":                 {`{"kty":"RSA","n":"AQAB","e":"AQAB"}`, CodeAlgorithm},
		"P-384":               {`{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}`, CodeAlgorithm},
		"symmetric":           {`{"kty":"oct","k":"AA"}`, CodePrivateKey},
		"d":                   {with(rfc8037, `"d":"x"`), CodePrivateKey},
		"short x":             {`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`, CodeMalformed},
		"padded x":            {strings.Replace(rfc8037, `URo"`, `URo="`, 1), CodeMalformed},
		"no y":                {strings.Replace(rfc7515, `"y"`, `"Y"`, 1), CodeMalformed},
		"no x":                {strings.Replace(rfc7515, `"x"`, `"X"`, 1), CodeMalformed},
		"not on the curve":    {strings.Replace(rfc7515, `x_FEz`, `x_FEy`, 1), CodeMalformed},
		"alg of another type": {with(rfc8037, `"alg":"ES256"`), CodeAlgorithm},
		"alg unknown":         {with(rfc8037, `"alg":"HS256"`), CodeAlgorithm},
		"use enc":             {with(rfc8037, `"use":"enc"`), CodeAlgorithm},
		"key_ops encrypt":     {with(rfc8037, `"key_ops":["encrypt","sign"]`), CodeAlgorithm},
		"key_ops empty":       {with(rfc8037, `"key_ops":[]`), CodeAlgorithm},
		"key_ops no list":     {with(rfc8037, `"key_ops":"verify"`), CodeAlgorithm},
	} {
		if _, err := ParsePublicKey([]byte(c.jwk)); codeOf(err) != c.code || !errors.Is(err, powerbox.ErrDenied) {
			t.Errorf("%s: %v; want code %s", name, err, c.code)
		}
	}
	for _, member := range []string{`"alg":"EdDSA"`, `"alg":"Ed25519"`, `"use":"sig"`, `"key_ops":["sign","verify"]`, `"kid":"x"`, `"x5c":5`} {
		if _, err := ParsePublicKey([]byte(with(rfc8037, member))); err != nil {
			t.Errorf("%s: %v", member, err)
		}
	}
}

func TestKeySet(t *testing.T) {
	for text, code := range map[string]powerbox.Code{
		`{`: CodeMalformed, `[]`: CodeMalformed, `{}`: CodeMalformed, `{"keys":{}}`: CodeMalformed, `{"keys":[5]}`: CodeMalformed,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":5}]}`: CodeMalformed,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"x"}]}`: CodePrivateKey,
		`{"keys":[]}`:                             "",
		`{"keys":[{"kty":"RSA"}]}`:                "",
		`{"keys":[` + rfc8037 + `],"extra":true}`: "",
	} {
		if _, err := ParseKeySet([]byte(text)); codeOf(err) != code {
			t.Errorf("%s: %v; want code %q", text, err, code)
		}
	}
	a, b := keyOf(t, "a", Ed25519).Public(), keyOf(t, "b", ES256).Public()
	s, err := ParseKeySet(JWKS(a, b).AppendJSON(nil))
	if err != nil || s.Len() != 2 {
		t.Fatal(s.Len(), err)
	}
	if got := s.candidates(header{kid: b.Thumbprint(), hasKid: true}); len(got) != 1 || got[0].PublicKey != b {
		t.Errorf("kid selects %v", got)
	}
}

func TestPrivateKeysRoundTripAndSign(t *testing.T) {
	for _, algorithm := range []Algorithm{Ed25519, ES256} {
		k := keyOf(t, "round trip", algorithm)
		again, err := ParsePrivateKey(k.JWK())
		if err != nil || again.Public() != k.Public() || k.Public().Algorithm() != algorithm {
			t.Fatal(algorithm, err)
		}
		one, err := k.Sign([]byte("message"))
		if err != nil {
			t.Fatal(err)
		}
		two, err := again.Sign([]byte("message"))
		if err != nil || string(one) != string(two) {
			t.Error(algorithm, "signatures differ", err)
		}
		if !k.Public().Verify([]byte("message"), one) {
			t.Error(algorithm, "does not verify")
		}
	}
}

func TestPrivateKeyRefuses(t *testing.T) {
	a, b := keyOf(t, "a", Ed25519), keyOf(t, "b", Ed25519)
	ec := string(keyOf(t, "c", ES256).JWK())
	secret := func(k *PrivateKey) string { return member(value(t, string(k.JWK())), "d") }
	for name, c := range map[string]struct {
		jwk  string
		code powerbox.Code
	}{
		"no JSON":        {`{"d":`, CodeMalformed},
		"public":         {rfc8037, CodeMalformed},
		"other type":     {`{"kty":"RSA","d":"AA"}`, CodeAlgorithm},
		"foreign d":      {strings.Replace(string(a.JWK()), secret(a), secret(b), 1), CodeMalformed},
		"d out of range": {strings.Replace(ec, member(value(t, ec), "d"), strings.Repeat("_", 42)+"8", 1), CodeMalformed},
	} {
		_, err := ParsePrivateKey([]byte(c.jwk))
		if codeOf(err) != c.code {
			t.Errorf("%s: %v; want code %s", name, err, c.code)
		}
		if err != nil && (strings.Contains(err.Error(), secret(a)) || strings.Contains(err.Error(), secret(b))) {
			t.Errorf("%s: the error quotes a secret", name)
		}
	}
}

func TestGenerateKeyNeedsRandomness(t *testing.T) {
	for name, c := range map[string]struct {
		algorithm Algorithm
		random    io.Reader
	}{
		"broken source":     {Ed25519, iotest.ErrReader(io.ErrUnexpectedEOF)},
		"stuck source":      {ES256, strings.NewReader(strings.Repeat("\xff", 1000))},
		"unknown algorithm": {0, strings.NewReader(strings.Repeat("x", 1000))},
	} {
		if k, err := GenerateKey(c.algorithm, c.random); err == nil {
			t.Errorf("%s: got %v", name, k)
		}
	}
}

func TestPrivateKeyShowsItselfNowhere(t *testing.T) {
	for _, algorithm := range []Algorithm{Ed25519, ES256} {
		k := keyOf(t, "hidden", algorithm)
		data, err := json.Marshal(map[string]any{"key": k})
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("key", "key", k)
		shown := []string{string(data), log.String(), k.String()}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
			shown = append(shown, fmt.Sprintf(verb, k), fmt.Sprintf(verb, []*PrivateKey{k}))
		}
		for _, s := range shown {
			if s != k.String() && !strings.Contains(s, k.Public().Thumbprint()) {
				t.Errorf("prints %q", s)
			}
			if strings.Contains(s, "hidden") || strings.Contains(s, "68696464656e") || strings.Contains(s, member(value(t, string(k.JWK())), "d")) {
				t.Errorf("shows its secret: %q", s)
			}
		}
	}
}
