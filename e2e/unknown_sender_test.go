package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestATK80_UnknownSendersCostLittle sends more than is read of callers of whom nothing is
// known. A capability counts for something where the agent's issuer stands behind it, and a
// credential where it is one.
func TestATK80_UnknownSendersCostLittle(t *testing.T) { overTools(t, tryATK80UnknownSendersCostLittle) }

func tryATK80UnknownSendersCostLittle(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	held := alice.reports()
	url := w.agentURL("documents")
	many := invoke("search_documents", map[string]any{"query": "x", "list": make([]int, 2000)}, "")
	forged := held.Token[:strings.LastIndexByte(held.Token, '.')+1] + strings.Repeat("A", 86)
	capability := func(text string) http.Header { return http.Header{"Powerbox-Capability": {text}} }
	const tooMany = "more than 1024 values"
	for _, c := range []struct {
		name   string
		header http.Header
		few    bool
	}{
		{"nothing", http.Header{}, true},
		{"a text that is no capability", capability("a.b.c"), true},
		{"a chain that nobody signed", capability(forged), true},
		{"the name of a capability", capability("cap_0"), true},
		{"a chain of the issuer's", capability(held.Token), false},
		{"a session", alice.headers(url), false},
	} {
		a := w.post(url, many, c.header)
		if got := strings.Contains(string(a.Raw), tooMany); got != c.few {
			t.Errorf("ATK-80 2,000 values with %s: %d %.300s", c.name, a.Status, a.Raw)
		}
	}
	long := http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 40<<10)}}
	if a := w.post(url, many, long); !strings.Contains(string(a.Raw), "want at most 32768") {
		t.Errorf("ATK-80 a credential of 40 KiB: %d %.300s", a.Status, a.Raw)
	}
}

// TestATK80_BytesOfUnknownSenders: a body that says its length may be longer than one that
// comes in chunks.
func TestATK80_BytesOfUnknownSenders(t *testing.T) {
	w := start(t, options{})
	for _, c := range []struct {
		size   int
		sized  bool
		status int
	}{{100 << 10, true, http.StatusOK}, {200 << 10, true, http.StatusRequestEntityTooLarge}, {10 << 10, false, http.StatusOK}, {20 << 10, false, http.StatusRequestEntityTooLarge}} {
		var body io.Reader = bytes.NewReader(text("SendMessage", strings.Repeat("x", c.size)))
		if !c.sized {
			body = io.MultiReader(body) // whose length HTTP does not know
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.agentURL("documents"), body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(response.Body)
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if response.StatusCode != c.status || err != nil {
			t.Errorf("ATK-80 %d bytes, length given %v: %d %.200s", c.size, c.sized, response.StatusCode, raw)
		}
	}
}
