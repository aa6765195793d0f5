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

// byItself is a request that stands for itself.
func byItself(method string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
}

// as makes a request of a caller.
func as(t *testing.T, s *Server, caller, body string) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := s.RoundTrip(requestOf(ctx, t, caller, body))
	if err != nil {
		return 0, err.Error()
	}
	if id := got.Header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("%s: the answer names the session %s", body, id)
	}
	data, err := io.ReadAll(got.Body)
	if err != nil {
		return got.StatusCode, err.Error()
	}
	return got.StatusCode, string(data)
}

func requestOf(ctx context.Context, t *testing.T, caller, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(mcp.WithCaller(ctx, caller), http.MethodPost, "http://server", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A stateless request runs in a process of its caller. Requests of others never reach
// that process, and it serves one at a time.
func TestGATE9_RequestsWithoutSessions(t *testing.T) {
	s, _ := serve(t)
	pid := func(caller string) string {
		_, answer := as(t, s, caller, byItself("test/pid"))
		if !strings.Contains(answer, `"result"`) {
			t.Fatalf("%q: %s", caller, answer)
		}
		return answer
	}
	first := pid("alice")
	if again := pid("alice"); again != first {
		t.Errorf("a caller's process is %s, then %s", first, again)
	}
	if other := pid("bob"); other == first {
		t.Errorf("two callers share %s", other)
	}
	// A third takes the place of who was idle longest, and its process is gone.
	if other := pid("carol"); other == first {
		t.Errorf("two callers share %s", other)
	}
	if again := pid("alice"); again == first {
		t.Errorf("%s had to go", again)
	}
	if one, other := pid(""), pid(""); one == other {
		t.Errorf("nobody's requests share %s", one)
	}
	begin(t, s) // a session, for which there is room, too
	if status, answer := as(t, s, "alice", byItself("test/talk")); status != http.StatusOK || !strings.Contains(answer, "notifications/progress") || !strings.Contains(answer, `"id":7,"result"`) {
		t.Errorf("talk before an answer: %d %s", status, answer)
	}

	s.mu.Lock()
	var ids []string
	for id, one := range s.sessions {
		if one.stateless {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		if status, _, answer := say(t, s, id, request("test/pid")); status != http.StatusNotFound {
			t.Errorf("a process of a caller as a session: %d %s", status, answer)
		}
	}

	// While one is under way, another has another process; anyone who does not wait for
	// the answer leaves none.
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.RoundTrip(requestOf(ctx, t, "alice", byItself("test/deaf")))
		ended <- err
	}()
	busy := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, one := range s.sessions {
			one.mu.Lock()
			if len(one.asking) > 0 {
				n++
			}
			one.mu.Unlock()
		}
		return n
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for busy() == 0 {
		<-tick.C
	}
	if status, answer := as(t, s, "alice", byItself("test/pid")); status != http.StatusServiceUnavailable {
		t.Errorf("a third process of two: %d %s", status, answer)
	}
	leave()
	if err := <-ended; err == nil {
		t.Error("a request that was left is answered")
	}
	pid("alice") // when the other has gone
}

// A program that knows sessions alone says so, once.
func TestGATE9_ProgramsOfSessionsAlone(t *testing.T) {
	s, err := New(Config{Command: []string{os.Args[0], "server"}, Errors: io.Discard, Sessions: 1, Now: now, Log: slog.New(slog.DiscardHandler), Env: []string{"SESSIONS_ALONE=1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if status, answer := as(t, s, "alice", byItself("server/discover")); status != http.StatusNotFound || !strings.Contains(answer, "-32601") {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := as(t, s, "alice", byItself("tools/list")); status != http.StatusBadRequest || !strings.Contains(answer, "begin with initialize") {
		t.Errorf("%d %s", status, answer)
	}
	begin(t, s) // when that process has gone
}
