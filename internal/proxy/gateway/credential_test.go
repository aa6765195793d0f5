package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

const canary = "canary-8f2c41d0-of-the-operator"

// echo is an agent that needs the operator's key, and tells its caller every header that it
// got.
type echo struct {
	*behind
	mu     sync.Mutex
	key    string // that it takes
	status int    // of its answers, 0 for 200
	got    []http.Header
	cards  int    // requests for its card with the key
	other  string // host that its card names, "" for its own
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Method == http.MethodGet {
		if strings.Contains(fmt.Sprint(r.Header), canary) {
			e.cards++
		}
		if e.other != "" {
			r.Host = e.other
		}
		e.behind.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	e.got = append(e.got, r.Header.Clone())
	text, _ := json.Marshal(fmt.Sprint(r.Header))
	w.Header().Set("X-Seen", r.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+e.key:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="`+r.Header.Get("Authorization")+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	case e.status == http.StatusFound:
		w.Header().Set("Location", "http://evil.example/?key="+canary)
		w.WriteHeader(e.status)
	case e.status != 0:
		w.WriteHeader(e.status)
	}
	said := fmt.Sprintf(`{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":%s}]}}`, text)
	if !strings.HasSuffix(r.URL.Path, "/message:send") {
		said = `{"jsonrpc":"2.0","id":1,"result":` + said + `}`
	}
	fmt.Fprint(w, said)
}

// echoing is a town whose agent is an echo, with a log.
func echoing(t *testing.T, mode gate.Mode) (*town, *echo, *strings.Builder) {
	t.Helper()
	e, log := &echo{behind: &behind{}, key: canary}, &strings.Builder{}
	upstream := httptest.NewServer(e)
	t.Cleanup(upstream.Close)
	w := newTownWith(t, mode, []string{"notes/notes:read/read_note"}, func(c *gateway.Config) {
		c.Agents[0].Upstream = upstream.URL
		c.Agents[0].Credential = &credential.Placed{Source: credential.Static{Text: config.NewSecret(canary)}, Header: "Authorization", Scheme: "Bearer"}
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	return w, e, log
}

// quiet wants no trace of the key in what a caller got, in records and in the log.
func quiet(t *testing.T, w *town, log fmt.Stringer, got answer) {
	t.Helper()
	records, err := json.Marshal(w.ledger.written())
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"the answer": got.body + fmt.Sprint(got.header), "the records": string(records), "the log": log.String()} {
		if strings.Contains(text, canary) || strings.Contains(text, canary[3:20]) {
			t.Errorf("the key is in %s: %s", what, text)
		}
	}
}

const readMessage = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"read_note","arguments":{}}}]}}`

// jsonCalls are a call of each binding in JSON.
var jsonCalls = map[string]struct{ path, body string }{
	"JSON-RPC":  {"", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + readMessage + `}`},
	"HTTP+JSON": {"/message:send", readMessage},
}

// TestCallersNeverSeeTheCredential calls an agent that echoes the operator's key, fails,
// redirects and refuses.
func TestCallersNeverSeeTheCredential(t *testing.T) {
	for _, mode := range []gate.Mode{gate.Scoped, gate.Observe} {
		for binding, call := range jsonCalls {
			t.Run(fmt.Sprint(mode, " ", binding), func(t *testing.T) {
				w, e, log := echoing(t, mode)
				for _, status := range []int{0, http.StatusInternalServerError, http.StatusForbidden, http.StatusFound} {
					if status == http.StatusFound && mode == gate.Observe {
						continue // there a redirect passes, and is the caller's to follow
					}
					e.status = status
					got := w.post(call.path, call.body, "Authorization", "Bearer assistant", "X-Api-Key", "mine")
					quiet(t, w, log, got)
					if last := e.got[len(e.got)-1]; len(last["Authorization"]) != 1 || last.Get("Authorization") != "Bearer "+canary {
						t.Errorf("the agent got %v", last)
					}
					if status == 0 && (!strings.Contains(got.body, "****") || got.status != http.StatusOK) {
						t.Errorf("%d %s", got.status, got.body)
					}
				}
				// An own token of the caller for the agent does not take the place of the key.
				got := w.post(call.path, call.body, "Authorization", "Bearer the-callers-own")
				quiet(t, w, log, got)
				for _, h := range e.got {
					if strings.Contains(fmt.Sprint(h), "the-callers-own") {
						t.Errorf("the agent got the caller's token: %v", h)
					}
				}
				if e.cards > 0 {
					t.Error("the key is sent for the card, about which nothing was decided")
				}
			})
		}
	}
}

// TestRefusedCredentialIsTheOperators has the agent refuse the key. The caller learns that
// it is not theirs, and gets no challenge.
func TestRefusedCredentialIsTheOperators(t *testing.T) {
	for binding, call := range jsonCalls {
		w, e, log := echoing(t, gate.Scoped)
		e.key = "another"
		got := w.post(call.path, call.body, "Authorization", "Bearer assistant")
		quiet(t, w, log, got)
		if !strings.Contains(got.body, `"code":"credential_refused"`) || got.status == http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != "" || len(e.got) != 1 {
			t.Errorf("%s: %d %s %v; the agent was asked %d times", binding, got.status, got.body, got.header, len(e.got))
		}
		if !strings.Contains(got.body, "and not the caller's") {
			t.Errorf("%s: the caller is not told whose credential it is: %s", binding, got.body)
		}
	}
}

// TestRefusedCallsDoNotCarryTheCredential sends a call that is denied.
func TestRefusedCallsDoNotCarryTheCredential(t *testing.T) {
	w, e, log := echoing(t, gate.Scoped)
	got := w.post("", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+strings.Replace(readMessage, "read_note", "delete_note", 1)+`}`, "Authorization", "Bearer assistant")
	quiet(t, w, log, got)
	if len(e.got) != 0 || got.code == "" {
		t.Errorf("the agent was called: %v %s", e.got, got.body)
	}
}

// TestCredentialStaysFromHostsOfTheCard has the card of the agent name another host.
func TestCredentialStaysFromHostsOfTheCard(t *testing.T) {
	for binding, call := range jsonCalls {
		w, e, log := echoing(t, gate.Scoped)
		e.other = "other.invalid"
		got := w.post(call.path, call.body, "Authorization", "Bearer assistant")
		quiet(t, w, log, got)
		if !strings.Contains(got.body, `"code":"credential_unavailable"`) || !strings.Contains(got.body, "upstream_hosts") {
			t.Errorf("%s: %s", binding, got.body)
		}
	}
}
