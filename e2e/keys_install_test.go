package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysInstall has a second node get its keys as a pod does, from a mounted secret:
// links in a folder that anybody may write, of any mode. It is the same server then, and
// a key that is another one stays.
func TestKeysInstall(t *testing.T) {
	asGiven(t)
	w := start(t, options{database: databases.Database(t)})
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed(t, alice.searches(held))
	own := filepath.Join(w.dir, "powerbox-data", "keys")
	secret := filepath.Join(t.TempDir(), "run")
	hidden := filepath.Join(secret, "..data")
	w.stop()
	if err := os.MkdirAll(secret, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(own, hidden); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(hidden)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(hidden, e.Name()), 0o444); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", e.Name()), filepath.Join(secret, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := w.verb("serve", "--dev"); err == nil || strings.Contains(out, "serving") {
		t.Errorf("without keys: %v %s", err, out)
	}
	if err := os.RemoveAll(own); err != nil { // what that start made
		t.Fatal(err)
	}
	for range 2 { // the second time all is there
		if out, err := w.verb("keys", "install", "--from", secret); err != nil || !strings.Contains(out, "keys are in place") {
			t.Fatalf("%v %s", err, out)
		}
	}
	placed, err := os.ReadDir(own)
	if err != nil || len(placed) != len(entries) {
		t.Fatalf("%d of %d keys, %v", len(placed), len(entries), err)
	}
	for _, e := range placed {
		info, err := e.Info()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	w.boot()
	allowed(t, alice.searches(held))
	w.stop()
	name := placed[0].Name()
	if err := os.WriteFile(filepath.Join(own, name), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := w.verb("keys", "install", "--from", secret); err == nil || !strings.Contains(out, name+" is another key") {
		t.Errorf("over another key: %v %s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(own, name)); err != nil || string(data) != "another" {
		t.Errorf("the other key is gone: %v", err)
	}
	if out, err := w.verb("keys", "install", "--from", t.TempDir()); err == nil || !strings.Contains(out, "has no keys") {
		t.Errorf("from an empty folder: %v %s", err, out)
	}
}
