package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/holder"
)

// GATE-9: a host that asks for more than is under way at once is told so, and what it
// says that is no request is still passed on: an answer that a request waits for. Who
// says nothing more still gets what was asked for.
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
