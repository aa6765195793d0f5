package main

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/netutil"
)

// limited bounds the connections of a listener: to most in all, further ones wait,
// and to perAddress of one client address, further ones are closed at once. A
// perAddress of 0 is no bound.
func limited(l net.Listener, most, perAddress int) net.Listener {
	if perAddress > 0 {
		l = &addressLimit{Listener: l, most: perAddress, open: map[netip.Prefix]int{}}
	}
	return netutil.LimitListener(l, most)
}

// addressLimit is a listener that closes what one address has too many of.
type addressLimit struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[netip.Prefix]int
}

// Accept implements net.Listener.
func (l *addressLimit) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, known := clientNetwork(c.RemoteAddr())
		if !known {
			return c, nil // a Unix socket, or a listener of a test
		}
		if l.take(from) {
			return &countedConn{Conn: c, release: sync.OnceFunc(func() { l.release(from) })}, nil
		}
		_ = c.Close()
	}
}

func (l *addressLimit) take(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.most {
		return false
	}
	l.open[from]++
	return true
}

func (l *addressLimit) release(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] <= 0 {
		delete(l.open, from)
	}
}

// countedConn is a connection that gives its place back when it is closed.
type countedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// clientNetwork returns what counts as one client address: an address of IPv4, also
// where IPv6 carries it, and 64 bits of IPv6, which one customer has all of.
func clientNetwork(a net.Addr) (netip.Prefix, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	return p, err == nil
}
