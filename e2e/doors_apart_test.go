package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestADoorAtARemoteGateway has another gateway ask a remote gateway: the decision is that of
// the gateway's own calls, by the same feed, and its record comes to the server.
func TestADoorAtARemoteGateway(t *testing.T) {
	door, token := "127.0.0.1:"+freePort(t), strings.Repeat("t", 32)
	file := filepath.Join(t.TempDir(), "door.token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, all := startRemote(t, 1, options{agent: "    enforces: context"}, "--lease", "2s", "--door-listen", door, "--door-token-file", file, "--door-path", "/behind/documents")
	alice := w.caller(aliceToken)
	held := alice.reports()
	ask := func(shown string) (int, http.Header, string) {
		body := data("search_documents", map[string]any{})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+door+"/ext_authz/behind/documents", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		r.Header.Set("Powerbox-Door", shown)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		said, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, a.Header, string(said)
	}
	if status, _, said := ask("another"); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", status, said)
	}
	status, h, said := ask(token)
	if status != http.StatusOK || h.Get("Powerbox-Context") == "" {
		t.Fatalf("a good call: %d %v %s\n%s", status, h, said, all[0].log)
	}
	if r := w.record(h.Get("Powerbox-Decision")); r.ID == "" || r.Decision != "ALLOW" {
		t.Errorf("its record: %+v", r)
	}
	w.operator(http.MethodPost, "/v1/revocations", map[string]string{"target": held.ID})
	eventually(t, atOnce, func() string { return "a revocation is not known" }, func() bool {
		status, h, _ = ask(token)
		return status == http.StatusForbidden && h.Get("Powerbox-Reason") == "revoked"
	})
	standStill(t, w.process.Process)
	defer func() { _ = w.process.Process.Signal(syscall.SIGCONT) }()
	eventually(t, atOnce, func() string { return "calls go on after the lease is over" }, func() bool {
		_, h, _ = ask(token)
		return h.Get("Powerbox-Reason") == "revocations_stale"
	})
}

// TestFlagsOfADoorThatDoNotGoTogether names the flag that is missing.
func TestFlagsOfADoorThatDoNotGoTogether(t *testing.T) {
	asGiven(t)
	for _, c := range []struct{ flags, want string }{
		{"--door-path=/x", "go with --door-listen"},
		{"--door-listen=0.0.0.0:1", "--door-token-file"},
		{"--door-listen=127.0.0.1:1 --door-peer-certificates", "--door-token-file"},
		{"--door-listen=here", "host:port"},
		{"--door-listen=127.0.0.1:1 --door-path=/a/../b", "plain path"},
		{"--door-listen=127.0.0.1:1 --mcp-exec -- true", "--upstream"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"gateway", "--state", t.TempDir()}, strings.Fields(c.flags)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.flags, err, out)
		}
	}
}
