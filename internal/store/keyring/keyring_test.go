package keyring

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

func open(t *testing.T) (*Ring, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	r, err := Open(dir, rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, dir
}

func TestKeysStayTheSame(t *testing.T) {
	r, _ := open(t)
	first, err := r.Agent("documents")
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Agent("documents")
	if err != nil || first.Public() != again.Public() {
		t.Errorf("the key changed: %v", err)
	}
	other, err := r.Agent("mail")
	if err != nil || other.Public() == first.Public() {
		t.Errorf("two agents have one key: %v", err)
	}
	a, errA := r.Secret("handles")
	b, errB := r.Secret("handles")
	if errA != nil || errB != nil || string(a) != string(b) || len(a) != 32 {
		t.Errorf("a secret changed: %v, %v", errA, errB)
	}
}

func TestEXT33_KeyFilesAreTheOwnersAlone(t *testing.T) {
	r, dir := open(t)
	if _, err := r.Agent("documents"); err != nil {
		t.Fatal(err)
	}
	if used, err := r.InUse(); used || err != nil {
		t.Errorf("a new ring is in use: %v", err)
	}
	if _, _, err := r.Evidence(evidence.Ed25519, "serve"); err != nil {
		t.Fatal(err)
	}
	if used, err := r.InUse(); !used || err != nil {
		t.Errorf("a ring with an evidence key is not in use: %v", err)
	}
	if _, _, err := r.Checkpoint("example.org/log"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d files: %v", len(entries), err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v: %v", e.Name(), info.Mode(), err)
		}
	}
	path := filepath.Join(dir, "agent-documents.jwk")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Agent("documents"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read was used: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, rand.Reader, nil); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others can write to was opened: %v", err)
	}
}

func TestDamageIsSaidWithoutTheKey(t *testing.T) {
	r, dir := open(t)
	for name, use := range map[string]func() error{
		"agent-documents.jwk": func() error { _, err := r.Agent("documents"); return err },
		"handles.secret":      func() error { _, err := r.Secret("handles"); return err },
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"d":"very-secret-bytes"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := use(); err == nil || strings.Contains(err.Error(), "very-secret") || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"../escape", "UPPER", ""} {
		if _, err := r.Secret(name); name != "" && err == nil {
			t.Errorf("name %q was used", name)
		}
	}
}

func TestListNamesAndNeverShows(t *testing.T) {
	r, dir := open(t)
	if _, err := r.Agent("documents"); err != nil {
		t.Fatal(err)
	}
	names, err := r.List()
	if err != nil || fmt.Sprint(names) != "[agent-documents.jwk]" {
		t.Errorf("got %v: %v", names, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.List(); err == nil {
		t.Error("a missing directory was listed")
	}
}

// TestEXT29_EveryAlgorithmHasAKeyOfItsOwn sees that a change of the algorithm takes
// no key for two, and that each is the same after a restart.
func TestEXT29_EveryAlgorithmHasAKeyOfItsOwn(t *testing.T) {
	first, dir := open(t)
	second, err := Open(dir, rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, algorithm := range []string{evidence.Ed25519, evidence.ES256, evidence.MLDSA87} {
		signer, key, err := first.Evidence(algorithm, "serve")
		if err != nil {
			t.Fatal(err)
		}
		if signer.Algorithm() != algorithm || signer.KeyID() != key.ID || key.Recorder != "serve" || key.Algorithm != algorithm {
			t.Errorf("%s: %+v", algorithm, key)
		}
		if _, again, err := second.Evidence(algorithm, "serve"); err != nil || again != key {
			t.Errorf("%s has another key after a restart, %v", algorithm, err)
		}
		ids[key.ID] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d keys for three algorithms", len(ids))
	}
	if _, _, err := first.Evidence("none", "serve"); err == nil {
		t.Error("records without an algorithm have a key")
	}
	if EvidenceName(evidence.MLDSA87) != "evidence-ml-dsa-87" || EvidenceName("none") != "" {
		t.Error("keys have other names than their files")
	}
	for file, want := range map[string]string{"evidence.secret": evidence.Ed25519, "evidence-ml-dsa-87.secret": evidence.MLDSA87, "feed.secret": ""} {
		if got, _ := EvidenceFile(file); got != want {
			t.Errorf("%s is for %q, want %q", file, got, want)
		}
	}
}
