// Package backend calls the services behind the capabilities of an Agent Auth provider: HTTP
// services, operations of an OpenAPI document, tools of MCP servers, and skills of A2A agents.
// It makes a call after the call was allowed and recorded. The service learns who calls from a
// signed context (docs/how-to/verify-context.md), and needs to know nothing of Agent Auth.
package backend

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// HTTP calls services over HTTP. A service answers with JSON, with a stream of events, or with
// 202 and a status_url if the work continues.
type HTTP struct {
	Client *http.Client
	// URLs has the address of each capability, by name.
	URLs map[string]string
	// Context signs who calls, for the bytes of a request's body.
	Context func(e provider.Execution, body []byte) (string, error)
	Limit   int64         // of an answer, in bytes
	Time    time.Duration // until an answer begins, and until one that is no stream ends
}

// contextHeader carries the signed context.
const contextHeader = "Powerbox-Context"

// maxNodes is how many values an answer may hold. Services are the operator's own
// and answer with tables: more than callers may send.
const maxNodes = 1 << 20

// Execute implements [provider.Backend].
func (h HTTP) Execute(ctx context.Context, e provider.Execution) (provider.Result, error) {
	to, ok := h.URLs[e.Capability.Name]
	if !ok {
		return provider.Result{}, fmt.Errorf("backend: capability %q has no address", e.Capability.Name)
	}
	body := powerbox.Object(
		powerbox.Member{Name: "capability", Value: powerbox.String(e.Capability.Name)},
		powerbox.Member{Name: "arguments", Value: e.Arguments}).AppendJSON(nil)
	return h.call(ctx, http.MethodPost, to, e, body)
}

// Poll implements [provider.Backend]. The address is one that the service named
// itself, and must be on it.
func (h HTTP) Poll(ctx context.Context, e provider.Execution, status string) (provider.Result, error) {
	if err := sameOrigin(h.URLs[e.Capability.Name], status); err != nil {
		return provider.Result{}, err
	}
	return h.call(ctx, http.MethodGet, status, e, nil)
}

func sameOrigin(base, other string) error {
	a, errA := url.Parse(base)
	b, errB := url.Parse(other)
	if errA != nil || errB != nil || a.Scheme != b.Scheme || a.Host != b.Host || b.User != nil {
		return errors.New("backend: a status_url that is not on the service itself")
	}
	return nil
}

func (h HTTP) call(ctx context.Context, method, to string, e provider.Execution, body []byte) (provider.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(h.Time, cancel)
	req, err := h.request(ctx, method, to, e, body)
	if err != nil {
		cancel()
		return provider.Result{}, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := h.Client.Do(req)
	if err != nil {
		cancel()
		return provider.Result{}, fmt.Errorf("backend: %w", err)
	}
	if isStream(resp) {
		late.Stop()
		return provider.Result{Stream: newStream(resp.Body, cancel, h.Limit)}, nil
	}
	defer cancel()
	defer func() { _ = resp.Body.Close() }() // read to its end, or useless
	return h.answer(resp, to)
}

// isStream reports whether a service answers with a stream of events.
func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/event-stream" && resp.StatusCode == http.StatusOK
}

// request is a request to a service, with the signed context for its very bytes.
func (h HTTP) request(ctx context.Context, method, to string, e provider.Execution, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, h.sign(req.Header, e, body)
}

// sign puts who calls into the header of a request with that body.
func (h HTTP) sign(header http.Header, e provider.Execution, body []byte) error {
	signed, err := h.Context(e, body)
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	header.Set(contextHeader, signed)
	header.Set("Powerbox-Decision", e.Decision)
	return nil
}

// read reads an answer within the limit.
func (h HTTP) read(resp *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, h.Limit+1))
	if err != nil || int64(len(data)) > h.Limit {
		return nil, errors.Join(fmt.Errorf("backend: an answer that cannot be read, or has more than %d bytes", h.Limit), err)
	}
	return data, nil
}

// bearer adds the token of a service to the header if there is one.
func bearer(header http.Header, token string) {
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
}

// answer reads an answer that is no stream.
func (h HTTP) answer(resp *http.Response, to string) (provider.Result, error) {
	data, err := h.read(resp)
	if err != nil {
		return provider.Result{}, err
	}
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data), Depth: 64, Nodes: maxNodes})
	if resp.StatusCode >= http.StatusBadRequest {
		return provider.Result{Failed: failed(resp.StatusCode, v)}, nil
	}
	if err != nil {
		return provider.Result{}, fmt.Errorf("backend: an answer that is no JSON: %w", err)
	}
	retry, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	status, _ := text(v, "status")
	next, named := text(v, "status_url")
	switch {
	case resp.StatusCode == http.StatusAccepted && named:
		return provider.Result{Job: next, Retry: retry}, sameOrigin(to, next)
	case resp.StatusCode == http.StatusAccepted, status == "pending" && !named && only(v, "status"):
		return provider.Result{Job: to, Retry: retry}, nil
	case status == "failed":
		e, _ := v.Get("error")
		return provider.Result{Failed: failed(http.StatusInternalServerError, e)}, nil
	case status == "completed" && has(v, "result"):
		r, _ := v.Get("result")
		return provider.Result{Data: r, HasData: true}, nil
	case only(v, "data"):
		r, _ := v.Get("data")
		return provider.Result{Data: r, HasData: true}, nil
	}
	return provider.Result{Data: v, HasData: true}, nil
}

// failed reads a service's refusal. A service may use the codes about a request, and no code
// about authority.
func failed(status int, v powerbox.Value) *agentauth.Error {
	code, _ := text(v, "error")
	message, ok := text(v, "message")
	if !ok {
		message = "the capability's service answered with status " + strconv.Itoa(status)
	}
	its := []agentauth.Code{agentauth.CodeInvalidRequest, agentauth.CodeLimit, agentauth.CodeRateLimited}
	if c := agentauth.Code(code); slices.Contains(its, c) {
		return agentauth.Errorf(c, "%s", message)
	}
	if status < http.StatusInternalServerError {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", message)
	}
	return agentauth.Errorf(agentauth.CodeInternal, "%s", message)
}

func text(v powerbox.Value, name string) (string, bool) {
	m, _ := v.Get(name)
	return m.Text()
}

func has(v powerbox.Value, name string) bool { _, ok := v.Get(name); return ok }

// only reports whether v is an object with that one member.
func only(v powerbox.Value, name string) bool {
	ms, ok := v.Members()
	return ok && len(ms) == 1 && ms[0].Name == name
}

// stream reads events. Each is read and written anew: bytes of a service are never
// spliced into our own stream (ATK-33).
type stream struct {
	body   io.ReadCloser
	cancel func()
	lines  *bufio.Scanner
	limit  int64
}

func newStream(body io.ReadCloser, cancel func(), limit int64) *stream {
	s := &stream{body: body, cancel: cancel, lines: bufio.NewScanner(body), limit: limit}
	s.lines.Buffer(make([]byte, 0, 4<<10), int(limit))
	return s
}

// Next implements [provider.Stream].
func (s *stream) Next() (string, []byte, error) {
	name, data := "data", ""
	some := false
	for s.lines.Scan() {
		line := strings.TrimSuffix(s.lines.Text(), "\r")
		if line == "" {
			if some {
				return s.event(name, data)
			}
			name = "data"
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
			some = some || value == "done"
		case "data":
			if some = true; data != "" {
				data += "\n"
			}
			if data += value; int64(len(data)) > s.limit {
				return "", nil, fmt.Errorf("backend: an event of more than %d bytes", s.limit)
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return "", nil, fmt.Errorf("backend: %w", err)
	}
	return "", nil, io.EOF
}

// event is one event in the protocol's terms. Anything that is no JSON is a text.
func (s *stream) event(name, data string) (string, []byte, error) {
	switch name {
	case "data", "error", "done":
	default:
		name = "data"
	}
	if data == "" {
		return name, nil, nil
	}
	v, err := powerbox.ParseValue([]byte(data))
	if err != nil {
		v = powerbox.String(strings.ToValidUTF8(data, "\uFFFD"))
	}
	return name, v.AppendJSON(nil), nil
}

// Close implements [provider.Stream].
func (s *stream) Close() error {
	s.cancel()
	return s.body.Close()
}
