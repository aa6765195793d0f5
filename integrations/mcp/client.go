package powerboxmcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// Client puts a capability and its proof on the requests of an MCP client, as the
// HTTP transport of the SDK's StreamableClientTransport. The bytes stay as they
// are.
type Client struct {
	// Holder signs. Required.
	Holder *holder.Client
	// Agent is the server at its issuer. Required.
	Agent holder.Agent
	// Endpoint is where the server is reached. Required; nothing is signed for
	// another URL.
	Endpoint string
	// Wallet is where a capability is looked for that permits the request, and where
	// there is none, any of the server's: it refuses with its reason. Required.
	Wallet *holder.Wallet
	// Methods are operations of the server (grant/operation) that methods beside
	// tools/call need, as it was told ([Config.Methods]). Optional: for a method that is
	// not here any capability of the server is shown.
	Methods map[string]string
	// Base sends the requests. Required.
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readAll(r)
	if err != nil {
		return nil, err
	}
	if r.URL.String() != c.Endpoint {
		return nil, fmt.Errorf("powerbox: the request goes to %s; capabilities are shown to %s alone", r.URL.Redacted(), c.Endpoint)
	}
	operation, arguments := actionMessage, powerbox.Object()
	if r.Method == http.MethodPost {
		m, err := readMessage(body)
		if err != nil {
			return nil, fmt.Errorf("powerbox: the request cannot be signed: %w", err)
		}
		if needed, ok := c.needed(m); ok {
			operation, arguments = needed, m.arguments
		}
	}
	op, err := powerbox.ParseOperation(operation)
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	if r.Body != nil {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	for name := range out.Header {
		if strings.HasPrefix(strings.ToLower(name), "powerbox-") {
			out.Header.Del(name)
		}
	}
	held, ok := c.pick(op, arguments)
	if !ok {
		return c.Base.RoundTrip(out)
	}
	attempt := holder.Attempt{Operation: op, Arguments: arguments, Method: r.Method, URL: c.Agent.Issuer, Digest: token.DigestOf(body)}
	if err := c.Holder.Present(out.Header, c.Agent, held, attempt); err != nil {
		return nil, err
	}
	answer, err := c.Base.RoundTrip(out)
	if err != nil || !c.Holder.SignAgain(r.Context(), answer) {
		return answer, err
	}
	again := out.Clone(r.Context())
	if out.GetBody != nil {
		if again.Body, err = out.GetBody(); err != nil {
			return nil, err
		}
	}
	if err := c.Holder.Present(again.Header, c.Agent, held, attempt); err != nil {
		return nil, err
	}
	return c.Base.RoundTrip(again)
}

// needed is the operation of a tool, or of a method that is ruled; false where it
// is not known.
func (c *Client) needed(m message) (string, bool) {
	if skill, ok := c.Agent.Skills[m.tool]; ok && m.tool != "" {
		return skill.Operation.String(), true
	}
	if name := c.Methods[m.rule]; name != "" {
		for _, skill := range c.Agent.Skills {
			if op := skill.Operation.String(); strings.HasSuffix(op, "/"+name) {
				return op, true
			}
		}
	}
	return "", false
}

// pick chooses the capability to present; false if the client holds none for the server.
func (c *Client) pick(op powerbox.Operation, arguments powerbox.Value) (holder.Capability, bool) {
	now := c.Holder.Now()
	if held, ok := c.Wallet.Pick(c.Agent.Issuer, op, arguments, now); ok && len(held.Chain) > 0 {
		return held, true
	}
	for _, held := range c.Wallet.Of(c.Agent.Issuer, now) {
		if len(held.Chain) > 0 {
			return held, true
		}
	}
	return holder.Capability{}, false
}

func readAll(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("powerbox: the request has more than 4 MiB")
	}
	return body, err
}
