package cli

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestASessionIsItsOwnersAlone keeps a session, has others read its file, and asks for that
// of another server.
func TestASessionIsItsOwnersAlone(t *testing.T) {
	home := t.TempDir()
	p := &Program{Now: time.Now, Env: func(name string) string { return map[string]string{"HOME": home}[name] }}
	const server = "https://powerbox.example"
	if _, err := p.LoadSession(server); !errors.Is(err, ErrNoSession) {
		t.Errorf("before: %v", err)
	}
	s := Session{Server: server, Token: "token", Expires: time.Now().Add(time.Hour).UTC()}
	if err := p.SaveSession(s); err != nil {
		t.Fatal(err)
	}
	if got, err := p.LoadSession(server); err != nil || got.Token != "token" {
		t.Errorf("kept: %+v, %v", got, err)
	}
	if token, err := p.sessionToken(t.Context(), server); err != nil || token != "token" {
		t.Errorf("used: %q, %v", token, err)
	}
	if _, err := p.LoadSession("https://other.example"); !errors.Is(err, ErrNoSession) {
		t.Errorf("at another server: %v", err)
	}
	file, err := p.SessionFile(server)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := p.LoadSession(server); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	s.Expires = time.Now().Add(-time.Minute)
	if err := p.SaveSession(s); err != nil {
		t.Fatal(err)
	}
	if _, err := p.sessionToken(t.Context(), server); err == nil || !strings.Contains(err.Error(), "run powerbox login --server "+server) {
		t.Errorf("a session that has ended: %v", err)
	}
}
