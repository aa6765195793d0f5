package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rawAgent is an agent behind that answers what its author never meant to.
type rawAgent struct {
	*stock
	cards atomic.Int32 // how often its card was asked for
	card  http.HandlerFunc
	call  http.HandlerFunc
	query atomic.Value // the raw query of the last call
}

func newRawAgent(t *testing.T) *rawAgent {
	t.Helper()
	a := &rawAgent{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			a.cards.Add(1)
			if a.card != nil {
				a.card(w, r)
				return
			}
			fmt.Fprint(w, a.cardText("?tenant=t1"))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		a.query.Store(r.URL.RawQuery)
		a.call(w, r)
	}))
	t.Cleanup(srv.Close)
	a.stock = &stock{url: srv.URL, close: srv.Close}
	return a
}

// cardText is its card, with more behind the URL of its interface.
func (a *rawAgent) cardText(more string) string {
	return fmt.Sprintf(`{"name":"Documents","description":"d","version":"1","capabilities":{"streaming":true},"defaultInputModes":["text"],"defaultOutputModes":["text"],
"skills":[{"id":"search_documents","name":"s","description":"s","tags":["t"]},{"id":"delete_document","name":"d","description":"d","tags":["t"]}],
"supportedInterfaces":[{"url":"%[1]s/invoke%[2]s","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"grpc.internal.example:443","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`, a.url, more)
}

// says makes every answer to a call the given one.
func (a *rawAgent) says(kind, body string) {
	a.call = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, body)
	}
}

// The extended card leads past the gateway as the public one would.
func TestSEP1_ExtendedCardsAreRewritten(t *testing.T) {
	asGiven(t)
	a := newRawAgent(t)
	w := behind(t, a.stock, "observe", "")
	ask := func(kind, body string) answer {
		a.says(kind, body)
		return w.post(w.agentURL("documents"), rpc("GetExtendedAgentCard", map[string]any{}), nil)
	}
	plain := `{"jsonrpc":"2.0","id":1,"result":` + a.cardText("") + `}`
	for name, c := range map[string]struct{ kind, body string }{
		"whole":            {"application/json", `{"jsonrpc":"2.0","id":1,"result":` + a.cardText("?tenant=t1") + `}`},
		"another spelling": {"application/json", strings.Replace(plain, `"result"`, `"Result"`, 1)},
		"no JSON":          {"application/json", a.cardText("") + "x"},
		"stream":           {"text/event-stream", "data: " + strings.ReplaceAll(plain, "\n", "") + "\n\n"},
	} {
		got := ask(c.kind, c.body)
		if bytes.Contains(got.Raw, []byte(a.url)) || bytes.Contains(got.Raw, []byte("grpc.internal.example")) {
			t.Errorf("%s: an address behind the gateway reaches the caller: %s", name, got.Raw)
		}
		if name == "whole" && !bytes.Contains(got.Result, []byte(w.agentURL("documents"))) {
			t.Errorf("%s: no card at our URL: %s", name, got.Raw)
		}
		if name != "whole" && (got.Error == nil || got.Error.Code != -32603) {
			t.Errorf("%s: %s; want -32603", name, got.Raw)
		}
	}
}

// What may have been done must not be reported as refused.
func TestLostAnswersAreUnknown(t *testing.T) {
	asGiven(t)
	a := newRawAgent(t)
	w := behind(t, a.stock, "observe", "")
	a.call = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for method, c := range map[string]struct {
		body      []byte
		retryable string
	}{
		"delete":     {data("delete_document", map[string]any{}), "false"},
		"search":     {data("search_documents", map[string]any{}), "true"},
		"words":      {text("SendMessage", "hello"), "false"},
		"GetTask":    {rpc("GetTask", map[string]any{"id": "t"}), "true"},
		"CancelTask": {rpc("CancelTask", map[string]any{"id": "t"}), "false"},
		"stream":     {text("SendStreamingMessage", "hello"), "false"},
	} {
		got := w.post(w.agentURL("documents"), c.body, nil)
		if got.Error == nil || got.Header.Get("Powerbox-Outcome") != "unknown" || got.reason() != "outcome_unknown" ||
			got.Error.Data[0].Metadata["retryable"] != c.retryable || !strings.Contains(got.Error.Message, "outcome is unknown") {
			t.Errorf("%s: %s %s; want unknown, retryable %s", method, got.Header.Get("Powerbox-Outcome"), got.Raw, c.retryable)
		}
	}
	a.close()
	http.DefaultClient.CloseIdleConnections()
	if got := w.post(w.agentURL("documents"), text("SendMessage", "hello"), nil); got.reason() != "authorization_unavailable" || got.Header.Get("Powerbox-Outcome") != "denied" {
		t.Errorf("an agent that was never reached: %s", got.Raw)
	}
}

// A task in an event that only the end of the stream ends is the caller's.
func TestATK18_TheLastEventOfAStreamIsBound(t *testing.T) {
	a := newRawAgent(t)
	a.says("text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"task-last","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`)
	w := start(t, options{mode: "prefer"})
	w.rewrite("powerbox.yaml", w.documents.url, a.url)
	w.again(func() {})
	alice, bob := w.settled(aliceToken), w.settled(bobToken)
	got := alice.send("documents", rpc("SendStreamingMessage", map[string]any{"message": map[string]any{"messageId": "m", "role": "ROLE_USER", "parts": []any{skillPart("search_documents", map[string]any{})["data"]}}}))
	if !bytes.Contains(got.Raw, []byte("task-last")) {
		t.Fatalf("no stream: %s", got.Raw)
	}
	a.says("application/json", `{"jsonrpc":"2.0","id":1,"result":{"id":"task-last","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`)
	if got := bob.send("documents", rpc("GetTask", map[string]any{"id": "task-last"})); got.Error == nil || got.Error.Code != -32001 {
		t.Errorf("another's task: %s", got.Raw)
	}
	if got := alice.send("documents", rpc("GetTask", map[string]any{"id": "task-last"})); got.Error != nil {
		t.Errorf("one's own task: %s", got.Raw)
	}
}

// What the caller adds to the URL continues in observe alone.
func TestATK22_QueriesThatNobodyChecks(t *testing.T) {
	asGiven(t)
	a := newRawAgent(t)
	a.says("application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`)
	for mode, want := range map[string]string{"observe": "tenant=t1&A2A-Version=1.0&admin=1", "prefer": "tenant=t1&A2A-Version=1.0"} {
		w := behind(t, a.stock, mode, "")
		r, err := http.Post(w.agentURL("documents")+"?A2A-Version=1.0&admin=1", "application/json", bytes.NewReader(data("search_documents", map[string]any{})))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if got, _ := a.query.Load().(string); got != want {
			t.Errorf("%s: the agent behind got ?%s; want ?%s", mode, got, want)
		}
	}
}

// Calls do not each fetch an unavailable card, and a caller that gives up does
// not end the fetch for others.
func TestATK55_CardsAreFetchedOnce(t *testing.T) {
	asGiven(t)
	a := newRawAgent(t)
	var held atomic.Bool
	var broken atomic.Int32
	release := make(chan struct{})
	a.card = func(w http.ResponseWriter, r *http.Request) {
		if !held.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		select {
		case <-release:
			fmt.Fprint(w, a.cardText(""))
		case <-r.Context().Done():
			broken.Add(1)
		}
	}
	w := behind(t, a.stock, "observe", "")
	a.cards.Store(0)
	for range 20 {
		_ = w.post(w.agentURL("documents"), text("SendMessage", "hello"), nil)
	}
	if n := a.cards.Load(); n > 2 {
		t.Errorf("a card that failed was fetched %d times by 20 calls; want it remembered", n)
	}
	held.Store(true)
	a.cards.Store(0)
	get := func(within time.Duration) int {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.agentURL("documents")+cardPath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	for a.cards.Load() == 0 { // until the failure is forgotten, and the fetching call gives up
		if status := get(100 * time.Millisecond); status != http.StatusBadGateway && status != 0 {
			t.Fatalf("status %d without a card", status)
		}
	}
	close(release)
	if status := get(patience); status != http.StatusOK || a.cards.Load() != 1 || broken.Load() != 0 {
		t.Errorf("status %d after %d fetches, of which %d were broken off; want 200 after one", status, a.cards.Load(), broken.Load())
	}
}

// A new key is free, so it does not give a new rate.
func TestATK55_KeysGiveNoRate(t *testing.T) {
	asGiven(t)
	a := newRawAgent(t)
	a.says("application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`)
	w := behind(t, a.stock, "observe", "defaults: {request_rate: 2}")
	limited := 0
	for range 20 {
		if w.caller("").send("documents", text("SendMessage", "hello")).reason() == "rate_limited" {
			limited++
		}
	}
	if limited == 0 {
		t.Error("20 calls at once with 20 keys all pass at 2 calls per second")
	}
}
