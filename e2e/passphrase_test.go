package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// EXT-33: a server whose keys are under a passphrase works as any other, and does
// not start without it.
func TestEXT33_AServerWithAPassphrase(t *testing.T) {
	w := start(t, options{})
	before := w.must("keys", "list", "-c", "powerbox.yaml")
	w.again(func() {
		w.write("passphrase", "a passphrase for the test\n")
		data, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		w.write("powerbox.yaml", strings.Replace(string(data), "\nidentity:", "\n  passphrase_file: passphrase\nidentity:", 1))
	})
	for _, name := range []string{"agent-documents.jwk", "evidence.secret", "checkpoint.secret", "handles.secret", "pairwise.secret", "feed.secret"} {
		data, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", name))
		if err != nil || !strings.HasPrefix(string(data), "-----BEGIN AGE ENCRYPTED FILE-----") {
			t.Errorf("%s stands in the clear: %v", name, err)
		}
	}
	if after := w.must("keys", "list", "-c", "powerbox.yaml"); !strings.Contains(after, "encrypted") || strings.Contains(before, "encrypted") {
		t.Errorf("keys list:\n%s", after)
	}
	w.must("mode", "documents", "require", "-c", "powerbox.yaml") // something is recorded under the same keys
	w.must("evidence", "export", "-c", "powerbox.yaml", "--out", "bundle.jsonl")
	w.must("evidence", "trust", "-c", "powerbox.yaml", "--out", "trust.json")
	if out := w.must("evidence", "verify", "bundle.jsonl", "--trust", "trust.json"); !strings.HasPrefix(out, "ok") {
		t.Errorf("the evidence: %s", out)
	}
	if out, code := w.cli("config", "check", "-c", "powerbox.yaml"); code != 0 {
		t.Errorf("config check: %s", out)
	}
	w.write("passphrase", "another passphrase\n")
	if out, code := w.cli("serve", "--dev", "-c", "powerbox.yaml"); code == 0 || !strings.Contains(out, "not opened by the passphrase") || strings.Contains(out, "another passphrase") {
		t.Errorf("with another passphrase: exit %d\n%s", code, out)
	}
}
