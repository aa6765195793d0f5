package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hinting is an agent that has two words to say before its answer, with headers
// that are none of its business.
func hinting(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	for name, v := range map[string]string{
		"Powerbox-Decision": "rec_forged", "Powerbox-Outcome": "denied", "Set-Cookie": "powerbox-session=forged; Path=/", "X-Hint": "early",
	} {
		h.Set(name, v)
	}
	w.WriteHeader(http.StatusContinue)
	w.WriteHeader(http.StatusEarlyHints)
	clear(h)
}

// TestATK31_WordsBeforeTheAnswer has the agent say something before its answer,
// asked for by an expectation and not: nothing of it reaches the caller, and the
// answer names its record as ever.
func TestATK31_WordsBeforeTheAnswer(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		var mu sync.Mutex
		var expected []string
		w.documents.sees(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			expected = append(expected, r.Header.Values("Expect")...)
			mu.Unlock()
			hinting(rw, r)
		})
		alice := w.caller(aliceToken)
		held := alice.reports()
		body := data("search_documents", map[string]any{})
		for _, expect := range []string{"", "100-continue"} {
			h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			if expect != "" {
				h.Set("Expect", expect)
			}
			a := w.post(w.agentURL("documents"), body, h)
			allowed(t, a)
			if d := w.decided(a); d.Decision != "ALLOW" {
				t.Errorf("ATK-31 the record says %s", d.Decision)
			}
			for name, want := range map[string]string{"Powerbox-Outcome": "forwarded", "X-Hint": "", "Set-Cookie": ""} {
				if v := a.Header.Get(name); v != want {
					t.Errorf("ATK-31 Expect %q: the answer has %s: %q; want %q", expect, name, v, want)
				}
			}
		}
		if len(expected) > 0 {
			t.Errorf("ATK-31 the agent got Expect: %v", expected)
		}
	})
}

// TestATK31_WordsBeforeTheAnswerOfAttach is the same at the process beside an
// agent: a body in chunks still ends its connection.
func TestATK31_WordsBeforeTheAnswerOfAttach(t *testing.T) {
	w := start(t, options{})
	a := w.attach("attach", newKey(t), "agents:\n  - name: documents\n    card: "+w.documents.url+"\n", "--session-file", w.sessionFile())
	w.documents.sees(hinting)
	body := string(data("search_documents", map[string]any{"query": "x"}))
	host := strings.TrimPrefix(a.url, "http://")
	out, closed := smuggle(t, host, "POST /agents/documents HTTP/1.1\r\nHost: "+host+"\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"+
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)+"GET /livez HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	if !closed || strings.Contains(out, "X-Hint") || len(w.documents.got()) != 1 {
		t.Errorf("ATK-31 closed %v, %d calls reached the agent\n%s", closed, len(w.documents.got()), out)
	}
}

// TestATK42_OneRequestForOneDecision has the agent end a connection that was used
// before without an answer. A key of idempotency reaches it, and is no reason to
// send the call again: what would be counted once could happen twice.
func TestATK42_OneRequestForOneDecision(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    headers: [Idempotency-Key, X-Idempotency-Key]\n"})
		alice := w.caller(aliceToken)
		held := alice.reports()
		body := data("search_documents", map[string]any{})
		for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			send := func() answer {
				h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
				h.Set(key, "k-1")
				return w.post(w.agentURL("documents"), body, h)
			}
			w.documents.answers(nil)
			allowed(t, send()) // its connection is kept
			w.documents.forget()
			w.documents.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			a := send()
			got := w.documents.got()
			if len(got) != 1 || got[0].header.Get(key) != "k-1" {
				t.Errorf("ATK-42 %s: for one call the agent got %v", key, got)
			}
			if a.reason() != "outcome_unknown" {
				t.Errorf("ATK-42 %s: answered with %s", key, a.Raw)
			}
		}
	})
}

// TestATK42_OneRequestThroughAttach is the same for the calls of attach.
func TestATK42_OneRequestThroughAttach(t *testing.T) {
	w := start(t, options{})
	a := w.attach("attach", newKey(t), "agents:\n  - name: documents\n    card: "+w.documents.url+"\n", "--session-file", w.sessionFile())
	body := data("search_documents", map[string]any{"query": "x"})
	send := func() answer { return a.post(a.agentURL("documents"), body, http.Header{"Idempotency-Key": {"k-1"}}) }
	allowed(t, send())
	w.documents.forget()
	w.documents.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	send()
	if got := w.documents.got(); len(got) != 1 || got[0].header.Get("Idempotency-Key") != "k-1" {
		t.Errorf("ATK-42 for one call the agent got %v", got)
	}
}

// TestATK32_NothingBehindTheBody sends trailers that name a caller: they are
// not checked, so they are dropped, and the agent gets a body with a stated
// length.
func TestATK32_NothingBehindTheBody(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		for _, mode := range []string{"require", "observe"} {
			w := start(t, options{on: on, mode: mode})
			var mu sync.Mutex
			var got []string
			w.documents.sees(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(r.Trailer, r.TransferEncoding, r.ContentLength > 0))
			})
			alice := w.caller(aliceToken)
			held := alice.reports()
			body := data("search_documents", map[string]any{})
			w.trailing(t, body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}))
			if want := []string{"map[] [] true"}; !slices.Equal(got, want) {
				t.Errorf("ATK-32 %s: the agent got %v; want %v", mode, got, want)
			}
		}
	})
}

// trailing sends a call in the town's form in chunks, with trailers behind them.
func (w *town) trailing(t *testing.T, body []byte, h http.Header) {
	t.Helper()
	r, ok := w.encode(w.agentURL("documents"), body)
	if !ok {
		r = request{method: http.MethodPost, url: w.agentURL("documents"), dial: w.agentURL("documents"), body: body}
	}
	client, kind := http.DefaultClient, "application/json"
	if body = r.body; w.on.binding == overGRPC {
		client, kind, body = h2, "application/grpc", frame(r.body)
	}
	req, err := http.NewRequest(r.method, r.dial, struct{ io.Reader }{bytes.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h
	for name, v := range map[string]string{"Content-Type": kind, "Te": "trailers", "A2A-Version": w.on.version, "Accept": "application/json, text/event-stream"} {
		h.Set(name, v)
	}
	if w.on == (wire{}) {
		h.Set("A2A-Version", "1.0")
	}
	req.Trailer = http.Header{"X-Agent-Id": {"reader"}, "Powerbox-Context": {"forged"}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if out, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d %s %v", res.StatusCode, out, err)
	}
}
