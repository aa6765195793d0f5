package keyring

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age/armor"
)

// EXT-33: with a passphrase no key stands in the clear, regardless of who has the disk.
func TestEXT33_KeysUnderAPassphrase(t *testing.T) {
	dir, passphrase := t.TempDir(), []byte("correct horse battery")
	plain, err := Open(dir, rand.Reader, nil)
	must(t, err)
	before, err := plain.Agent("documents")
	must(t, err)
	operator, err := plain.Secret("operator")
	must(t, err)
	made := time.Unix(1_700_000_000, 0)
	must(t, os.Chtimes(filepath.Join(dir, "agent-documents.jwk"), made, made))

	if _, err := Open(dir, rand.Reader, []byte("short")); err == nil || !strings.Contains(err.Error(), "at least") {
		t.Errorf("a short passphrase: %v", err)
	}
	sealed, err := openCheaply(dir, passphrase)
	must(t, err)
	after, err := sealed.Agent("documents")
	must(t, err)
	if after.Public().Thumbprint() != before.Public().Thumbprint() {
		t.Error("the key is another one")
	}
	handles, err := sealed.Secret("handles")
	must(t, err)
	again, err := sealed.Secret("operator")
	must(t, err)
	if !bytes.Equal(again, operator) {
		t.Error("the operator's token is another one")
	}
	for name, clear := range map[string]bool{"agent-documents.jwk": false, "handles.secret": false, "identity.age": false, "operator.secret": true} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if IsSealed(data) == clear || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: in the clear %v, mode %o", name, !IsSealed(data), info.Mode().Perm())
		}
	}
	// Its age is that of the key, by which rotation is judged.
	if info, err := os.Stat(filepath.Join(dir, "agent-documents.jwk")); err != nil || !info.ModTime().Equal(made) {
		t.Errorf("the key's time is %v, %v", info.ModTime(), err)
	}
	// Again, and with a wrong passphrase.
	reopened, err := openCheaply(dir, passphrase)
	must(t, err)
	if same, err := reopened.Secret("handles"); err != nil || !bytes.Equal(same, handles) {
		t.Errorf("opened again: %v", err)
	}
	if _, err := Open(dir, rand.Reader, nil); err == nil || !strings.Contains(err.Error(), "passphrase_file") {
		t.Errorf("without a passphrase: %v", err)
	}
	if _, err := Open(dir, rand.Reader, []byte("another passphrase")); err == nil || !strings.Contains(err.Error(), "not opened by the passphrase") {
		t.Errorf("with another passphrase: %v", err)
	}
	// A file of another ring is not taken.
	other := t.TempDir()
	foreign, err := openCheaply(other, passphrase)
	must(t, err)
	_, err = foreign.Secret("handles")
	must(t, err)
	data, err := os.ReadFile(filepath.Join(other, "handles.secret"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "handles.secret"), data, 0o600))
	if _, err := reopened.Secret("handles"); err == nil || !strings.Contains(err.Error(), "another ring") {
		t.Errorf("a file of another ring: %v", err)
	}
}

// openCheaply opens a ring. If its passphrase is new, a guess of it costs little.
func openCheaply(dir string, passphrase []byte) (*Ring, error) {
	return openWith(dir, rand.Reader, passphrase, 4)
}

// TestEXT33_GuessesOfAPassphraseCost reads the work factor that a new passphrase has.
func TestEXT33_GuessesOfAPassphraseCost(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir, rand.Reader, []byte("correct horse battery"))
	must(t, err)
	data, err := os.ReadFile(filepath.Join(dir, identityFile))
	must(t, err)
	head, err := io.ReadAll(io.LimitReader(armor.NewReader(bytes.NewReader(data)), 200))
	must(t, err)
	if !regexp.MustCompile(`(?m)^-> scrypt \S+ 18$`).Match(head) {
		t.Errorf("a new passphrase has another work factor than 18:\n%s", head)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
