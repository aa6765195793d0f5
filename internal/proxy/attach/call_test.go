package attach_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/proxy/attach"
)

// held gives the process a capability and no inbound side: it stands beside a
// client.
func held(w *town, c *attach.Config) {
	c.Inbound = nil
	c.Held = []holder.Capability{{
		ID: "cap_0", Agent: w.gateway.URL + "/agents/peer", Chain: []string{w.chain("cap_0", canRead)}, Expires: w.now.Add(time.Hour),
	}}
}

// A stream passes as it comes, and the client's going away goes up.
func TestStreamsPassAsTheyCome(t *testing.T) {
	w := newTown(t, held)
	gone := make(chan struct{})
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(rw, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := bytes.Replace(call("read", ""), []byte("SendMessage"), []byte("SendStreamingMessage"), 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.out.URL+"/agents/peer", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Errorf("the first event: %q, %v", line, err)
	}
	cancel()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the peer is not told that the client has gone")
	}
}

func TestTrailersAndHeadersPass(t *testing.T) {
	w := newTown(t, held)
	w.serve = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.Header().Set("Trailer", "X-Sum")
		rw.Header().Set("Powerbox-Decision", "rec_1")
		fmt.Fprint(rw, "data: {}\n\n")
		rw.Header().Set("X-Sum", "7")
	}
	r, err := http.NewRequest(http.MethodPost, w.out.URL+"/agents/peer?A2A-Version=1.0", bytes.NewReader(call("read", "")))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer of-the-agent-behind", "X-Other": "kept", "Connection": "X-Hop", "X-Hop": "1", "Powerbox-Proof": "x", "Powerbox_Capability": "x",
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	if response.Trailer.Get("X-Sum") != "7" || response.Header.Get("Powerbox-Decision") != "rec_1" {
		t.Errorf("trailer %v, header %v", response.Trailer, response.Header)
	}
	got := w.peerIn[0]
	if got.Get("A2A-Extensions") != holder.ExtensionURI {
		t.Errorf("the extension is not asked for: %q", got.Get("A2A-Extensions"))
	}
	if got.Get("Authorization") != "Bearer of-the-agent-behind" || got.Get("X-Other") != "kept" || got.Get("X-Hop") != "" || got.Get("Powerbox_capability") != "" || got.Get("Powerbox-Proof") == "x" {
		t.Errorf("the peer got %v", got)
	}
}

func TestATaskThatCameInIsLentNoSession(t *testing.T) {
	asked := 0
	w := newTown(t, func(_ *town, c *attach.Config) {
		c.Client.Session = func(context.Context, string) (string, error) { return "access-of-alice", nil }
		c.Peers[0].Rules = []attach.Rule{{Request: holder.RequestParams{Purpose: "p"}}}
	})
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "alice") {
			asked++
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
	h := w.comes("", "", nil, nil)
	if got, refused := w.goes(call("read", ""), header("tracestate", h.Get("tracestate"))); got != "" || refused != "nothing presented" {
		t.Errorf("presented %q, refused %q", got, refused)
	}
	if asked > 0 || w.peerIn[0].Get("DPoP") == "" {
		t.Errorf("the session went out %d times; the key was proven: %q", asked, w.peerIn[0].Get("DPoP"))
	}
	// Nor by the socket, which takes everything that it is documented to take.
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/request", strings.NewReader(`{"agent":"peer","purpose":"p","skills":["read"],"card":true}`))
	r.Header.Set("tracestate", h.Get("tracestate"))
	rec := httptest.NewRecorder()
	w.attach.API().ServeHTTP(rec, r)
	if asked > 0 || rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "the task came in") {
		t.Errorf("socket: %d %s; the session went out %d times", rec.Code, rec.Body, asked)
	}
}

// Later messages of a task use the capability of its first one.
func TestTasksOfThePeerBelongToTheirTask(t *testing.T) {
	w := newTown(t, nil)
	w.serve = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"peers-1","contextId":"peers-context","status":{"state":"TASK_STATE_WORKING"}}}}`)
	}
	h := w.comes("cap_1", "", nil, nil)
	w.comes("cap_2", "", nil, other)
	if got, _ := w.goes(call("read", ""), header("tracestate", h.Get("tracestate"))); got != "cap_1" {
		t.Fatalf("presented %q", got)
	}
	poll := []byte(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"peers-1"}}`)
	if got, refused := w.goes(poll, nil); got != "cap_1" {
		t.Errorf("presented %q, refused %q", got, refused)
	}
	if got, refused := w.goes(bytes.Replace(poll, []byte("peers-1"), []byte("peers-2"), 1), nil); refused != "uncorrelated" {
		t.Errorf("another task: presented %q, refused %q", got, refused)
	}
}

func TestHeaderBudgetIsNamed(t *testing.T) {
	w := newTown(t, held)
	long := bytes.Replace(call("read", ""), []byte(`"arguments":{}`), []byte(`"arguments":{"text":"`+strings.Repeat("x", holder.HeaderBudget)+`"}`), 1)
	if got, refused := w.goes(long, nil); refused != "header_budget" {
		t.Errorf("presented %q, refused %q", got, refused)
	}
}

func TestWhatCannotBeReadIsNotSent(t *testing.T) {
	w := newTown(t, held)
	for name, body := range map[string]string{
		"a batch":     `[` + string(call("read", "")) + `]`,
		"no JSON":     `{`,
		"two methods": `{"jsonrpc":"2.0","id":1,"method":"GetTask","Method":"SendMessage","params":{}}`,
	} {
		if refused := w.post(w.out.URL+"/agents/peer", []byte(body), nil); refused == "" || len(w.peerIn) > 0 {
			t.Errorf("%s is sent", name)
		}
	}
}

// Anything that is no JSON and says so is refused for its type, as an agent would.
func TestOtherTypesAreNamed(t *testing.T) {
	w := newTown(t, held)
	response, err := http.Post(w.out.URL+"/agents/peer", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if raw, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(raw), `"code":-32005`) || !strings.Contains(string(raw), "want application/json") {
		t.Errorf("%d %s, %v", response.StatusCode, raw, err)
	}
}

// A card can be kept by clients, and asked for again by its tag.
func TestCardsCanBeKept(t *testing.T) {
	w := newTown(t, nil)
	for _, url := range []string{w.out.URL + "/agents/peer", w.in.URL} {
		tag := ""
		for _, want := range []int{http.StatusOK, http.StatusNotModified} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/.well-known/agent-card.json", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("If-None-Match", tag)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
			if tag = response.Header.Get("ETag"); response.StatusCode != want || tag == "" || response.Header.Get("Cache-Control") != "public, max-age=60" {
				t.Errorf("%s: %d %v; want %d", url, response.StatusCode, response.Header, want)
			}
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	w := newTown(t, held)
	client := &holder.Client{Key: w.key, HTTP: http.DefaultClient, Now: func() time.Time { return w.now }}
	base := attach.Config{Client: client, Transport: http.DefaultTransport, HTTP2: http.DefaultTransport}
	peer := attach.Peer{Name: "a", Card: "http://127.0.0.1:1/"}
	for name, change := range map[string]func(*attach.Config){
		"no log":     func(*attach.Config) {},
		"no peers":   func(c *attach.Config) { c.Log, c.Peers = discard, nil },
		"a bad name": func(c *attach.Config) { c.Log, c.Peers[0].Name = discard, "a/b" },
		"one twice":  func(c *attach.Config) { c.Log, c.Peers = discard, append(c.Peers, peer) },
		"no URL":     func(c *attach.Config) { c.Log, c.Peers[0].Card = discard, "ftp://x" },
		"a hand of it": func(c *attach.Config) {
			c.Log, c.Peers[0].Hand = discard, []attach.Hand{{Of: "a", Skills: []string{"x"}}}
		},
		"a bare hand":   func(c *attach.Config) { c.Log, c.Peers[0].Hand = discard, []attach.Hand{{Of: "b"}} },
		"no inbound id": func(c *attach.Config) { c.Log, c.Inbound = discard, &attach.Inbound{} },
		"a bad forward": func(c *attach.Config) {
			c.Log, c.Inbound = discard, &attach.Inbound{ID: "x", Agent: "http://a", URL: "http://b", Forward: "c"}
		},
	} {
		c := base
		c.Peers = []attach.Peer{peer}
		change(&c)
		if _, err := attach.New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A client for long: ended tasks, and old ones, make room.
func TestManyTasksMakeRoom(t *testing.T) {
	w := newTown(t, held)
	n := 0
	w.serve = func(rw http.ResponseWriter, _ *http.Request) {
		n++
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"task-%d","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`, n)
	}
	for range 300 {
		if got, refused := w.goes(call("read", ""), nil); got != "cap_0" {
			t.Fatalf("presented %q, refused %q", got, refused)
		}
	}
	if begun := w.attach.Begun(); begun > 256 || begun < 200 {
		t.Errorf("%d tasks are remembered", begun)
	}
}

// TestATK156_ACardFromElsewhereDoesNotLeadHere has the card of an agent on another machine lead to
// this process, which would sign the client's call for another agent.
func TestATK156_ACardFromElsewhereDoesNotLeadHere(t *testing.T) {
	there := map[string]string{}
	w := newTown(t, func(w *town, c *attach.Config) {
		held(w, c)
		stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, there["card"])
		}))
		t.Cleanup(stranger.Close)
		client := *c.Client
		client.HTTP = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
			if at == "stranger.example:80" {
				at = stranger.Listener.Addr().String()
			}
			return (&net.Dialer{}).DialContext(ctx, network, at)
		}}}
		c.Client, c.Peers = &client, append(c.Peers, attach.Peer{Name: "stranger", Card: "http://stranger.example"})
	})
	for _, here := range []string{w.out.URL, strings.Replace(w.out.URL, "127.0.0.1", "localhost", 1), w.out.URL + "/"} {
		w.now = w.now.Add(time.Hour) // cards are fetched again
		there["card"] = `{"name":"stranger","supportedInterfaces":[{"url":"` + strings.TrimRight(here, "/") + `/agents/peer","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`
		if refused := w.post(w.out.URL+"/agents/stranger", call("read", ""), nil); refused != "card" || len(w.peerIn) > 0 {
			t.Errorf("ATK-156 %s: %q, and %d calls came to the peer", here, refused, len(w.peerIn))
		}
	}
}
