package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/powerbox-project/powerbox/internal/steady"
)

func testSeal(t *testing.T) cipher.AEAD {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

// shares is a keeper of which only Once is used: a login that was begun must cost no
// row.
type shares struct {
	Keeper
	used map[string]bool
}

func (s *shares) Once(_ context.Context, kind, id string, _, _ time.Time) (bool, error) {
	first := !s.used[kind+id]
	s.used[kind+id] = true
	return first, nil
}

// TestATK67_BegunLoginsAreInTheBrowserAlone begins many logins, which cost the server
// nothing, and finishes one of them, once, at either of two nodes.
func TestATK67_BegunLoginsAreInTheBrowserAlone(t *testing.T) {
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	seal := testSeal(t)
	for name, nodes := range map[string]int{"alone": 1, "shared": 2} {
		config := Config{Now: func() time.Time { return now }, Random: rand.Reader, Seal: seal}
		keeper := &shares{used: map[string]bool{}}
		one := newSessions(config)
		other := one
		if nodes == 2 {
			config.Keeper = keeper
			one, other = newSessions(config), newSessions(config)
		}
		first, err := one.try(&attempt{next: "/approve", state: "state", nonce: "nonce", verifier: "verifier", ceremony: ceremony{data: webauthn.SessionData{Challenge: "challenge"}}})
		if err != nil {
			t.Fatal(err)
		}
		for range maxSessions + 1 {
			if _, err := one.try(&attempt{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(one.finished) != 0 || len(keeper.used) != 0 {
			t.Errorf("ATK-67 %s: a login that was begun is kept", name)
		}
		a := other.tried(first)
		if a == nil || a.next != "/approve" || a.state != "state" || a.nonce != "nonce" || a.verifier != "verifier" || a.ceremony.data.Challenge != "challenge" {
			t.Fatalf("ATK-67 %s: the login is %+v", name, a)
		}
		if err := other.finish(t.Context(), a); err != nil {
			t.Errorf("ATK-67 %s: %v", name, err)
		}
		if err := one.finish(t.Context(), one.tried(first)); err == nil {
			t.Errorf("ATK-67 %s: a login is finished twice", name)
		}
		changed := []byte(first)
		changed[len(changed)/2] ^= 1 // another letter of the alphabet of base64, or none of it
		for what, cookie := range map[string]string{"nothing": "", "one changed": string(changed), "one that is longer": first + "A", "one of others": strings.Repeat("A", 80)} {
			if one.tried(cookie) != nil {
				t.Errorf("ATK-67 %s: %s is a login", name, what)
			}
		}
		if newSessions(Config{Now: func() time.Time { return now }, Seal: testSeal(t)}).tried(first) != nil {
			t.Errorf("ATK-67 %s: a login under another key", name)
		}
		began := now
		if now = now.Add(loginTime); one.tried(first) != nil {
			t.Errorf("ATK-67 %s: a login can be finished after %s", name, loginTime)
		}
		now = began
	}
}

// TestATK67_FinishedLoginsAreForgotten keeps a finished login no longer than it could be
// finished again.
func TestATK67_FinishedLoginsAreForgotten(t *testing.T) {
	defer steady.Believe()()
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	s := newSessions(Config{Now: func() time.Time { return now }, Random: rand.Reader, Seal: testSeal(t)})
	for range 3 {
		cookie, err := s.try(&attempt{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.finish(t.Context(), s.tried(cookie)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(loginTime)
	}
	if len(s.finished) != 1 {
		t.Errorf("ATK-67: %d logins are kept; want the last", len(s.finished))
	}
	if _, err := s.try(&attempt{next: "/approve?" + strings.Repeat("x", maxBegun)}); err == nil {
		t.Error("ATK-67: a login that no browser keeps is begun")
	}
}

// TestATK145_AClockThatJumpsForgetsNoFinishedLogin moves the clock ahead and back.
func TestATK145_AClockThatJumpsForgetsNoFinishedLogin(t *testing.T) {
	now := time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)
	s := newSessions(Config{Now: func() time.Time { return now }, Random: rand.Reader, Seal: testSeal(t)})
	finish := func(cookie string) error { return s.finish(t.Context(), s.tried(cookie)) }
	begin := func() string {
		cookie, err := s.try(&attempt{})
		if err != nil {
			t.Fatal(err)
		}
		return cookie
	}
	first := begin()
	if err := finish(first); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * loginTime)
	if err := finish(begin()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-2 * loginTime)
	if err := finish(first); err == nil {
		t.Error("ATK-145: a login is finished again after the clock jumped")
	}
}
