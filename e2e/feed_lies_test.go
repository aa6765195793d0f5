package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// liar is a relay of the running server's feed that changes what it carries.
type liar struct {
	w  *town
	mu sync.Mutex
	// frames is what it makes of one frame of the stream, snapshot what of a
	// snapshot; nil leaves them alone.
	frames   func(frame string) []string
	snapshot func(compact string) string
}

func (l *liar) lie(frames func(string) []string, snapshot func(string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames, l.snapshot = frames, snapshot
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, l.w.url+r.URL.RequestURI(), nil)
	if err != nil {
		return
	}
	request.Header = r.Header.Clone()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.WriteHeader(response.StatusCode)
	if r.URL.Path == feed.PathSnapshot {
		text, _ := io.ReadAll(response.Body)
		l.mu.Lock()
		if l.snapshot != nil {
			text = []byte(l.snapshot(string(text)))
		}
		l.mu.Unlock()
		_, _ = w.Write(text)
		return
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	lines.Split(func(data []byte, _ bool) (int, []byte, error) {
		if n := bytes.Index(data, []byte("\n\n")); n >= 0 {
			return n + 2, data[:n+2], nil
		}
		return 0, nil, nil
	})
	for lines.Scan() {
		out := []string{lines.Text()}
		l.mu.Lock()
		if l.frames != nil {
			out = l.frames(lines.Text())
		}
		l.mu.Unlock()
		for _, frame := range out {
			_, _ = io.WriteString(w, frame)
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// TestATK25_LiesAboutTheRunningFeed: a relay of the running server's feed leaves
// out, reorders, repeats and takes back; the follower notices each, says so, and
// never accepts a revoked capability.
func TestATK25_LiesAboutTheRunningFeed(t *testing.T) {
	w := start(t, options{issuer: "  feed: {heartbeat: 100ms}"})
	relay := &liar{w: w}
	var pinned struct {
		Issuer string        `json:"issuer"`
		Key    signed.Public `json:"key"`
	}
	if err := json.Unmarshal([]byte(w.run("feed", "key", "--output", "json")), &pinned); err != nil {
		t.Fatal(err)
	}
	secret, log := w.secret(), &programtest.Log{}
	s, err := feed.New(feed.Config{
		Server: httpServer(t, relay.ServeHTTP), Issuer: pinned.Issuer, Keys: []signed.Public{pinned.Key}, Transport: http.DefaultTransport, Now: time.Now,
		Lease:     6 * time.Second,
		Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+secret); return nil },
		Log:       slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	good := func() bool { return !s.Stale(false) }
	noticed := func(what, words string) {
		t.Helper()
		eventually(t, patience, func() string { return what + ": it is not noticed\n" + log.String() }, func() bool { return strings.Contains(log.String(), words) })
	}
	isEvent := func(frame string) bool { return strings.HasPrefix(frame, "event: event\n") }
	w.until("the beginning", s, patience, good)

	relay.lie(func(frame string) []string {
		if isEvent(frame) {
			return nil
		}
		return []string{frame}
	}, nil)
	w.run("revoke", "left-out", "--unrecorded")
	noticed("an event left out", "the sequence is at 1, and 0 is known")
	w.until("what was left out", s, patience, func() bool { return good() && s.Revoked("left-out") })

	var held string
	relay.lie(func(frame string) []string {
		switch {
		case isEvent(frame) && held == "":
			held = frame
			return nil
		case isEvent(frame):
			return []string{frame, held}
		case held != "":
			return nil // the heartbeat between them
		}
		return []string{frame}
	}, nil)
	// At once, or the follower takes the silence between them for a stream that is lost.
	for _, target := range []string{"one", "two"} {
		w.operator(http.MethodPost, "/v1/revocations", map[string]any{"target": target})
	}
	noticed("two events reordered", "event 3 follows 1")
	relay.lie(nil, nil)
	w.until("both", s, patience, func() bool { return good() && s.Revoked("one") && s.Revoked("two") })

	relay.lie(func(frame string) []string {
		if isEvent(frame) {
			return []string{frame, frame}
		}
		return []string{frame}
	}, nil)
	w.run("revoke", "three", "--unrecorded")
	noticed("an event that comes twice", "event 4 came twice")
	relay.lie(nil, nil)
	w.until("the one that came twice", s, patience, func() bool { return good() && s.Revoked("three") })

	// An old snapshot, and every stream ends at once: nothing new is told.
	old := string(w.operator(http.MethodGet, feed.PathSnapshot, nil))
	w.run("revoke", "four", "--unrecorded")
	w.until("the next", s, patience, func() bool { return s.Revoked("four") })
	relay.lie(func(string) []string { return []string{"event: event\ndata: nonsense\n\n"} }, func(string) string { return old })
	noticed("an old snapshot", "the sequence has gone back: to 4, from 5")
	w.until("the end of the lease", s, patience, func() bool { return s.Stale(false) })
	if !s.Revoked("four") || s.RevocationSequence() != 5 {
		t.Error("what was revoked is good again")
	}
	relay.lie(nil, nil)
	w.until("the truth", s, patience, good)
}

// TestATK25_ARestoredStoreIsARollback: the server continues from an older backup of
// its store, so that a revocation is gone. A gateway that has it does not follow.
func TestATK25_ARestoredStoreIsARollback(t *testing.T) {
	aboutTheFile(t)
	w, all := startRemote(t, 1, options{}, "--lease", "4s")
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed(t, alice.looksUp(held))
	killed(t, w.process)
	backup := stored(t, w)
	w.boot()
	w.run("revoke", held.ID)
	eventually(t, patience, func() string { return "it is not revoked\n" + all[0].log.String() }, func() bool { return alice.looksUp(held).reason() == "revoked" })
	killed(t, w.process)
	for name := range stored(t, w) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range backup {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.boot()
	eventually(t, patience, func() string { return "a rollback is not noticed\n" + all[0].log.String() }, func() bool {
		a := alice.looksUp(held)
		if a.Error == nil {
			t.Fatalf("what was revoked is good again: %s", a.Raw)
		}
		return a.reason() == "revocations_stale" && strings.Contains(all[0].log.String(), "the sequence has gone back")
	})
}

// stored is the store of a server that does not run, by file.
func stored(t *testing.T, w *town) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, "powerbox-data", "powerbox.db*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no store: %v", err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
