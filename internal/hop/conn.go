package hop

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// Watched is a connection of HTTP/1.1 that callers use one after the other, with the
// transport of net/http. That one puts a connection back before it looks whether
// anything stands behind the answer, and ends it only when it has looked: anyone who takes
// it in between would get what stands there for an answer (ATK-31).
type Watched struct {
	net.Conn

	mu      sync.Mutex    // guards the fields below
	waits   bool          // for the other end: everything that came was read, and taken
	closed  bool          //
	changed chan struct{} // closed with the next change; nil without a waiter
}

// Watch returns a connection that [Final] can settle.
func Watch(c net.Conn) *Watched { return &Watched{Conn: c} }

// Read implements [net.Conn]. The transport reads again when nothing of what it has read
// is left.
func (w *Watched) Read(p []byte) (int, error) {
	w.note(true, false)
	n, err := w.Conn.Read(p)
	w.note(false, false)
	return n, err
}

// Close implements [net.Conn]. Nothing can be written any more when it is told: a request
// that waited for it was never sent, and goes out on another connection.
func (w *Watched) Close() error {
	err := w.Conn.Close()
	w.note(false, true)
	return err
}

func (w *Watched) note(waits, closed bool) {
	w.mu.Lock()
	w.waits, w.closed = waits, w.closed || closed
	if w.changed != nil && (waits || closed) {
		close(w.changed)
		w.changed = nil
	}
	w.mu.Unlock()
}

// settle returns when the connection waits for the other end, with nothing left of what
// came before, or is closed. The transport does one of the two, since no request is on it
// yet: it is asked for that when a connection was taken and nothing was written.
func (w *Watched) settle(ctx context.Context) {
	for {
		w.mu.Lock()
		if w.waits || w.closed {
			w.mu.Unlock()
			return
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return // the client has gone
		}
	}
}

// settle settles a connection that was used before. In HTTP/2 every answer names its
// request.
func settle(ctx context.Context, c net.Conn) {
	if encrypted, ok := c.(*tls.Conn); ok {
		if encrypted.ConnectionState().NegotiatedProtocol == "h2" {
			return
		}
		c = encrypted.NetConn()
	}
	if w, ok := c.(*Watched); ok {
		w.settle(ctx)
	}
}
