package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// TestATK81_WithoutFileDescriptorsClientsAreTurnedAway takes all file descriptors of a
// server. Further clients are told to come back, the log has one line, and the server
// serves again once the descriptors are given back.
func TestATK81_WithoutFileDescriptorsClientsAreTurnedAway(t *testing.T) {
	asGiven(t)
	backend := newStock(t, "search_documents")
	at := "127.0.0.1:" + freePort(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "powerbox.yaml")
	text := fmt.Sprintf("listen: %s\nissuer: {url: \"http://%s\", directory: data}\nagents:\n  - {id: documents, upstream: %q, mode: observe}\n", at, at, backend.url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command("bash", "-c", `ulimit -n 100 && exec "$0" serve --config "$1"`, binary, file), b.url)
	var held []net.Conn
	t.Cleanup(func() {
		for _, c := range held {
			_ = c.Close()
		}
	})
	ask := func() (net.Conn, int) {
		t.Helper()
		c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: "+at+"\r\n\r\n"); err != nil {
			return c, 0
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return c, 0
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "" {
			t.Error("ATK-81: no Retry-After")
		}
		return c, response.StatusCode
	}
	served, away := 0, 0
	for range 140 {
		switch _, status := ask(); status {
		case 0:
		case http.StatusServiceUnavailable:
			away++
		default:
			served++
		}
	}
	if served == 0 || away < 20 {
		t.Errorf("ATK-81 of 140 clients %d are served and %d turned away with 503", served, away)
	}
	if log := b.log.String(); strings.Count(log, "no more file descriptors") != 1 || strings.Contains(log, "Accept error") {
		t.Errorf("ATK-81 the log has not one line about it:\n%s", log)
	}
	for _, c := range held {
		_ = c.Close()
	}
	eventually(t, stepTime, func() string { return "the server serves nobody after the descriptors were given back" }, func() bool {
		c, status := ask()
		_ = c.Close()
		return status != 0 && status != http.StatusServiceUnavailable
	})
}
