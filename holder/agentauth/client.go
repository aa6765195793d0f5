package agentauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// Client acts for one host: the place where agents run. It is safe for use by
// several goroutines, if its fields are.
type Client struct {
	// Store keeps keys and connections. Required.
	Store *Store
	// HTTP makes the requests; redirects are not followed, whatever it says.
	// Without a Timeout: streams last. Required.
	HTTP *http.Client
	// Now is the clock. Required.
	Now func() time.Time
	// Random gives keys and ids. Required.
	Random io.Reader
	// HostName is what providers show people. Optional.
	HostName string
	// Directory is the URL of a directory of providers. Optional.
	Directory string
	// Approve is told what a person must do, before it is waited for. Optional.
	Approve func(agent string, a Approval)
	// Warn is told what a person should know and an agent can continue with. Optional.
	Warn func(message string)

	mu     sync.Mutex
	listed map[question]remembered // answers about capabilities
	proofs *token.PrivateKey       // that tokens of agents are bound to; on no disk
}

func (c *Client) warn(message string) {
	if c.Warn != nil {
		c.Warn(message)
	}
}

// Bounds of one answer and of waiting.
const (
	maxAnswer = 16 << 20
	callTime  = 30 * time.Second // until an answer begins; one that is no stream is whole by then
	maxTries  = 5
	firstWait = time.Second
	maxWait   = time.Minute
)

// call is a request that can be sent several times, each with its own token.
type call struct {
	method, url string
	token       func() (string, error) // nil for none
	body        any                    // nil for none
	safe        bool                   // sending it twice does no harm
	stream      bool                   // an event stream may come
}

// reply is an answer of 2xx.
type reply struct {
	status int
	header http.Header
	body   []byte
	stream io.ReadCloser // instead of body; its end cancels the request
}

// do sends a call until it is answered. Anything that was refused for its rate is sent
// again when the server says, or ever later; what failed otherwise only where that
// does no harm (AAP-CL5).
func (c *Client) do(ctx context.Context, r *call) (*reply, error) {
	if c.Store == nil || c.HTTP == nil || c.Now == nil || c.Random == nil {
		return nil, errors.New("a Client needs Store, HTTP, Now and Random")
	}
	wait := firstWait
	for try := 1; ; try++ {
		a, err := c.once(ctx, r)
		if err == nil {
			return a, nil
		}
		var e *Error
		limited := errors.As(err, &e) && e.Status == http.StatusTooManyRequests
		again := limited || r.safe && unreachable(err)
		if try == maxTries || ctx.Err() != nil || !again {
			return nil, err
		}
		next := wait
		if e != nil && e.RetryAfter > next {
			next = e.RetryAfter
		}
		if next > maxWait {
			return nil, err // for the caller to come back
		}
		if pause(ctx, next) != nil {
			return nil, err
		}
		wait *= 2
	}
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// unreachable reports whether there was no answer, or one of someone in front of the provider.
func unreachable(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout
	}
	var lost *lostError
	return errors.As(err, &lost)
}

// lostError is a request without an answer.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

func (c *Client) once(ctx context.Context, r *call) (*reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(callTime, cancel)
	open := false
	defer func() {
		if !open {
			late.Stop()
			cancel()
		}
	}()
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	h := *c.HTTP
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := h.Do(req)
	if err != nil {
		return nil, &lostError{err}
	}
	if r.stream && resp.StatusCode == http.StatusOK && isStream(resp.Header) {
		late.Stop()
		open = true
		return &reply{status: resp.StatusCode, header: resp.Header, stream: &closer{resp.Body, cancel}}, nil
	}
	defer func() { _ = resp.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, &lostError{err}
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if resp.StatusCode/100 != 2 {
		e := refusal(resp.StatusCode, body)
		e.RetryAfter = c.retryAfter(resp.Header)
		return nil, e
	}
	return &reply{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

func (c *Client) request(ctx context.Context, r *call) (*http.Request, error) {
	var payload io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, payload)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != nil {
		t, err := r.token()
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+t)
		return req, c.prove(req, t)
	}
	return req, nil
}

// retryAfter reads Retry-After, seconds or a date; 0 for none.
func (c *Client) retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(c.Now()))
	}
	return 0
}

// closer ends a request with its answer.
type closer struct {
	io.ReadCloser
	cancel func()
}

func (c *closer) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}
