package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAAPE5_ReadersThatStop opens a stream of a service that has much to tell and reads
// nothing but how it begins: after a while the service is let go, and what became of
// the call is on record.
func TestAAPE5_ReadersThatStop(t *testing.T) {
	var left atomic.Bool
	flood := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := fmt.Fprintf(w, "data: %q\n\n", strings.Repeat("x", 64<<10)); err != nil {
				break
			}
		}
		left.Store(true)
	}))
	t.Cleanup(flood.Close)
	b := newBank(t, bankOptions{capabilities: fmt.Sprintf("        - {name: flood, description: All prices, sensitivity: read, backend: %q}", flood.URL)})
	m := b.active("alice", "flood")
	at := strings.TrimPrefix(b.url, "http://")
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	body, err := json.Marshal(args("capability", "flood", "arguments", args()))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST /capability/execute HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		at, m.token(b.url+"/capability/execute"), len(body), body)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusOK || left.Load() {
		t.Fatalf("the stream: %+v, %v", answer, err)
	}
	b.soon("AAP-E5 the service to be let go", left.Load)
	decision := answer.Header.Get("Powerbox-Decision")
	b.soon("AAP-E5 an outcome", func() bool { return len(b.records("outcome_of="+decision)) == 1 })
	if out := b.records("outcome_of=" + decision); out[0].Status != "PARTIAL" {
		t.Errorf("AAP-E5: the outcome is recorded as %+v; want PARTIAL", out)
	}
}
