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
	"strconv"
	"strings"
	"time"
)

// request is one case: the exact bytes to send, with placeholders for the values
// that change with every run.
type request struct {
	Binding string      `json:"binding"`
	Family  string      `json:"family"`
	Seed    string      `json:"seed"` // the file of the corpus that it was made of
	Number  int         `json:"number"`
	Narrow  bool        `json:"narrow"` // goes to the agent at which little is allowed
	Method  string      `json:"method"`
	Target  string      `json:"target"`
	Header  [][2]string `json:"header"`
	Body    []byte      `json:"body"` // of gRPC: with its frame
}

// agentOf is the agent of a binding.
func agentOf(binding string) string {
	kind, sdk, _ := strings.Cut(binding, "/")
	if kind == "mcp" {
		return "mcp" + sdk
	}
	return sdk
}

// agent is the id that the gateway has for the agent.
func (r *request) agent() string {
	if r.Narrow {
		return agentOf(r.Binding) + narrow
	}
	return agentOf(r.Binding)
}

func (r *request) grpc() bool { return strings.HasPrefix(r.Binding, "grpc/") }

// callTime is how long one call may take. It is long, since a busy machine must not look
// like a difference.
const callTime = 2 * time.Minute

// fill puts what the run has instead of placeholders.
func (t *town) fill(r *request) *strings.Replacer {
	var pairs []string
	for placeholder, id := range t.real[agentOf(r.Binding)] {
		pairs = append(pairs, placeholder, id)
	}
	pairs = append(pairs, caseNumber, fmt.Sprintf("message-%010d", r.Number), "$MAIN", t.callers[mainCaller])
	return strings.NewReplacer(pairs...)
}

// answer is what came back.
type answer struct {
	status    int
	decision  string // id of the record, "" for none
	forwarded bool
	body      []byte
}

// sender has one connection to every address that it sends to.
type sender struct {
	town  *town
	conns map[string]*conn
	h2    *http.Client
}

type conn struct {
	net.Conn
	in *bufio.Reader
}

func newSender(t *town) *sender {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &sender{t, map[string]*conn{}, &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: callTime}}
}

func (s *sender) close() {
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.h2.CloseIdleConnections()
}

// send makes the call.
func (s *sender) send(ctx context.Context, r *request) (answer, error) {
	fill := s.town.fill(r)
	if r.grpc() {
		return s.sendGRPC(ctx, r, fill)
	}
	address := strings.TrimPrefix(s.town.url, "http://")
	body := []byte(fill.Replace(string(r.Body)))
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, fill.Replace(r.Target), address)
	for _, h := range r.Header {
		fmt.Fprintf(&out, "%s: %s\r\n", h[0], fill.Replace(h[1]))
	}
	fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n", len(body))
	out.Write(body)
	fresh := s.conns[address] == nil
	a, err := s.exchange(ctx, address, r.Method, out.Bytes())
	if slow := net.Error(nil); err != nil && !fresh && (!errors.As(err, &slow) || !slow.Timeout()) { // the server may have closed the connection after the answer before
		a, err = s.exchange(ctx, address, r.Method, out.Bytes())
	}
	return a, err
}

func (s *sender) exchange(ctx context.Context, address, method string, raw []byte) (a answer, err error) {
	c := s.conns[address]
	if c == nil {
		dialed, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return a, err
		}
		c = &conn{dialed, bufio.NewReader(dialed)}
		s.conns[address] = c
	}
	defer func() {
		if err != nil {
			_ = c.Close()
			delete(s.conns, address)
		}
	}()
	if err := c.SetDeadline(time.Now().Add(callTime)); err != nil {
		return a, err
	}
	if _, err := c.Write(raw); err != nil {
		return a, err
	}
	res, err := http.ReadResponse(c.in, &http.Request{Method: method}) //nolint:bodyclose // read takes it whole
	if err != nil {
		return a, err
	}
	for err == nil && res.StatusCode < http.StatusOK && res.StatusCode != http.StatusSwitchingProtocols { // the answer itself is yet to come
		res, err = http.ReadResponse(c.in, &http.Request{Method: method}) //nolint:bodyclose // as above
	}
	if err != nil {
		return a, err
	}
	if a, err = read(res); err == nil && res.Close {
		err = c.Close()
		delete(s.conns, address)
	}
	return a, err
}

func read(res *http.Response) (answer, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	err = errors.Join(err, res.Body.Close())
	decision := res.Header.Get("Powerbox-Decision")
	return answer{res.StatusCode, decision, res.Header.Get("Powerbox-Outcome") == "forwarded", body}, err
}

func (s *sender) sendGRPC(ctx context.Context, r *request, fill *strings.Replacer) (answer, error) {
	out, err := http.NewRequestWithContext(ctx, r.Method, "http://"+s.town.grpc[r.agent()]+r.Target, strings.NewReader(fill.Replace(string(r.Body))))
	if err != nil {
		return answer{}, err
	}
	for _, h := range r.Header {
		out.Header[http.CanonicalHeaderKey(h[0])] = append(out.Header[http.CanonicalHeaderKey(h[0])], fill.Replace(h[1]))
	}
	res, err := s.h2.Do(out) //nolint:bodyclose // read takes it whole
	if err != nil {
		return answer{}, err
	}
	a, err := read(res)
	if err == nil && res.Trailer.Get("Grpc-Status") != "" {
		a.status, err = strconv.Atoi(res.Trailer.Get("Grpc-Status"))
	}
	return a, err
}
