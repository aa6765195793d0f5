package e2e

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// follows opens a stream at an address of this machine, and returns the status. The stream
// stays open until ctx ends.
func follows(ctx context.Context, t *testing.T, c *http.Client, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.StatusCode
}

// TestATK69_OneAddressHasItsShareOfTheStreams follows a request from one address until it
// is refused. Another address can follow it, and the first again when it closed one.
func TestATK69_OneAddressHasItsShareOfTheStreams(t *testing.T) {
	b := newBank(t, bankOptions{})
	_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}})
	at, _ := approvalOf(r)["notification_url"].(string)
	mallory, alice := callerFrom(t, "127.0.0.3", ""), callerFrom(t, "127.0.0.4", "")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	open := 0
	for range 300 {
		if follows(ctx, t, mallory, at) != http.StatusOK {
			break
		}
		open++
	}
	if open == 0 || open > 64 {
		t.Errorf("ATK-69 one address has %d of 256 streams; want some, and at most its share", open)
	}
	if status := follows(t.Context(), t, alice, at); status != http.StatusOK {
		t.Errorf("ATK-69 another address: HTTP %d; want 200", status)
	}
	leave()
	eventually(t, stepTime, func() string { return "the places of closed streams do not come back" }, func() bool {
		return follows(t.Context(), t, mallory, at) == http.StatusOK
	})
}

// TestATK69_ConnectionsOfAttachAreBounded opens connections to the inbound side of attach
// from one address. Another address still has room.
func TestATK69_ConnectionsOfAttachAreBounded(t *testing.T) {
	w := start(t, options{})
	dir := t.TempDir()
	key := filepath.Join(dir, "holder.jwk")
	if out, err := exec.CommandContext(t.Context(), binary, "keys", "new", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	local, inbound := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	file := filepath.Join(dir, "attach.yaml")
	text := "key: holder.jwk\nlisten: " + local + "\nagents:\n  - {name: documents, card: " + w.agentURL("documents") + "}\ninbound: {listen: " + inbound + ", id: reporter, agent: " + w.mail.url + ", forward: " + w.mail.url + ", url: http://" + inbound + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.Command(binary, "attach", "--config", file)
	log := &programtest.Log{}
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	})
	open := func(from string) bool {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", inbound)
		if err != nil {
			return false
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: " + inbound + "\r\n\r\n")); err != nil {
			return false
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return true
	}
	eventually(t, stepTime, func() string { return "attach does not listen\n" + log.String() }, func() bool { return open("127.0.0.1") })
	n := 0
	for n < 400 && open("127.0.0.3") {
		n++
	}
	if n == 0 || n > 200 {
		t.Errorf("ATK-69 one address has %d connections; want some, and at most its share", n)
	}
	if !open("127.0.0.4") {
		t.Error("ATK-69 another address has no connection")
	}
}

// TestATK69_OneCallerHasItsShareOfTheSessions has one caller begin sessions at a server that
// is a command until it is refused. Another caller still gets one.
func TestATK69_OneCallerHasItsShareOfTheSessions(t *testing.T) {
	w, _ := startRemote(t, 1, options{on: wire{overMCP, "2025-11-25"}}, "--mcp-sessions", "8", "--mcp-exec", "--", os.Args[0], stdioServer)
	begin := func(c *caller) int {
		t.Helper()
		granted := c.reports()
		a := c.raw(granted.ID, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		return a.Status
	}
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	begun := 0
	for begun < 8 && begin(alice) == http.StatusOK {
		begun++
	}
	if begun != 2 {
		t.Errorf("ATK-69 one caller, with a capability for each, has %d of 8 sessions; want its quarter", begun)
	}
	if status := begin(bob); status != http.StatusOK {
		t.Errorf("ATK-69 another caller: HTTP %d; want 200", status)
	}
}
