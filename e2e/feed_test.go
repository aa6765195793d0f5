package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// secret is the operator's token.
func (w *town) secret() string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// follow follows the feed of the running server.
func (w *town) follow() *feed.Subscriber {
	w.t.Helper()
	var pinned struct {
		Issuer string        `json:"issuer"`
		Key    signed.Public `json:"key"`
	}
	if err := json.Unmarshal([]byte(w.run("feed", "key", "--output", "json")), &pinned); err != nil {
		w.t.Fatal(err)
	}
	secret := w.secret()
	s, err := feed.New(feed.Config{
		Server: w.url, Issuer: pinned.Issuer, Keys: []signed.Public{pinned.Key}, Transport: http.DefaultTransport, Now: time.Now,
		Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+secret); return nil },
		Log:       slog.New(slog.NewTextHandler(w.log, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	return s
}

// until waits for what a subscriber learns.
func (w *town) until(what string, s *feed.Subscriber, within time.Duration, learnt func() bool) {
	w.t.Helper()
	began := time.Now()
	limit := time.After(within)
	for {
		changed := s.Changed()
		if learnt() {
			w.t.Logf("%s: known after %v", what, time.Since(began).Round(time.Millisecond))
			return
		}
		select {
		case <-changed:
		case <-limit:
			w.t.Fatalf("%s: not known after %v\n%s", what, within, w.log)
		}
	}
}

// TestATK23_TheFeedOfTheRunningServer follows the feed: the follower knows
// each revocation and freeze at once, without any user's name.
func TestATK23_TheFeedOfTheRunningServer(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	w.run("revoke", c.ID)
	s := w.follow()
	w.until("the snapshot", s, atOnce, func() bool { return !s.Stale(false) && s.Revoked(c.ID) })
	other := alice.reports()
	w.run("revoke", other.ID)
	w.until("a revocation", s, atOnce, func() bool { return s.Revoked(other.ID) })
	w.run("freeze", "user:alice", "--reason", "secret reason")
	principal := claimOf(t, c.Token)
	w.until("a freeze", s, atOnce, func() bool { return s.Frozen(principal) })
	w.run("feed", "extend", "--until", "10m", "--reason", "secret reason")
	w.until("an extension", s, atOnce, func() bool { return s.RevocationSequence() == 4 })
	// A restart of the server is no end of the sequence.
	w.again(func() {})
	w.run("thaw", "user:alice", "--reason", "secret reason")
	w.until("a thaw after a restart", s, atOnce, func() bool { return !s.Frozen(principal) && s.RevocationSequence() == 5 })
	// The events say neither who nor why.
	snapshot := payload(t, string(w.operator(http.MethodGet, "/v1/feed/snapshot", nil)))
	if !strings.Contains(snapshot, c.ID) || strings.Contains(snapshot, "alice") || strings.Contains(snapshot, "secret reason") {
		t.Errorf("the snapshot says %s", snapshot)
	}
	for _, path := range []string{"/v1/feed/snapshot", "/v1/feed?after=0", "/v1/feed/key"} {
		for _, token := range []string{"", "Bearer " + w.secret() + "x", "Bearer " + aliceToken} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", token)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %q: %s", path, token, response.Status)
			}
		}
	}
}

// payload is what a compact JWS says.
func payload(t *testing.T, compact string) string {
	t.Helper()
	parts := strings.Split(strings.TrimSpace(compact), ".")
	if len(parts) != 3 {
		t.Fatalf("no compact JWS: %s", compact)
	}
	return string(raw(t, parts[1]))
}

// claimOf is the pseudonym of the user in a root token.
func claimOf(t *testing.T, compact string) string {
	t.Helper()
	text := payload(t, compact)
	at := strings.Index(text, `"pw_`)
	if at < 0 {
		t.Fatalf("no pseudonym in %s", text)
	}
	return text[at+1 : at+1+len("pw_")+24]
}

func raw(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
