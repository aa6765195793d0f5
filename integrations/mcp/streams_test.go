package powerboxmcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxmcp "github.com/powerbox-project/powerbox/integrations/mcp"
)

// allowing is a gate that allows everything.
type allowing struct{}

func (allowing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"decision":true,"context":{"id":"rec_1"}}`))}, nil
}

// Streams of events end after a minute where nothing is configured, with the id of an
// event of ours, behind which the server's own comes back to it.
func TestGATE9_StreamsEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := powerboxmcp.Config{
			Gate:  &guard.Gate{URL: "http://gate", Token: guardToken, HTTP: &http.Client{Transport: allowing{}}},
			Agent: "files", Issuer: "http://gate/agents/files", Resource: "http://files", Now: now,
		}
		var from []string
		open := func(method, body, last string) (time.Duration, string) {
			t.Helper()
			server, err := powerboxmcp.New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r, rec, began := httptest.NewRequestWithContext(ctx, method, "http://files", strings.NewReader(body)), httptest.NewRecorder(), now()
			if last != "" {
				r.Header.Set("Last-Event-ID", last)
			}
			server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				from = append(from, strings.Join(r.Header.Values("Last-Event-Id"), "|"))
				w.Header().Set("Content-Type", "text/event-stream")
				for _, part := range []string{"id: ser", "ver-7\ndata: {}\n", "\n"} {
					_, _ = io.WriteString(w, part)
				}
				<-r.Context().Done()
			})).ServeHTTP(rec, r)
			return now().Sub(began), rec.Body.String()
		}
		took, got := open(http.MethodGet, "", "")
		_, end, _ := strings.Cut(got, "id: server-7\ndata: {}\n\nid: ")
		id, rest, _ := strings.Cut(end, "\n")
		if took != time.Minute || !strings.HasPrefix(id, "powerbox-") || rest != "data:\n\n" {
			t.Errorf("a stream took %s: %q", took, got)
		}
		open(http.MethodGet, "", id)
		open(http.MethodGet, "", "server-3")
		open(http.MethodGet, "", "powerbox-x-")
		if want := "|server-7|server-3|"; strings.Join(from, "|") != want {
			t.Errorf("the server is told to go on from %q", from)
		}
		if took, got := open(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}`, ""); took != time.Minute {
			t.Errorf("subscriptions/listen took %s: %s", took, got)
		}
		config.UnsafeStreams = true
		if took, got := open(http.MethodGet, "", ""); took != time.Hour || strings.Contains(got, "powerbox") {
			t.Errorf("a stream of somebody who stays took %s: %q", took, got)
		}
		config.Streams = time.Second
		if _, err := powerboxmcp.New(config); err == nil {
			t.Error("a time for streams that have none is taken")
		}
	})
}

// A client of the SDK stays with a server whose streams end, though nothing is told on
// them.
func TestGATE9_ClientsOutliveStreams(t *testing.T) {
	w := newTown(t)
	server, err := powerboxmcp.New(powerboxmcp.Config{
		Gate:  &guard.Gate{URL: w.url, Token: guardToken, HTTP: &http.Client{Timeout: 20 * time.Second}},
		Agent: "files", Issuer: w.url + "/agents/files", Resource: w.endpoint, Now: now, Methods: methods, Streams: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sdk = w.serverOf()
	server.Hold(w.sdk)
	var streams atomic.Int32
	enough := make(chan struct{})
	held := server.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.sdk }, nil))
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") != "" && streams.Add(1) == 8 {
			close(enough)
		}
		held.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	w.endpoint = srv.URL
	reads := w.caller("read")
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: w.endpoint, HTTPClient: &http.Client{Transport: reads.Client}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-enough:
	case <-time.After(60 * time.Second):
		t.Fatalf("the client came %d times", streams.Load())
	}
	if err := session.Ping(t.Context(), nil); err != nil {
		t.Errorf("the client has given the session up: %v", err)
	}
}
