package keyring

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestATK74_KnownKeysAreNotMadeAgain has a ring hold back new keys until it knows
// the recorded ones.
func TestATK74_KnownKeysAreNotMadeAgain(t *testing.T) {
	r, dir := open(t)
	r.Hold()
	held, err := r.Secret("handles")
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Secret("handles")
	if err != nil || string(again) != string(held) || !r.Fresh("handles.secret") {
		t.Errorf("a key that is held is made twice: %v", err)
	}
	if names, err := r.List(); err != nil || len(names) != 0 {
		t.Errorf("held keys are on the disk: %v %v", names, err)
	}
	if err := r.Expect(map[string]string{"handles.secret": "x"}); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	if err := r.Expect(nil); err != nil {
		t.Fatal(err)
	}
	id := r.Used()["handles.secret"]
	known := map[string]string{"handles.secret": id, "feed.secret": ""}
	later, err := Open(dir, rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	later.Advice = func(name string) string { return "replace " + name }
	if err := later.Expect(known); err != nil {
		t.Fatal(err)
	}
	if got, err := later.Secret("handles"); err != nil || string(got) != string(held) {
		t.Errorf("%v", err)
	}
	if _, err := later.Feed(); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "replace feed.secret") {
		t.Errorf("%v", err)
	}
	if _, err := later.Secret("other"); err != nil {
		t.Errorf("a key that nobody knows: %v", err)
	}
	known["handles.secret"] = "another id"
	if _, err := later.Secret("handles"); !errors.Is(err, ErrOther) {
		t.Errorf("%v", err)
	}
}

// TestATK74_ReplacedKeyIsKeptAside replaces a key that is there.
func TestATK74_ReplacedKeyIsKeptAside(t *testing.T) {
	r, dir := open(t)
	before, err := r.Secret("handles")
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(dir, "handles.secret"))
	if err != nil {
		t.Fatal(err)
	}
	r.Replace("handles.secret", time.Unix(5, 0))
	after, err := r.Secret("handles")
	if err != nil || string(after) == string(before) {
		t.Errorf("it is the same: %v", err)
	}
	if again, err := r.Secret("handles"); err != nil || string(again) != string(after) {
		t.Errorf("it was replaced twice: %v", err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "handles.secret.replaced-5")); err != nil || string(kept) != string(old) {
		t.Errorf("the old key is not kept: %v", err)
	}
}

// TestATK74_RotationIsFinished ends a process between the record of a rotation and the
// file, and before the record.
func TestATK74_RotationIsFinished(t *testing.T) {
	c := clock(t)
	first := c.Current().Key.Public().Thumbprint()
	ended := errors.New("the process ends")
	for _, onRecord := range []bool{false, true} {
		var next string
		_, err := c.Turn(c.now, c.now.Add(time.Hour), func(k, _ AgentKey) error {
			next = k.Key.Public().Thumbprint()
			return ended
		})
		if !errors.Is(err, ended) {
			t.Fatal(err)
		}
		want, accepts := first, 1
		if onRecord {
			want, accepts = next, 2
		}
		if err := c.ring.Expect(map[string]string{"agent-documents.jwk": want}); err != nil && !errors.Is(err, ErrOther) {
			t.Fatal(err)
		}
		c.again()
		if got := c.Current().Key.Public().Thumbprint(); got != want || c.accepts() != accepts {
			t.Errorf("on record %v: signs with %s, want %s; %d are accepted", onRecord, got, want, c.accepts())
		}
		if left, err := c.ring.waiting("documents"); err != nil || len(left) != 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}

// TestATK74_SealedKeysKeepTheirIdentity takes the identity away that keys are
// encrypted to.
func TestATK74_SealedKeysKeepTheirIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	passphrase := []byte("correct horse battery")
	r, err := openCheaply(dir, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Secret("handles"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, identityFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for how, spoil := range map[string]func() error{
		"is gone":            func() error { return os.Remove(path) },
		"is empty":           func() error { return os.WriteFile(path, nil, 0o600) },
		"be read by others":  func() error { return os.Chmod(path, 0o644) },
		"is not opened by t": func() error { return os.WriteFile(path, whole[:len(whole)/2], 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := openCheaply(dir, passphrase); err == nil || !strings.Contains(err.Error(), how) {
			t.Errorf("want %q, got %v", how, err)
		}
		if err := errors.Join(os.WriteFile(path, whole, 0o600), os.Chmod(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openCheaply(dir, passphrase); err != nil {
		t.Error(err)
	}
}
