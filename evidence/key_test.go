package evidence

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"filippo.io/mldsa"
)

func TestKeyIDIsTheThumbprintOfRFC8037(t *testing.T) {
	// RFC 8037, appendix A.3.
	x, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	must(t, err)
	key, err := NewKey(ed25519.PublicKey(x), "issuer")
	must(t, err)
	if want := "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; key.ID != want {
		t.Errorf("kid %s, want %s", key.ID, want)
	}
}

func TestEXT23_ES256IsDeterministic(t *testing.T) {
	signer, err := NewES256Signer(p256Key(t, 1))
	must(t, err)
	first, err := signer.Sign([]byte("hash"))
	must(t, err)
	second, err := signer.Sign([]byte("hash"))
	must(t, err)
	if len(first) != 64 || string(first) != string(second) {
		t.Errorf("signatures %x and %x", first, second)
	}
}

func TestEXT33_NoWayOfPrintingASignerShowsItsKey(t *testing.T) {
	edPrivate, ecPrivate := ed25519Key(7), p256Key(t, 7)
	ed, err := NewEd25519Signer(edPrivate)
	must(t, err)
	ec, err := NewES256Signer(ecPrivate)
	must(t, err)
	log, _, err := NewLogSigner("log", edPrivate)
	must(t, err)
	const secret = "7 7 7 7 7 7 7 7"
	lattice, err := NewMLDSA87Signer(latticeKey(t, 7))
	must(t, err)
	for _, value := range []any{ed, ec, lattice, log, &ed, &ec, &lattice, &log} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString(seed(7)[:8])) || strings.Contains(text, "0x7, 0x7, 0x7") {
				t.Errorf("%s of %T shows the key: %s", verb, value, text)
			}
		}
	}
}

func TestKeysOfAnotherKindAreRefused(t *testing.T) {
	p384, err := ecdsa.ParseRawPrivateKey(elliptic.P384(), append([]byte{1}, make([]byte, 47)...))
	must(t, err)
	_, err = NewEd25519Signer(ed25519.PrivateKey(make([]byte, 3)))
	wantError(t, err, "3 bytes")
	_, err = NewES256Signer(&ecdsa.PrivateKey{})
	wantError(t, err, "not on P-256")
	_, err = NewEd25519Signer(nil)
	wantError(t, err, "no Ed25519 private key")
	_, err = NewEd25519Signer(p256Key(t, 1))
	wantError(t, err, "Ed25519 is needed")
	_, err = NewES256Signer(ed25519Key(1))
	wantError(t, err, "a key for Ed25519; ES256 is needed")
	_, err = NewES256Signer(nil)
	wantError(t, err, "no ES256")
	_, err = NewES256Signer(p384)
	wantError(t, err, "not on P-256")
	_, err = NewKey(&rsa.PublicKey{}, "issuer")
	wantError(t, err, "rsa.PublicKey")
	_, err = NewKey(&ecdsa.PublicKey{}, "issuer")
	wantError(t, err, "not on P-256")

	_, err = NewMLDSA87Signer(nil)
	wantError(t, err, "no ML-DSA-87")
	small, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), seed(1))
	must(t, err)
	_, err = NewMLDSA87Signer(small)
	wantError(t, err, "ML-DSA-44 does not sign evidence")

	_, err = joinES256([]byte("no ASN.1"), nil)
	wantError(t, err, "ES256 signature")
	_, err = joinES256(nil, errors.New("module is gone"))
	wantError(t, err, "module is gone")
}

func TestAKeyMustSayWhatItIs(t *testing.T) {
	ed, err := NewKey(ed25519Key(1).Public(), "issuer")
	must(t, err)
	ec, err := NewKey(p256Key(t, 1).Public(), "issuer")
	must(t, err)
	lattice, err := NewKey(latticeKey(t, 1).PublicKey(), "issuer")
	must(t, err)
	zero := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for name, test := range map[string]struct {
		key   Key
		spoil func(*Key)
		want  string
	}{
		"x is padded":       {ed, func(k *Key) { k.X += "=" }, "base64url"},
		"y is folded":       {ec, func(k *Key) { k.Y = k.Y[:4] + "\n" + k.Y[4:] }, "base64url"},
		"another name":      {ed, func(k *Key) { k.ID = "key-1" }, "thumbprint"},
		"x is short":        {ed, func(k *Key) { k.X = "AAAA"; k.ID = k.thumbprint() }, "is needed"},
		"another algorithm": {ed, func(k *Key) { k.Algorithm = ES256 }, "is needed"},
		"another curve":     {ed, func(k *Key) { k.Curve = "Ed448"; k.ID = k.thumbprint() }, "is needed"},
		"y on Ed25519":      {ed, func(k *Key) { k.Y = zero }, "is needed"},
		"P-256 for Ed25519": {ec, func(k *Key) { k.Algorithm = Ed25519 }, "is needed"},
		"pub on Ed25519":    {ed, func(k *Key) { k.Pub = zero }, "is needed"},
		"pub on P-256":      {ec, func(k *Key) { k.Pub = zero }, "is needed"},
		"pub is padded":     {lattice, func(k *Key) { k.Pub += "=" }, "base64url"},
		"pub is short":      {lattice, func(k *Key) { k.Pub = zero; k.ID = k.thumbprint() }, "is needed"},
		"x on ML-DSA":       {lattice, func(k *Key) { k.X = zero }, "is needed"},
		"ML-DSA-65":         {lattice, func(k *Key) { k.Algorithm = "ML-DSA-65"; k.ID = k.thumbprint() }, "is needed"},
		"not on the curve":  {ec, func(k *Key) { k.Y = zero; k.ID = k.thumbprint() }, "key"},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, test.key.verify([]byte("x"), sign(t, test.key, "x")))
			test.spoil(&test.key)
			_, err := test.key.public()
			wantError(t, err, test.want)
			wantError(t, test.key.verify([]byte("x"), nil), test.want)
		})
	}
	wantError(t, ec.verify([]byte("x"), sign(t, ec, "x")[:63]), "does not verify")
}

// sign signs with the private half of one of the test keys.
func sign(t *testing.T, key Key, message string) []byte {
	t.Helper()
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	switch key.KeyType {
	case "EC":
		signer, err = NewES256Signer(p256Key(t, 1))
	case "AKP":
		signer, err = NewMLDSA87Signer(latticeKey(t, 1))
	}
	must(t, err)
	signature, err := signer.Sign([]byte(message))
	must(t, err)
	return signature
}

// TestUsedKeysAreBounded also sees that a key whose signature does not hold is
// not kept.
func TestUsedKeysAreBounded(t *testing.T) {
	message := []byte("hash")
	for i := range 2*maxUsedKeys + 1 {
		private := ed25519.NewKeyFromSeed(append(make([]byte, 31), byte(i)))
		public, _ := private.Public().(ed25519.PublicKey)
		key, err := NewKey(public, "recorder")
		must(t, err)
		if key.verify([]byte("another"), ed25519.Sign(private, message)) == nil {
			t.Fatal("a signature over something else holds")
		}
		if _, ok := usedKeys.get(key); ok {
			t.Fatal("a key whose signature did not hold is kept")
		}
		for range 3 {
			must(t, key.verify(message, ed25519.Sign(private, message)))
		}
		if _, ok := usedKeys.get(key); !ok || len(usedKeys.checks) > maxUsedKeys {
			t.Fatalf("kept: %t, of %d keys; want at most %d", ok, len(usedKeys.checks), maxUsedKeys)
		}
		if key.verify([]byte("another"), ed25519.Sign(private, message)) == nil {
			t.Fatal("under a key that is kept, a signature over something else holds")
		}
		key.ID = "another"
		if key.verify(message, ed25519.Sign(private, message)) == nil {
			t.Fatal("a changed description of a key that is kept passes")
		}
	}
}
