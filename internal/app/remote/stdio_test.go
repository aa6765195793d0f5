package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// GATE-9: a host that has too many requests under way is told so. Its messages that are
// no requests are still passed on, such as an answer that a request waits for. A host
// that closes its input still gets the answers to its requests.
func TestGATE9_RequestsUnderWayAreBounded(t *testing.T) {
	release, reached := make(chan struct{}), make(chan string, 100)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case bytes.Contains(body, []byte(`"result"`)):
			close(release)
			w.WriteHeader(http.StatusAccepted)
		default:
			<-release
			reached <- string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		}
	}))
	defer gateway.Close()
	var out bytes.Buffer
	f := &stdioFront{
		url: gateway.URL, http: &http.Client{}, log: slog.New(slog.DiscardHandler), out: &out,
		held: func() (holder.Capability, error) { return holder.Capability{ID: "cap_1"}, nil },
	}
	var in strings.Builder
	for id := range 65 {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`+"\n", id)
	}
	in.WriteString(`{"jsonrpc":"2.0","id":"asked","result":{}}` + "\n")
	if err := f.run(t.Context(), strings.NewReader(in.String())); err != nil {
		t.Fatal(err)
	}
	if n := len(reached); n != 64 {
		t.Errorf("%d requests were passed on; want 64", n)
	}
	if n := strings.Count(out.String(), `"result"`); n != 64 || strings.Count(out.String(), "too many requests are under way") != 1 || !strings.Contains(out.String(), `"},"id":64,`) {
		t.Errorf("%d answers: %.300s", n, out.String())
	}
}

// GATE-9: a request that stands for itself says again in headers what it says, and its
// host cancels it by a notification, which ends its connection and is not passed on.
func TestGATE9_HostsCancelRequests(t *testing.T) {
	reached, gone := make(chan http.Header, 9), make(chan struct{}, 9)
	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached <- r.Header
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	defer gateway.Close()
	var out bytes.Buffer
	f := &stdioFront{
		url: gateway.URL, http: &http.Client{}, log: slog.New(slog.DiscardHandler), out: &out,
		held: func() (holder.Capability, error) { return holder.Capability{ID: "cap_1"}, nil },
	}
	host, in := io.Pipe()
	done := make(chan error)
	go func() { done <- f.run(t.Context(), host) }()
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":"a","method":"prompts/get","params":{"name":"ä","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`+"\n")
	h := <-reached
	if h.Get("Mcp-Protocol-Version") != "2026-07-28" || h.Get("Mcp-Method") != "prompts/get" || h.Get("Mcp-Name") != "=?base64?w6Q=?=" {
		t.Errorf("GATE-9 the headers %v", h)
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`+"\n")
	<-gone
	_ = in.Close()
	if err := <-done; err != nil || out.Len() > 0 || len(reached) > 0 {
		t.Errorf("GATE-9 %v; the host was told %q, and %d more requests came", err, out.String(), len(reached))
	}
}

// GATE-9: a host may give a request the id of one that it has the answer to, and
// cancelling it ends it, whatever is left of the other.
func TestGATE9_HostsUseIdsAgain(t *testing.T) {
	reached, gone := make(chan string, 9), make(chan string, 9)
	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("cancelled")) {
			gone <- string(body) // the gateway must not get it
			return
		}
		reached <- string(body)
		<-r.Context().Done()
		gone <- string(body)
	}))
	defer gateway.Close()
	f := &stdioFront{
		url: gateway.URL, http: &http.Client{}, log: slog.New(slog.DiscardHandler), out: io.Discard,
		held: func() (holder.Capability, error) { return holder.Capability{ID: "cap_1"}, nil },
	}
	stateless := func(method string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	}
	m, wrong := mcp.Decode([]byte(stateless("tools/list")), powerbox.Limits{Bytes: 1 << 10, Depth: 8})
	if wrong != nil {
		t.Fatal(wrong)
	}
	_, answered := f.cancellable(t.Context(), m) // its answer is being written
	host, in := io.Pipe()
	done := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- f.run(ctx, host) }()
	_, _ = io.WriteString(in, stateless("prompts/list")+"\n")
	<-reached
	answered()
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`+"\n")
	_ = in.Close()
	if got := <-gone; !strings.Contains(got, "prompts/list") {
		t.Errorf("GATE-9 %s has ended", got)
		stop()
	}
	defer stop()
	if err := <-done; err != nil || len(reached) > 0 || len(f.waiting) > 0 {
		t.Errorf("GATE-9 %v; %d more messages came, %d are under way", err, len(reached), len(f.waiting))
	}
}

// ATK-33: an event is one message, also where a line of it looks like another one, and
// a gateway that sends its client elsewhere is not followed.
func TestATK33_EventsForHostsAreWhole(t *testing.T) {
	evil := `{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}`
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("ATK-35 a request went on to %s with %v", r.URL, r.Header)
	}))
	defer elsewhere.Close()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("prompts/list")) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\ndata: "+evil+"\ndata: }}\n\n")
	}))
	defer gateway.Close()
	var out bytes.Buffer
	f := &stdioFront{
		url: gateway.URL, http: stayingClient(), log: slog.New(slog.DiscardHandler), out: &out,
		held: func() (holder.Capability, error) { return holder.Capability{ID: "cap_1"}, nil },
	}
	if err := f.run(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n")); err != nil {
		t.Fatal(err)
	}
	if want := `{"jsonrpc":"2.0","id":1,"result":{"x": ` + evil + " }}\n"; out.String() != want {
		t.Errorf("ATK-33 the host got %q; want %q", out.String(), want)
	}
	out.Reset()
	if err := f.run(t.Context(), strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`+"\n")); err != nil || !strings.Contains(out.String(), "307") {
		t.Errorf("ATK-35 %v, the host got %q", err, out.String())
	}
}
