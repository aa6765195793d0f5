package peer

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
)

// Listener bounds the connections of each client to most; further ones are closed. A most
// of 0 is no bound. Proxies that are believed have no bound of their own: their clients
// have. If proxies tell addresses by the PROXY protocol, its header is read first, within
// headerTime.
func (p *Proxies) Listener(l net.Listener, most int, headerTime time.Duration) net.Listener {
	spoken := p != nil && p.way == ProxyProtocol && len(p.trusted) > 0
	if most <= 0 && !spoken {
		return l
	}
	return &listener{Listener: l, proxies: p, spoken: spoken, headerTime: headerTime, most: most, open: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	proxies    *Proxies
	spoken     bool // the PROXY protocol, by proxies that are believed
	headerTime time.Duration
	most       int

	mu   sync.Mutex
	open map[netip.Prefix]int
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, known := networkOf(c.RemoteAddr())
		trusted := known && l.proxies.trusts(from.Addr())
		switch {
		case trusted && l.spoken:
			told := proxyproto.NewConn(c, proxyproto.WithPolicy(proxyproto.REQUIRE), proxyproto.SetReadHeaderTimeout(l.headerTime))
			return &conn{Conn: told, listener: l, proxy: c.RemoteAddr()}, nil
		case !known || trusted || l.most <= 0:
			return c, nil // a Unix socket, a listener of a test, or a proxy
		case l.take(from):
			return &conn{Conn: c, listener: l, from: from, counted: true}, nil
		}
		_ = c.Close()
	}
}

func (l *listener) take(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open[from] >= l.most {
		return false
	}
	l.open[from]++
	return true
}

func (l *listener) release(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] <= 0 {
		delete(l.open, from)
	}
}

// conn is a connection that counts for its client, and gives the place back when it is
// closed. What comes through a proxy counts when the proxy has named its client: the
// listener waits for none of them.
type conn struct {
	net.Conn
	listener *listener
	proxy    net.Addr // nil where nothing is told on the connection

	once sync.Once
	err  error

	mu      sync.Mutex // guards the rest
	from    netip.Prefix
	counted bool
	closed  bool
}

var errTooMany = errors.New("peer: the client has too many connections")

// settle counts a connection through a proxy, once its client is known.
func (c *conn) settle() error {
	if c.proxy == nil {
		return nil
	}
	c.once.Do(func() {
		from, known := networkOf(c.Conn.RemoteAddr())
		if !known || c.listener.proxies.trusts(from.Addr()) {
			return // the proxy itself, which looks whether we are well
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.closed:
			c.err = net.ErrClosed
		case !c.listener.take(from):
			c.err = errTooMany
		default:
			c.from, c.counted = from, true
		}
	})
	return c.err
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if err := c.settle(); err != nil {
		_ = c.Close()
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.settle(); err != nil {
		_ = c.Close()
		return 0, err
	}
	return c.Conn.Write(b)
}

// LocalAddr implements net.Conn: where the connection came in, whatever a proxy says.
func (c *conn) LocalAddr() net.Addr {
	if told, ok := c.Conn.(*proxyproto.Conn); ok {
		return told.Raw().LocalAddr()
	}
	return c.Conn.LocalAddr()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.counted && !c.closed {
		c.listener.release(c.from)
	}
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}
