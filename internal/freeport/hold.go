package freeport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Held is a request that was sent while the program that it is for was down. Tests pass it
// on once the program runs again.
type Held struct {
	t       testing.TB
	address string
	client  net.Conn
	read    bytes.Buffer // what has come from the client
}

// holdTime bounds how long [Hold] waits.
const holdTime = 20 * time.Second

// Hold takes the place of a program that was killed: it listens at its address once nothing
// else does, has send send a request, and reads that whole. It then listens no more, and
// waits for the next second, so that the program begins later than the request was signed.
func Hold(t testing.TB, address string, send func()) *Held {
	t.Helper()
	h := &Held{t: t, address: address}
	l := listening(t, address)
	go send()
	err := l.SetDeadline(now().Add(holdTime))
	if err == nil {
		h.client, err = l.Accept()
	}
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.client.Close() })
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(h.client, &h.read)))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		t.Fatalf("the request that is held: %v", err)
	}
	<-time.After(now().Truncate(time.Second).Add(time.Second).Sub(now()))
	return h
}

var now = time.Now //nolint:forbidigo // signatures have the machine's time

// listening listens as soon as nothing else does.
func listening(t testing.TB, address string) *net.TCPListener {
	t.Helper()
	limit, tick := time.After(holdTime), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if tcp, ok := l.(*net.TCPListener); ok && err == nil {
			return tcp
		}
		select {
		case <-limit:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// Pass sends the request to the program, and then whatever both sides say.
func (h *Held) Pass() {
	h.t.Helper()
	server, err := new(net.Dialer).DialContext(h.t.Context(), "tcp", h.address)
	if err == nil {
		_, err = server.Write(h.read.Bytes())
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = server.Close() })
	go func() {
		_, _ = io.Copy(h.client, server) // the client says what it lacks
		_ = h.client.Close()
	}()
	go func() { _, _ = io.Copy(server, h.client) }()
}
