package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// identity is what a request shows of who sends it.
type identity struct {
	name    string
	headers func(t *town, agent string) [][2]string
	proven  bool // the caller is authenticated
}

func bearer(token string) [2]string { return [2]string{"Authorization", "Bearer " + token} }

// asNamed is the identity of a request that says itself who calls.
const asNamed = "as named"

var identities = []identity{
	{"none", func(*town, string) [][2]string { return nil }, false},
	{"forged token", func(t *town, _ string) [][2]string { return [][2]string{bearer(t.forged)} }, false},
	{"false capability", func(*town, string) [][2]string { return [][2]string{{"Powerbox-Capability", "a.b.c"}} }, false},
	{"authorized", func(t *town, agent string) [][2]string {
		return [][2]string{bearer(t.token), {"Powerbox-Capability", t.capability[agent]}}
	}, true},
	{asNamed, func(*town, string) [][2]string { return nil }, false},
}

// measured is one row of the table.
type measured struct {
	request  *request
	identity identity
	bytes    int // of the request, headers and all
	answer   string
	cpu      time.Duration // of one request
	peak     float64       // MiB above rest of those that are sent at once
	sent     float64       // MiB that are sent at once
}

// message is a request down to the byte, for HTTP/1.1.
func (r *request) message(address string, shown [][2]string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", r.method, r.target, address)
	for _, h := range append(r.header[:len(r.header):len(r.header)], shown...) {
		fmt.Fprintf(&out, "%s: %s\r\n", h[0], h[1])
	}
	if r.chunks == 0 {
		fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n", len(r.body))
		out.Write(r.body)
		return out.Bytes()
	}
	out.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	for rest := r.body; len(rest) > 0; {
		n := min(r.chunks, len(rest))
		fmt.Fprintf(&out, "%x\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	out.WriteString("0\r\n\r\n")
	return out.Bytes()
}

// sender sends one request as often as it is told.
type sender struct {
	bytes int
	once  func(ctx context.Context) (string, error)
}

func (t *town) sender(r *request, who identity) sender {
	shown := who.headers(t, r.agent)
	if r.grpc {
		return t.overGRPC(r, shown)
	}
	raw := r.message(t.listen, shown)
	return sender{len(raw), func(ctx context.Context) (string, error) { return exchange(ctx, t.listen, raw) }}
}

// callTime is how long one request may take.
const callTime = 30 * time.Second

// exchange sends bytes on their own connection. A server that refuses a request may
// answer before it has read it and stop reading.
func exchange(ctx context.Context, address string, raw []byte) (string, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(callTime)); err != nil {
		return "", err
	}
	wrote := make(chan struct{})
	go func() {
		_, _ = c.Write(raw) // the answer says what became of it
		close(wrote)
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		if errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return "connection closed", nil
		}
		return "", err
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // one that is cut says enough
	_ = res.Body.Close()
	_ = c.Close()
	<-wrote
	return said(res, body), nil
}

func (t *town) overGRPC(r *request, shown [][2]string) sender {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: callTime}
	size := len(r.body)
	header := http.Header{}
	for _, h := range append(r.header[:len(r.header):len(r.header)], shown...) {
		header.Add(h[0], h[1])
		size += len(h[0]) + len(h[1]) + 4
	}
	return sender{size, func(ctx context.Context) (string, error) {
		defer client.CloseIdleConnections()
		out, err := http.NewRequestWithContext(ctx, r.method, "http://"+t.grpc+r.target, bytes.NewReader(r.body))
		if err != nil {
			return "", err
		}
		out.Header = header.Clone()
		res, err := client.Do(out)
		if err != nil {
			return "connection closed", nil //nolint:nilerr // an answer like any other
		}
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // one that is cut says enough
		_ = res.Body.Close()
		return said(res, body), nil
	}}
}

var reasonOf = regexp.MustCompile(`"reason":\s*"([A-Za-z_]+)"`)

// said is the status of an answer and its reason.
func said(res *http.Response, body []byte) string {
	status := strconv.Itoa(res.StatusCode)
	for _, h := range []http.Header{res.Header, res.Trailer} {
		if s := h.Get("Grpc-Status"); s != "" {
			status += ", gRPC " + s
		}
	}
	if found := reasonOf.FindSubmatch(body); found != nil {
		return status + " " + string(found[1])
	}
	if reason := res.Header.Get("Powerbox-Reason"); reason != "" {
		return status + " " + reason
	}
	if res.Header.Get("Powerbox-Outcome") == "forwarded" {
		return status + " forwarded"
	}
	return status
}

// settles is the time in which the program ends what an answer left to do.
const settles = 30 * time.Millisecond

// measure sends one request as one identity.
func (t *town) measure(ctx context.Context, r *request, who identity) (m measured, err error) {
	s := t.sender(r, who)
	m = measured{request: r, identity: who, bytes: s.bytes}
	if err := t.memory(ctx, s, &m); err != nil {
		return m, err
	}
	const enough, most = 100 * time.Millisecond, 50
	before, err := t.program.CPU()
	if err != nil {
		return m, err
	}
	var used time.Duration
	n := 0
	for n < most && (n < 3 || used < enough) {
		if m.answer, err = s.once(ctx); err != nil {
			return m, err
		}
		n++
		if used, err = t.program.CPU(); err != nil {
			return m, err
		}
		used -= before
	}
	time.Sleep(settles) //nolint:forbidigo // the measured work continues for a moment
	after, err := t.program.CPU()
	m.cpu = (after - before) / time.Duration(n)
	return m, err
}

// memory sends as many requests at once as make a MiB, and reads how much the program
// had at the most.
func (t *town) memory(ctx context.Context, s sender, m *measured) error {
	rest, err := t.program.Memory("VmRSS")
	if err != nil {
		return err
	}
	if err := t.program.ForgetPeak(); err != nil {
		return err
	}
	n := min(max(1, (1<<20)/s.bytes), 64)
	failed := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { _, failed[i] = s.once(ctx) })
	}
	all.Wait()
	peak, err := t.program.Memory("VmHWM")
	m.peak, m.sent = peak-rest, float64(n*s.bytes)/(1<<20)
	return errors.Join(append(failed, err)...)
}
