package powerboxmcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxmcp "github.com/powerbox-project/powerbox/integrations/mcp"
)

// Only the decided message runs, even with code between the handler and the SDK:
// another message under the same decision does not run.
func TestATK27_WhatWasDecidedOn(t *testing.T) {
	w := newTown(t)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.sdk }, nil)
	instead := ""
	srv := httptest.NewServer(w.server.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if instead != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(instead)), int64(len(instead))
		}
		sdk.ServeHTTP(rw, r)
	})))
	t.Cleanup(srv.Close)
	w.endpoint = srv.URL
	all := w.caller("read", "docs", "help")
	answer, raw := all.post(initialize)
	id := answer.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal(raw)
	}
	of := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	}
	read := of("tools/call", `{"name":"read_file","arguments":{"path":"/a"}}`)
	open := of("resources/read", `{"uri":"docs://a"}`)
	prompt := of("prompts/get", `{"name":"summary","arguments":{"of":"a"}}`)
	for _, q := range []struct {
		operation, asked, runs string // the decided message, and the one that the SDK gets
		refused                bool
	}{
		{"files/read/read", read, read, false},
		{"files/docs/open", open, open, false},
		{"files/help/prompt", prompt, prompt, false},
		{"files/read/read", read, of("tools/call", `{"name":"delete_file","arguments":{"path":"/a"}}`), true},
		{"files/read/read", read, of("tools/call", `{"name":"read_file","arguments":{"path":"/b"}}`), true},
		{"files/read/read", read, of("tools/call", `{"name":"read_file"}`), true},
		{"files/read/read", read, open, true},
		{"files/docs/open", open, of("resources/read", `{"uri":"docs://b"}`), true},
		{"files/help/prompt", prompt, of("prompts/get", `{"name":"summary","arguments":{"of":"b"}}`), true},
		{"files/help/prompt", prompt, of("prompts/get", `{"name":"summary"}`), true},
		{"a2a.message", of("ping", `{}`), of("tools/call", `{"name":"delete_file","arguments":{"path":"/a"}}`), true},
		{"a2a.message", of("tools/list", `{}`), open, true},
	} {
		before := w.records()
		instead = q.runs
		_, raw := all.post(q.asked, "Mcp-Session-Id", id)
		if refused := strings.Contains(raw, `"code":-31403`); refused != q.refused || strings.Contains(raw, `"result"`) == q.refused {
			t.Errorf("%s in the place of %s: %s", q.runs, q.asked, raw)
		}
		if ran := w.took(); (len(ran) == 0) != q.refused {
			t.Errorf("%s in the place of %s: ran %q", q.runs, q.asked, ran)
		}
		if q.operation == "a2a.message" {
			continue
		}
		outcome := q.operation + map[bool]string{false: " ALLOW ACHIEVED", true: " ALLOW FAILED"}[q.refused]
		if got := w.records(); got[outcome] != before[outcome]+1 {
			t.Errorf("%s in the place of %s: on record %v; before %v", q.runs, q.asked, got, before)
		}
	}
}

// A stream of events ends after its time, and begins again with a capability that
// still holds.
func TestGATE9_StreamsEnd(t *testing.T) {
	w := newTown(t)
	server, err := powerboxmcp.New(powerboxmcp.Config{
		Gate:  &guard.Gate{URL: w.url, Token: guardToken, HTTP: &http.Client{Timeout: 20 * time.Second}},
		Agent: "files", Issuer: w.url + "/agents/files", Resource: w.endpoint, Now: now, Methods: methods, Streams: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sdk = w.serverOf()
	server.Hold(w.sdk)
	srv := httptest.NewServer(server.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.sdk }, nil)))
	t.Cleanup(srv.Close)
	w.endpoint = srv.URL
	reads := w.caller("read")
	answer, raw := reads.post(initialize)
	id := answer.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal(raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 { // until it ends
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", id)
		answer, err := reads.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%d %v", answer.StatusCode, err)
		}
		_ = answer.Body.Close()
	}
	if _, err := powerboxmcp.New(powerboxmcp.Config{
		Gate: &guard.Gate{}, Agent: "files", Issuer: w.url, Resource: w.endpoint, Now: now, Streams: -1,
	}); err == nil {
		t.Error("a time below nothing is taken")
	}
}
