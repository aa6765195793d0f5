//go:build linux

package stdio

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// beginsFor has a client begin a session, and returns the status and its id.
func beginsFor(t *testing.T, s *Server, client string) (int, string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	r, err := http.NewRequestWithContext(mcp.WithClient(t.Context(), client), http.MethodPost, "http://server", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, got.Body)
	if got.StatusCode != http.StatusOK && got.Header.Get("Retry-After") == "" {
		t.Errorf("ATK-69 %s: HTTP %d without Retry-After", client, got.StatusCode)
	}
	return got.StatusCode, got.Header.Get(mcp.HeaderSession)
}

// TestATK69_OneClientHasItsShareOfTheProcesses begins sessions and makes requests without
// sessions until a client has its share. Another client still has a process.
func TestATK69_OneClientHasItsShareOfTheProcesses(t *testing.T) {
	s, err := New(Config{Command: []string{os.Args[0], "server"}, Errors: io.Discard, Sessions: 4, Share: 2, Now: time.Now, Log: slog.New(slog.DiscardHandler)}) //nolint:forbidigo // processes have deadlines of the real clock
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	first, id := beginsFor(t, s, "mallory")
	second, _ := beginsFor(t, s, "mallory")
	if first != http.StatusOK || second != http.StatusOK {
		t.Fatalf("HTTP %d, %d", first, second)
	}
	if third, _ := beginsFor(t, s, "mallory"); third != http.StatusTooManyRequests {
		t.Errorf("ATK-69 a third session of a client that may have two: HTTP %d; want 429", third)
	}
	alone := func(client, owner string) int {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		got, err := s.RoundTrip(requestOf(mcp.WithClient(ctx, client), t, owner, byItself("test/pid")))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, got.Body)
		return got.StatusCode
	}
	if status := alone("mallory", "another capability of mallory"); status != http.StatusTooManyRequests {
		t.Errorf("ATK-69 a request without a session: HTTP %d; want 429", status)
	}
	if status, _ := beginsFor(t, s, "alice"); status != http.StatusOK {
		t.Errorf("ATK-69 another client: HTTP %d; want 200", status)
	}
	// A client's idle processes make room for that client alone.
	for _, owner := range []string{"one", "two", "three"} {
		if status := alone("alice", owner); status != http.StatusOK {
			t.Errorf("ATK-69 a request of alice's %s: HTTP %d; want 200", owner, status)
		}
	}
	if s.session(id) == nil {
		t.Error("ATK-69 a session of another client had to go")
	}
	idle := s.idleOf("three")
	if idle == nil {
		t.Fatal("alice has no idle process")
	}
	s.giveBack(idle, true)
	if status, _ := beginsFor(t, s, "mallory"); status != http.StatusTooManyRequests || idle.ending.Load() {
		t.Errorf("ATK-69 a client that has its share: HTTP %d, and the process of another had to go: %t", status, idle.ending.Load())
	}
	// A session that ends gives its place back.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://server", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(mcp.HeaderSession, id)
	if _, err := s.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	if status, _ := beginsFor(t, s, "mallory"); status != http.StatusOK {
		t.Errorf("ATK-69 after a session was ended: HTTP %d; want 200", status)
	}
}
