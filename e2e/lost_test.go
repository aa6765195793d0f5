package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestATK43_KeysWithoutTheirStoreDoNotStart takes the store away from a server:
// revocations, set modes and evidence are gone, and it must not continue as if
// there had never been any.
func TestATK43_KeysWithoutTheirStoreDoNotStart(t *testing.T) {
	aboutTheFile(t)
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
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a server that starts would stay
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--new-store") {
		t.Errorf("it started: %v\n%s", err, out)
	}
	w.boot("--new-store")
}

// TestATK43_AChangedSpoolIsNotPassedOver changes a record that was acknowledged
// ahead of the store: the server does not continue without it.
func TestATK43_AChangedSpoolIsNotPassedOver(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{})
	var last string
	for range 8 {
		response, err := http.Post(w.agentURL("documents"), "application/json", bytes.NewReader(data("search_documents", nil)))
		if err != nil {
			t.Fatal(err)
		}
		last = response.Header.Get("Powerbox-Decision")
		if err := response.Body.Close(); err != nil || last == "" {
			t.Fatalf("no record of a call: %v", err)
		}
	}
	killed(t, w.process)
	path := filepath.Join(w.dir, "powerbox-data", "powerbox.db-spool")
	whole, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(whole, []byte(last)) {
		t.Fatalf("the last record is not in the spool: %v", err)
	}
	if err := os.WriteFile(path, bytes.Replace(whole, []byte(`"DENY"`), []byte(`"DENI"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a server that starts would stay
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "serve", "-c", filepath.Join(w.dir, "powerbox.yaml"), "--dev").CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "powerbox.db-spool") || !strings.Contains(string(out), "damaged") {
		t.Errorf("it started: %v\n%s", err, out)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	w.boot()
	if record := w.operator(http.MethodGet, "/v1/records/"+last, nil); !bytes.Contains(record, []byte(last)) {
		t.Errorf("with the spool as it was: %s", record)
	}
}
