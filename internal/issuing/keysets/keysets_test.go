package keysets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// published is a set that can be fetched, and counts how often it is.
type published struct {
	body  string
	err   error
	asked int
}

func (p *published) Get(context.Context, string) ([]byte, error) {
	p.asked++
	return []byte(p.body), p.err
}

func key(t *testing.T, kid string) (token.PublicKey, string) {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := k.Public().JWK().String()
	return k.Public(), strings.Replace(jwk, "{", fmt.Sprintf(`{"kid":%q,`, kid), 1)
}

func TestAAPN2_SetsAreKept(t *testing.T) {
	one, a := key(t, "a")
	two, b := key(t, "b")
	now := time.Unix(1_800_000_000, 0)
	p := &published{body: `{"keys":[` + a + `]}`}
	s := New(p, func() time.Time { return now })
	want := func(what, id string, key token.PublicKey, asked int) {
		t.Helper()
		got, err := s.Key(t.Context(), "https://keys.example", id)
		if key.IsZero() != (err != nil) || got.Thumbprint() != key.Thumbprint() && err == nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
		if p.asked != asked {
			t.Errorf("%s: fetched %d times; want %d", what, p.asked, asked)
		}
	}
	want("the first time", "a", one, 1)
	want("kept", "a", one, 1)
	want("by its thumbprint", one.Thumbprint(), one, 1)
	want("a miss too soon", "b", token.PublicKey{}, 1)
	p.body = `{"keys":[` + a + `,` + b + `]}`
	now = now.Add(minRefresh)
	want("a miss after a while", "b", two, 2)
	now = now.Add(fresh)
	want("no longer fresh", "a", one, 3)
	p.err = errors.New("unreachable")
	now = now.Add(fresh)
	want("an outage", "a", one, 4)
	now = now.Add(stale)
	want("an outage of a day", "a", token.PublicKey{}, 5)
}

func TestAAPN2_WhatIsNoSet(t *testing.T) {
	_, a := key(t, "a")
	_, b := key(t, "b")
	many := a
	for i := range maxKeys {
		_, one := key(t, fmt.Sprint("k", i))
		many += "," + one
	}
	for name, body := range map[string]string{
		"no JSON": "x", "no object": "[]", "no keys": `{}`, "none": `{"keys":[]}`, "too many": `{"keys":[` + many + `]}`, "twice": `{"keys":[` + a + `,` + a + `]}`,
		"symmetric": `{"keys":[{"kty":"oct","k":"AAAA","kid":"a"}]}`, "no kid": `{"keys":[` + a + "," + strings.Replace(b, `"kid":"b",`, "", 1) + `]}`,
		"another curve":     `{"keys":[{"kty":"OKP","crv":"X25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","kid":"a"}]}`,
		"duplicate members": `{"keys":[` + a + `],"keys":[` + a + `]}`,
		"too large":         `{"keys":[` + a + `]}` + strings.Repeat(" ", 1<<20),
	} {
		s := New(&published{body: body}, func() time.Time { return time.Unix(1_800_000_000, 0) })
		if _, err := s.Key(t.Context(), "https://keys.example", "a"); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestAAPN2_MemoryIsBounded(t *testing.T) {
	_, a := key(t, "a")
	now := time.Unix(1_800_000_000, 0)
	p := &published{body: `{"keys":[` + a + `]}`}
	s := New(p, func() time.Time { now = now.Add(time.Millisecond); return now })
	for i := range maxSets + 10 {
		if _, err := s.Key(t.Context(), fmt.Sprint("https://keys.example/", i), "a"); err != nil {
			t.Fatal(err)
		}
	}
	asked := p.asked
	for i, fetches := range map[int]int{maxSets + 9: 0, 0: 1} { // the newest is kept, the oldest is not
		if _, err := s.Key(t.Context(), fmt.Sprint("https://keys.example/", i), "a"); err != nil || p.asked != asked+fetches {
			t.Errorf("set %d: %v after %d fetches; want %d", i, err, p.asked-asked, fetches)
		}
		asked = p.asked
	}
}
