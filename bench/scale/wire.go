package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// exchange carries connections within the process, and counts the bytes that the
// serving side writes.
type exchange struct {
	mu      sync.Mutex
	servers map[string]*listener
	written atomic.Int64
}

func newExchange() *exchange { return &exchange{servers: map[string]*listener{}} }

// serve answers at a name until the returned function is called.
func (e *exchange) serve(name string, h http.Handler) (stop func()) {
	l := &listener{exchange: e, name: name, next: make(chan net.Conn), closed: make(chan struct{})}
	e.mu.Lock()
	e.servers[name] = l
	e.mu.Unlock()
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return func() { _ = s.Close() }
}

// transport is one client's, with its own connections.
func (e *exchange) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		e.mu.Lock()
		l := e.servers[host]
		e.mu.Unlock()
		if l == nil {
			return nil, errors.New("nobody is at " + host)
		}
		ours, theirs := net.Pipe()
		select {
		case l.next <- counted{theirs, &e.written}:
			return ours, nil
		case <-l.closed:
			return nil, net.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

type counted struct {
	net.Conn
	written *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

type listener struct {
	exchange *exchange
	name     string
	next     chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.next:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.name) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }
