package serve

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// metered counts the bytes that a server reads from its connections.
type metered struct {
	net.Listener
	got *atomic.Int64
}

type meteredConn struct {
	net.Conn
	got *atomic.Int64
}

func (l metered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return meteredConn{c, l.got}, err
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got.Add(int64(n))
	return n, err
}

// The rest of a body in chunks is not read once the request was answered.
func TestATK80_ChunksBehindAnAnswerAreNotRead(t *testing.T) {
	var read atomic.Int64
	s := httptest.NewUnstartedServer(endAfterChunks(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})))
	s.Listener = metered{s.Listener, &read}
	s.Start()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		body := strings.Repeat("1\r\nx\r\n", 200_000)
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body+"0\r\n\r\n") // the server may close first
	}()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || !answer.Close {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	_ = answer.Body.Close()
	s.Close() // returns when the server is done with the connection
	if n := read.Load(); n > 64<<10 {
		t.Errorf("the server read %d bytes; want at most 64 KiB", n)
	}
}
