package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A body that does not come times out; one that came leaves the answer all the
// time that it takes.
func TestATK55_SlowBodiesEnd(t *testing.T) {
	const bodyTime = 200 * time.Millisecond
	// The server's clock, which is ahead of the machine's, does not count.
	g := &Gateway{config: Config{Limits: Limits{BodyTime: bodyTime}, Now: func() time.Time { return time.Now().Add(time.Hour) }}}
	serve := g.timely(func(w http.ResponseWriter, r *http.Request, _ *agent, _ string) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "slow", http.StatusBadRequest)
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(2 * bodyTime):
			fmt.Fprint(w, "whole")
		}
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, nil, "") }))
	defer srv.Close()
	for body, want := range map[string]string{"{": "400 Bad Request", "{}": "whole"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // a connection that was just made
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n%s", body)
		got, err := io.ReadAll(c)
		_ = c.Close()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("body %q: %v %q; want %q", body, err, got, want)
		}
	}
}
