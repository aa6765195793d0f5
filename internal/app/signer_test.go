package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/store/keeper/keepertest"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// TestCallWhoseRecordIsNotSignedIsRefused has a server with its signing keys in Vault. While
// Vault is sealed, hangs or lies, calls are refused and the tool does not run.
func TestCallWhoseRecordIsNotSignedIsRefused(t *testing.T) {
	v := keepertest.New(t)
	var state string
	d := openDoorAs(t, "", true, func(dir, text string) string {
		state = filepath.Join(dir, "state")
		signer := fmt.Sprintf("vault: {address: %q, token_file: %q}\ntimeout: 500ms\n", v.URL, v.TokenFile)
		if err := os.WriteFile(filepath.Join(dir, "signer.yaml"), []byte(signer), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.Replace(text, "directory: state", "directory: state, signer_file: signer.yaml", 1)
	})
	token := d.granted("notes:read").Access
	if !d.may(token, "read_note") {
		t.Fatal("a call was refused although its record could be signed")
	}
	for what, fault := range map[string]interface{ Store(bool) }{"is sealed": &v.Fails, "hangs": &v.Hangs, "lies": &v.Lies} {
		fault.Store(true)
		before := d.calls.Load()
		got := d.call("notes", token, "read_note")
		if d.calls.Load() != before || !strings.Contains(got.body, `"code":"evidence_unavailable"`) || strings.Contains(got.body, "did ") || strings.Contains(got.body, keepertest.Token) {
			t.Errorf("while Vault %s: %d %s, %d calls", what, got.status, got.body, d.calls.Load()-before)
		}
		fault.Store(false)
		if !d.may(token, "read_note") {
			t.Errorf("after Vault that %s works again, a call is refused", what)
		}
	}
	files, err := filepath.Glob(filepath.Join(state, "keys", "*"))
	if err != nil {
		t.Fatal(err)
	}
	away := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _, away[filepath.Base(file)] = keyring.Where(data)
	}
	for _, name := range []string{"agent-notes.jwk", "agent-other.jwk", "evidence.secret", "checkpoint.secret", "feed.secret", "oauth.secret"} {
		if !away[name] {
			t.Errorf("%s is not in Vault: %v", name, away)
		}
	}
}
