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

// metered counts the bytes that a server reads from its connections, and how often it ends
// one by halves.
type metered struct {
	net.Listener
	got, halves *atomic.Int64
}

type meteredConn struct {
	net.Conn
	got, halves *atomic.Int64
}

func (l metered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return meteredConn{c, l.got, l.halves}, err
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got.Add(int64(n))
	return n, err
}

func (c meteredConn) CloseWrite() error {
	c.halves.Add(1)
	return c.Conn.(*net.TCPConn).CloseWrite()
}

// The rest of a body in chunks is not read once the request was answered.
func TestATK80_ChunksBehindAnAnswerAreNotRead(t *testing.T) {
	var read, halves atomic.Int64
	s := httptest.NewUnstartedServer(endAfterChunks(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})))
	s.Listener = metered{s.Listener, &read, &halves}
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

// A client that is still sending gets the answer: the connection ends by halves. Where the
// body was read, it ends at once.
func TestATK80_AnAnswerBeforeTheEndOfABodyArrives(t *testing.T) {
	for _, c := range []struct {
		name, request string
		read          int64
		halves        int64
	}{
		{"chunks that were not read", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", 1, 1},
		{"chunks that were read", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", 10, 0},
		{"a body of HTTP/1.0 that was not read", "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nabcd", 1, 1},
		{"no body", "GET / HTTP/1.0\r\n\r\n", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var read, halves atomic.Int64
			s := httptest.NewUnstartedServer(endAfterChunks(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, c.read) // less than there is, or more
				w.WriteHeader(http.StatusUnauthorized)
			})))
			s.Listener = metered{s.Listener, &read, &halves}
			s.Start()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != http.StatusUnauthorized {
				t.Fatalf("answer %+v, %v", answer, err)
			}
			_ = answer.Body.Close()
			s.Close()
			if n := halves.Load(); n != c.halves {
				t.Errorf("the server ended %d connections by halves; want %d", n, c.halves)
			}
		})
	}
}
