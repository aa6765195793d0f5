package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/peer"
)

// greeted are connections whose clients begin as those of HTTP/2 do. gRPC's transport writes
// before it reads, and closes other connections without an answer. Here their clients are
// told why.
type greeted struct {
	net.Listener
	log *slog.Logger
}

// Accept implements net.Listener. It waits for no client.
func (g greeted) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &greetedConn{Conn: c, log: g.log}, nil
}

// greetedConn reads how its client begins before the first byte is written. The deadline
// until a connection is ready bounds the wait.
type greetedConn struct {
	net.Conn
	log *slog.Logger

	once  sync.Once
	err   error
	began []byte // the first bytes, as far as Read has not returned them
}

var errNoHTTP2 = errors.New("serve: the client does not begin as clients of HTTP/2 do")

const (
	beginsHTTP2 = "PRI" // of its preface, which no method of HTTP/1.1 begins with
	wantsGRPC   = "this address answers gRPC alone; ask over gRPC, or remove grpc_only from the door\n"
	wantsTLS    = "this address answers over TLS alone\n"

	partingTime  = time.Second // for the client to read the answer
	partingBytes = 64 << 10    // of its request that are still read, so that the answer is not lost
)

func (c *greetedConn) greet() error {
	c.once.Do(func() {
		if secured, ok := c.Conn.(*tls.Conn); ok {
			if c.err = secured.HandshakeContext(context.Background()); c.err != nil {
				c.log.Warn("TLS handshake error", slog.String("from", peer.OfConn(c).String()), slog.Any("error", c.err))
				var plain tls.RecordHeaderError
				if errors.As(c.err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
					part(plain.Conn, http.StatusBadRequest, wantsTLS)
				}
				return
			}
		}
		c.began = make([]byte, len(beginsHTTP2))
		if _, c.err = io.ReadFull(c.Conn, c.began); c.err == nil && string(c.began) != beginsHTTP2 {
			c.err = errNoHTTP2
			part(c.Conn, http.StatusNotFound, wantsGRPC)
		}
	})
	return c.err
}

// looksLikeHTTP reports whether a connection begins with a method of HTTP/1.1 instead of TLS.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// part answers a client of HTTP/1.1, and reads on until it has closed.
func part(c net.Conn, status int, why string) {
	if c.SetDeadline(time.Now().Add(partingTime)) != nil {
		return
	}
	answer := "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(why)) + "\r\nConnection: close\r\n\r\n" + why
	if _, err := io.WriteString(c, answer); err == nil {
		_, _ = io.CopyN(io.Discard, c, partingBytes)
	}
}

// Read implements net.Conn.
func (c *greetedConn) Read(p []byte) (int, error) {
	if err := c.greet(); err != nil {
		return 0, err
	}
	if len(c.began) > 0 {
		n := copy(p, c.began)
		c.began = c.began[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *greetedConn) Write(p []byte) (int, error) {
	if err := c.greet(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
