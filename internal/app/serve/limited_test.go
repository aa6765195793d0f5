package serve

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// pipeListener hands out connections that claim to come from addresses.
type pipeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

type claimedConn struct {
	net.Conn
	from net.Addr
}

func (c claimedConn) RemoteAddr() net.Addr { return c.from }

// One address, or one network of IPv6, has its share of the connections and leaves
// the rest to others, and gets places back for what it closes.
func TestATK55_ConnectionsAreLimitedByAddress(t *testing.T) {
	const v4, mapped, v6, sameNet, otherNet = "192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"
	inner := &pipeListener{conns: make(chan net.Conn, 1)}
	l := Limited(inner, nil, config.Limits{Connections: 100, PerAddress: 2})
	// dial reports whether a connection from there is taken: the next one taken is it,
	// or the one of the marker behind it.
	marker := 0
	dial := func(from string) (net.Conn, bool) {
		ours, theirs := net.Pipe()
		inner.conns <- claimedConn{theirs, &net.TCPAddr{IP: net.ParseIP(from), Port: 1}}
		done := make(chan net.Conn, 1)
		go func() {
			c, _ := l.Accept()
			done <- c
		}()
		closed := make(chan bool, 1)
		go func() {
			_, err := ours.Read(make([]byte, 1))
			closed <- errors.Is(err, io.EOF)
		}()
		select {
		case c := <-done:
			return c, true
		case <-closed:
		}
		// Accept continues to wait: give it another connection.
		marker++
		_, other := net.Pipe()
		inner.conns <- claimedConn{other, &net.TCPAddr{IP: net.IPv4(198, 51, 100, byte(marker)), Port: 1}}
		<-done
		return nil, false
	}
	first, ok := dial(v4)
	if !ok {
		t.Fatal("the first connection is closed")
	}
	for _, c := range []struct {
		from string
		want bool
	}{{mapped, true}, {v4, false}, {mapped, false}, {v6, true}, {sameNet, true}, {v6, false}, {otherNet, true}} {
		if _, got := dial(c.from); got != c.want {
			t.Errorf("ATK-55: a connection from %s is taken: %v; want %v", c.from, got, c.want)
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	_ = first.Close() // twice gives one place back
	if _, got := dial(v4); !got {
		t.Error("ATK-55: no place for what was closed")
	}
	if _, got := dial(v4); got {
		t.Error("ATK-55: two places for one that was closed")
	}
}

// 0 is no limit.
func TestConnectionsWithoutALimitByAddress(t *testing.T) {
	inner := &pipeListener{conns: make(chan net.Conn, 1)}
	l := Limited(inner, nil, config.Limits{Connections: 100})
	for range 10 {
		_, theirs := net.Pipe()
		inner.conns <- claimedConn{theirs, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}}
		c, err := l.Accept()
		if err != nil || c.SetDeadline(time.Time{}) != nil {
			t.Fatal("a connection is not taken", err)
		}
	}
}
