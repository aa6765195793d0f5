package signed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

func key(t *testing.T, b byte) signed.Key {
	t.Helper()
	k, err := signed.NewKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type claims struct {
	Sequence int64 `json:"sequence"`
}

func TestSignedAndOpened(t *testing.T) {
	one, two := key(t, 1), key(t, 2)
	compact, err := one.Sign("a+jwt", claims{7})
	if err != nil {
		t.Fatal(err)
	}
	var got claims
	by, err := signed.Open("a+jwt", []signed.Public{two.Public(), one.Public()}, compact, &got)
	if err != nil || by != one.Public() || got.Sequence != 7 {
		t.Errorf("opened %+v by %v: %v", got, by, err)
	}
	parsed, err := signed.ParsePublic(one.Public().String())
	if err != nil || parsed != one.Public() {
		t.Errorf("a public key does not survive its text: %v", err)
	}
}

// TestATK13_AStatementIsOfOneType tries texts that are not the statement of that type
// under a known key.
func TestATK13_AStatementIsOfOneType(t *testing.T) {
	one, two := key(t, 1), key(t, 2)
	sign := func(k signed.Key, typ string, v any) string {
		t.Helper()
		compact, err := k.Sign(typ, v)
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	good := sign(one, "a+jwt", claims{7})
	parts := strings.Split(good, ".")
	other := strings.Split(sign(one, "a+jwt", claims{8}), ".")
	for name, compact := range map[string]string{
		"another type":       sign(one, "b+jwt", claims{7}),
		"another key":        sign(two, "a+jwt", claims{7}),
		"other claims":       parts[0] + "." + other[1] + "." + parts[2],
		"another signature":  parts[0] + "." + parts[1] + "." + other[2],
		"no signature":       parts[0] + "." + parts[1] + ".",
		"no parts":           "x",
		"two parts":          parts[0] + "." + parts[1],
		"four parts":         good + "." + parts[2],
		"padded":             good + "=",
		"empty":              "",
		"an unknown member":  sign(one, "a+jwt", map[string]int{"sequence": 7, "more": 1}),
		"a member twice":     sign(one, "a+jwt", json.RawMessage(`{"sequence":7,"sequence":8}`)),
		"no object":          sign(one, "a+jwt", "x"),
		"the header unsaid":  "e30." + parts[1] + "." + parts[2],
		"alg none in front":  "eyJhbGciOiJub25lIn0." + parts[1] + "." + parts[2],
		"spaces around":      " " + good,
		"a line end after":   good + "\n",
		"bits that are left": good[:len(good)-1] + "_",
	} {
		var got claims
		if _, err := signed.Open("a+jwt", []signed.Public{one.Public()}, compact, &got); !errors.Is(err, signed.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysDoNotShow(t *testing.T) {
	k := key(t, 'k')
	secret := strings.Repeat("k", 8)
	marshalled, err := json.Marshal(map[string]any{"key": k})
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %s %q", k, k, k, k), string(marshalled), log.String()} {
		if err != nil || strings.Contains(text, secret) || !strings.Contains(text, k.Public().ID()) {
			t.Errorf("%s %v", text, err)
		}
	}
	for _, seed := range [][]byte{nil, make([]byte, 31), make([]byte, 64)} {
		if _, err := signed.NewKey(seed); err == nil {
			t.Errorf("a seed of %d bytes", len(seed))
		}
	}
	for _, text := range []string{"", "x", k.Public().String() + "=", k.Public().String()[:42]} {
		var p signed.Public
		if p.UnmarshalText([]byte(text)) == nil {
			t.Errorf("public key %q", text)
		}
	}
}

func FuzzOpen(f *testing.F) {
	k, err := signed.NewKey(make([]byte, 32))
	if err != nil {
		f.Fatal(err)
	}
	compact, err := k.Sign("a+jwt", claims{7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(compact)
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		var got claims
		if _, err := signed.Open("a+jwt", []signed.Public{k.Public()}, s, &got); err == nil && s != compact {
			t.Errorf("opened %q", s)
		}
	})
}
