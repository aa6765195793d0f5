package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// connections is how many callers there are at once, each with one that it
// keeps.
const connections = 32

// load makes calls of one address in HTTP/1.1, over TLS where that is set.
type load struct {
	address string
	tls     *tls.Config
	want    []byte // what every answer has to hold
}

// rawRequest returns the bytes of a call.
func rawRequest(host string, header [][2]string, body []byte) []byte {
	r := fmt.Appendf(nil, "POST /agents/documents HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n", host, len(body))
	for _, h := range header {
		r = fmt.Appendf(r, "%s: %s\r\n", h[0], h[1])
	}
	return append(append(r, "\r\n"...), body...)
}

// dialAll opens n connections.
func (l load) dialAll(ctx context.Context, n int) (conns []*conn, err error) {
	for range n {
		c, err := l.dial(ctx)
		if err != nil {
			return nil, errors.Join(err, closeConns(conns))
		}
		conns = append(conns, &conn{Conn: c, in: bufio.NewReaderSize(c, 16<<10)})
	}
	return conns, nil
}

func (l load) dial(ctx context.Context) (net.Conn, error) {
	if l.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	}
	return (&tls.Dialer{Config: l.tls}).DialContext(ctx, "tcp", l.address)
}

func closeConns(conns []*conn) error {
	var err error
	for _, c := range conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

type conn struct {
	net.Conn
	in    *bufio.Reader
	body  []byte
	later bool // the answer has Retry-After
}

// errRefused is the answer of a server that has too many calls.
var errRefused = errors.New("the status is 503")

// call makes one call. It returns [errRefused] for one that was turned away with a time to
// repeat it.
func (l load) call(c *conn, request []byte) error {
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	refused, err := c.answer()
	switch {
	case err != nil:
		return err
	case refused && !c.later:
		return fmt.Errorf("%w without Retry-After", errRefused)
	case refused:
		return errRefused
	}
	if !bytes.Contains(c.body, l.want) {
		return fmt.Errorf("the answer is %.300q", c.body)
	}
	return nil
}

// answer reads one answer with a Content-Length or in chunks.
func (c *conn) answer() (refused bool, err error) {
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	if refused = bytes.Contains(status, []byte(" 503 ")); !refused && !bytes.Contains(status, []byte(" 200 ")) {
		return false, fmt.Errorf("the status is %.100q", status)
	}
	length, chunked, err := c.head()
	if err != nil {
		return false, err
	}
	c.body = c.body[:0]
	if !chunked {
		return refused, c.take(length)
	}
	return refused, c.chunks()
}

// head reads the headers of an answer.
func (c *conn) head() (length int, chunked bool, err error) {
	length, c.later = -1, false
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch textproto.CanonicalMIMEHeaderKey(string(name)) {
		case "Content-Length":
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, false, err
			}
		case "Transfer-Encoding":
			chunked = true
		case "Retry-After":
			c.later = true
		}
		if len(line) <= 2 {
			return length, chunked, nil
		}
	}
}

// chunks reads a body in chunks.
func (c *conn) chunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.in.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

// take reads n bytes into the body.
func (c *conn) take(n int) error {
	for n > 0 {
		part, err := c.in.Peek(min(n, 4096))
		if err != nil {
			return err
		}
		c.body = append(c.body, part...)
		if _, err := c.in.Discard(len(part)); err != nil {
			return err
		}
		n -= len(part)
	}
	return nil
}

// closed makes n calls as fast as they are answered.
func (l load) closed(conns []*conn, n int, request func(i int) []byte) (time.Duration, error) {
	var next atomic.Int64
	start := time.Now()
	err := each(conns, func(c *conn) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := l.call(c, request(i)); err != nil {
				return err
			}
		}
	})
	return time.Since(start), err
}

// paced makes n calls at a rate, as [pace] does.
func (l load) paced(conns []*conn, n int, perSecond float64, request func(i int) []byte) ([]float64, error) {
	return pace(conns, n, perSecond, func(c *conn, i int) error { return l.call(c, request(i)) })
}

// pace has callers make n calls at a rate, whatever the answers take, and returns the
// latencies in milliseconds. A call that could not begin in time, since those
// before it were not answered, counts from when it should have begun.
func pace[T any](callers []T, n int, perSecond float64, call func(c T, i int) error) ([]float64, error) {
	latencies := make([]float64, n)
	var next atomic.Int64
	start := time.Now()
	err := each(callers, func(c T) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			began := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
			if wait := time.Until(began); wait > 0 {
				time.Sleep(wait) //nolint:forbidigo // this sleep sets the pace
				began = time.Now()
			}
			if err := call(c, i); err != nil {
				return err
			}
			latencies[i] = time.Since(began).Seconds() * 1e3
		}
	})
	return latencies, err
}

func each[T any](callers []T, run func(T) error) error {
	errs := make([]error, len(callers))
	var wg sync.WaitGroup
	for i, c := range callers {
		wg.Go(func() { errs[i] = run(c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
