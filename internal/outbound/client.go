package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/powerbox-project/powerbox/internal/hop"
)

const (
	idleConnections    = 256 // per host, so that a busy upstream is not redialled
	idleTimeout        = 90 * time.Second
	handshakeTimeout   = 10 * time.Second
	maximumHeaderBytes = 64 << 10
	pingAfter          = 30 * time.Second // in which nothing came
	pingTimeout        = 15 * time.Second
	// unreadBytes is how much of one answer over HTTP/2 is taken in before the one it is
	// for reads it: the connection is everybody's, and does not wait as one of HTTP/1.1.
	unreadBytes = 256 << 10
)

// Client calls out under a [Policy]. It is safe for concurrent use.
type Client struct {
	policy    Policy
	encrypted *http.Client
	plain     *http.Client
	upstream  *http.Transport
	fresh     *http.Transport
	http2     *http.Transport
}

// New returns a client that keeps to the policy.
func New(p Policy) *Client {
	if p.Dial <= 0 {
		p.Dial = defaultDial
	}
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	if p.MaxBytes <= 0 {
		p.MaxBytes = defaultMaxBytes
	}
	http2 := p.transport(false)
	http2.Protocols = new(http.Protocols)
	http2.Protocols.SetHTTP2(true)
	http2.Protocols.SetUnencryptedHTTP2(true)
	http2.HTTP2 = shared()
	fresh := p.upstream()
	fresh.DisableKeepAlives = true
	return &Client{
		policy:    p,
		encrypted: bounded(p.transport(false), p.Timeout),
		plain:     bounded(p.transport(true), p.Timeout),
		upstream:  p.upstream(),
		fresh:     fresh,
		http2:     http2,
	}
}

// upstream is a transport to configured upstreams.
func (p Policy) upstream() *http.Transport {
	t := p.transport(false)
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return hop.Watch(c), nil
	}
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = shared()
	return t
}

// shared has a connection of HTTP/2 end that nothing comes from any more: all calls are on
// it, and none would notice. Who does not read an answer keeps no more of it here than
// [unreadBytes], and does not delay other answers (ATK-55).
func shared() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, MaxReceiveBufferPerStream: unreadBytes}
}

func bounded(t *http.Transport, timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: t,
		Timeout:   timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

func (p Policy) transport(namedOnly bool) *http.Transport {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.TLS != nil {
		settings = p.TLS.Clone()
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		// Proxy stays nil: a proxy would resolve and dial in our place.
		DialContext:            p.dialer(namedOnly).DialContext,
		Protocols:              protocols,
		TLSClientConfig:        settings,
		TLSHandshakeTimeout:    handshakeTimeout,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maximumHeaderBytes,
	}
}

// Transport returns the transport for a reverse proxy to configured upstreams:
// addresses as the policy has them, plain HTTP included, no compression, no bound on the
// time of an answer, since streams are long. It speaks HTTP/1.1, and over TLS HTTP/2
// where the upstream does, in which every answer names its request (ATK-31).
func (c *Client) Transport() *http.Transport { return c.upstream }

// Fresh returns a transport as [Client.Transport] with a connection for every request.
func (c *Client) Fresh() *http.Transport { return c.fresh }

// HTTP2 returns the transport for gRPC to configured upstreams: as [Client.Transport],
// but HTTP/2, which is spoken without TLS where the URL says http.
func (c *Client) HTTP2() *http.Transport { return c.http2 }

// Get returns the body and header of the answer to one GET that is 200 and not
// larger than the policy allows. Accept is sent as the Accept header. Errors
// name the address without user, query and fragment, where secrets may stand;
// a refused address is [ErrAddress].
func (c *Client) Get(ctx context.Context, address, accept string) ([]byte, http.Header, error) {
	u, err := parse(address)
	if err != nil {
		return nil, nil, err
	}
	body, header, _, err := c.get(ctx, u, accept, "")
	if err != nil {
		return nil, nil, fmt.Errorf("GET %s: %w", redacted(u), err)
	}
	return body, header, nil
}

// GetChanged is [Client.Get] for anyone who has the answer already under an entity
// tag: changed is false, and body nil, where the server says that it is still the
// same (304). An empty tag is none (CARD-16).
func (c *Client) GetChanged(ctx context.Context, address, accept, tag string) (body []byte, header http.Header, changed bool, err error) {
	u, err := parse(address)
	if err != nil {
		return nil, nil, false, err
	}
	body, header, status, err := c.get(ctx, u, accept, tag)
	if err != nil {
		return nil, nil, false, fmt.Errorf("GET %s: %w", redacted(u), err)
	}
	if status == http.StatusNotModified {
		return nil, header, false, nil
	}
	return body, header, true, nil
}

// Post sends a body and returns status and body of the answer, whatever the status
// is. Addresses, sizes and errors are as with [Client.Get].
func (c *Client) Post(ctx context.Context, address, contentType string, body []byte) (status int, answer []byte, err error) {
	u, err := parse(address)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err == nil {
		request.Header.Set("Content-Type", contentType)
		status, answer, _, err = c.do(request, func(int) error { return nil })
	}
	if err != nil {
		return 0, nil, fmt.Errorf("POST %s: %w", redacted(u), err)
	}
	return status, answer, nil
}

// maxTaken is how much of an unused answer is read, so that its
// connection can be used again.
const maxTaken = 64 << 10

// Deliver posts a body with headers and returns the status of the answer, of which
// nothing else is kept. Addresses and errors are as with [Client.Get].
func (c *Client) Deliver(ctx context.Context, address string, header http.Header, body []byte) (status int, err error) {
	u, err := parse(address)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("POST %s: %w", redacted(u), cause(err))
	}
	request.Header = header
	client := c.encrypted
	if u.Scheme == "http" {
		client = c.plain
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("POST %s: %w", redacted(u), cause(err))
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxTaken) // the contents do not matter
	return response.StatusCode, nil
}

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("address is not a URL; want https://host/path")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.Opaque != "":
		return nil, fmt.Errorf("address %q is not an absolute http or https URL; want https://host/path", redacted(u))
	case u.User != nil:
		return nil, fmt.Errorf("address %q carries a user name; want none in a URL", redacted(u))
	}
	return u, nil
}

func redacted(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func (c *Client) get(ctx context.Context, u *url.URL, accept, tag string) ([]byte, http.Header, int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, 0, err
	}
	request.Header.Set("Accept", accept)
	if c.policy.Bearer != "" {
		request.Header.Set("Authorization", "Bearer "+c.policy.Bearer)
	}
	check := checkStatus
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
		check = func(code int) error {
			if code == http.StatusNotModified {
				return nil
			}
			return checkStatus(code)
		}
	}
	status, body, header, err := c.do(request, check)
	return body, header, status, err
}

// do makes one call and, where the status will do, reads the answer, which is not
// larger than the policy allows.
func (c *Client) do(request *http.Request, check func(status int) error) (status int, body []byte, header http.Header, err error) {
	client := c.encrypted
	if request.URL.Scheme == "http" && c.policy.TLS != nil {
		return 0, nil, nil, errors.New("the address has no TLS, which is configured for it; want https")
	}
	if request.URL.Scheme == "http" {
		client = c.plain
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, nil, cause(err)
	}
	defer response.Body.Close()
	if err := check(response.StatusCode); err != nil {
		return 0, nil, nil, err
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, c.policy.MaxBytes+1))
	if err != nil {
		return 0, nil, nil, cause(err)
	}
	if int64(len(body)) > c.policy.MaxBytes {
		return 0, nil, nil, fmt.Errorf("the answer is larger than %d bytes", c.policy.MaxBytes)
	}
	return response.StatusCode, body, response.Header, nil
}

// cause drops the URL that net/http puts around its errors, query and all.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func checkStatus(code int) error {
	switch {
	case code == http.StatusOK:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("the answer is a redirect (%d), which is not followed; configure the final address", code)
	}
	return fmt.Errorf("the answer is %d; want 200", code)
}
