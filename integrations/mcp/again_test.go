package powerboxmcp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// TestATK83_SignedAgainAfterAKill kills the gate while a server that asks it decides about a
// tool call. The call was signed before the gate began again: the server says that nothing
// ran, and why, and the client signs the call anew once.
func TestATK83_SignedAgainAfterAKill(t *testing.T) {
	w := newTown(t)
	c := w.caller("read")
	answer, raw := c.post(initialize)
	id := answer.Header.Get("Mcp-Session-Id")
	if answer.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("%d %s", answer.StatusCode, raw)
	}
	if err := w.process.Kill(); err != nil {
		t.Fatal(err)
	}
	type result struct {
		status int
		raw    string
	}
	calls := func() result {
		answer, raw := c.post(callOf("read_file"), "Mcp-Session-Id", id)
		return result{answer.StatusCode, raw}
	}
	// The connections of before are noticed as dead by calls that fail.
	for range 2 {
		if got := calls(); got.status != http.StatusServiceUnavailable {
			t.Errorf("a call while the gate is down: %d %s", got.status, got.raw)
		}
	}
	answers := make(chan result, 1)
	held := freeport.Hold(t, strings.TrimPrefix(w.url, "http://"), func() { answers <- calls() })
	w.boot()
	held.Pass()
	if got := <-answers; got.status != http.StatusOK || !strings.Contains(got.raw, "text of /a") {
		t.Errorf("ATK-83 the call was not signed again: %d %s", got.status, got.raw)
	}
	if len(w.ran) != 1 {
		t.Errorf("ATK-83 ran %v; want one call", w.ran)
	}
}
