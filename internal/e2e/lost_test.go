package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestATK43_KeysWithoutTheirStoreDoNotStart takes the store away from a server:
// revocations, set modes and evidence are gone, and it must not go on as if
// there had never been any.
func TestATK43_KeysWithoutTheirStoreDoNotStart(t *testing.T) {
	w := start(t, options{})
	w.caller(aliceToken).reports()
	if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	gone := time.Now().Add(15 * time.Second)
	for syscall.Kill(w.process.Process.Pid, 0) == nil && time.Now().Before(gone) {
		continue
	}
	stores, err := filepath.Glob(filepath.Join(w.dir, "powerbox-data", "powerbox.db*"))
	if err != nil || len(stores) == 0 {
		t.Fatalf("no store: %v", err)
	}
	for _, name := range stores {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev"}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a server that starts would stay
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--new-store") {
		t.Errorf("it started: %v\n%s", err, out)
	}
	w.boot("--new-store")
}
