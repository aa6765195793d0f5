package holder

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// ExtensionURI names the capability negotiation extension on cards, in
// A2A-Extensions and in request metadata (SEP-24).
const ExtensionURI = a2a.ExtensionURI

// The headers that carry a capability and its proof.
const (
	HeaderCapability = "Powerbox-Capability"
	HeaderProof      = "Powerbox-Proof"
)

// maxAnswer bounds the bytes that are read of one answer.
const maxAnswer = 16 << 20

// Client acts for one holder. It is safe for use by several goroutines, if its
// fields are.
type Client struct {
	// Key is the holder's. Required, except with ByReference.
	Key *token.PrivateKey
	// ByReference says that the holder has no key: the agent knows it by the client of
	// its session, or by its certificate, and it holds capabilities by reference. Every
	// call then carries the session.
	ByReference bool
	// Session returns the access token of the user behind the task for an
	// audience, which is the public URL of an agent, or "" for no session.
	// Optional. Without a session nothing can be requested.
	Session func(ctx context.Context, audience string) (string, error)
	// Asked makes calls wait that a person has to approve. It is called once for each, with
	// the page on which the person answers. The call then returns the agent's answer.
	// The context of the call bounds the wait. Optional. Without it a call of A2A has a task
	// ([Waiting]), and a call of a tool is denied before a person is asked.
	Asked func(*Pending)
	// HTTP makes the requests. Required.
	HTTP *http.Client
	// Now is the clock. Required.
	Now func() time.Time
	// Random gives unguessable ids. Required.
	Random io.Reader
}

// check refuses a client that lacks something.
func (c *Client) check() error {
	if c.Key == nil || c.HTTP == nil || c.Now == nil || c.Random == nil {
		return errors.New("holder: a Client needs Key, HTTP, Now and Random")
	}
	return nil
}

// reaches refuses a client that lacks what a call without a signature needs.
func (c *Client) reaches() error {
	if c.ByReference && c.Key == nil && c.HTTP != nil && c.Now != nil && c.Random != nil {
		return nil
	}
	return c.check()
}

// newID returns 128 random bits as text.
func (c *Client) newID() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(c.Random, b[:]); err != nil {
		return "", fmt.Errorf("holder: no randomness for an id: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// authorize adds the user's access token with a proof that the holder sends it
// (RFC 9449). Without a session it adds nothing.
func (c *Client) authorize(ctx context.Context, h http.Header, agent Agent, method, target string) error {
	if c.Session == nil {
		return nil
	}
	access, err := c.Session(ctx, agent.Issuer)
	if err != nil {
		return fmt.Errorf("holder: session for %s: %w", agent.Issuer, err)
	}
	if access == "" {
		return nil
	}
	if c.Key == nil {
		h.Set("Authorization", "Bearer "+access)
		return nil
	}
	id, err := c.newID()
	if err != nil {
		return err
	}
	proof, err := token.SignDPoP(c.Key, token.DPoPRequest{Method: method, URL: target, AccessToken: access, Now: c.Now()}, id)
	if err != nil {
		return err
	}
	h.Set("Authorization", "DPoP "+access)
	h.Set("DPoP", proof)
	return nil
}

// present adds a chain and the proof for one call of the agent.
func (c *Client) present(h http.Header, agent Agent, chain []string, p proven, request token.Request) error {
	if err := c.check(); err != nil {
		return err
	}
	verified, err := trusted(chain, c.Now())
	if err != nil {
		return err
	}
	id, err := c.newID()
	if err != nil {
		return err
	}
	proof, err := verified.SignProof(c.Key, token.Proof{
		ID: id, IssuedAt: c.Now(), Operation: p.operation, Arguments: p.arguments,
		Audience: agent.Issuer, Request: &request,
	})
	if err != nil {
		return err
	}
	h.Set(HeaderCapability, token.JoinChain(chain))
	h.Set(HeaderProof, proof)
	return nil
}

// trusted reads a chain for its holder, who takes the issuer's word for it.
// Its claims only decide which token is presented.
func trusted(chain []string, now time.Time) (token.Verified, error) {
	u, err := token.ParseChain(chain)
	if err != nil {
		return token.Verified{}, err
	}
	return u.UnsafeTrustRoot(token.Options{Now: now, Revoked: token.UnsafeNothingRevoked})
}

// proven is what a proof is about.
type proven struct {
	operation string
	arguments powerbox.Value
}

// call makes one JSON-RPC call and returns its result. Headers are added by
// present, which gets the body that is sent.
func (c *Client) call(ctx context.Context, agent Agent, method string, params powerbox.Value, present func(http.Header, []byte) error) (json.RawMessage, error) {
	if err := c.reaches(); err != nil {
		return nil, err
	}
	if !agent.Negotiates {
		return nil, fmt.Errorf("holder: %s does not negotiate capabilities; its card has no %s", agent.Base, ExtensionURI)
	}
	id, err := c.newID()
	if err != nil {
		return nil, err
	}
	body := powerbox.Object(
		text("jsonrpc", "2.0"), text("id", id), text("method", method), powerbox.Member{Name: "params", Value: params},
	).AppendJSON(nil)
	response, err := c.post(ctx, agent, method, body, present)
	if err != nil {
		return nil, err
	}
	result, err := readAnswer(response)
	if err != nil {
		return nil, fmt.Errorf("holder: %s at %s: %w", method, agent.URL, err)
	}
	return result, nil
}

// post sends one call with what present puts on it.
func (c *Client) post(ctx context.Context, agent Agent, method string, body []byte, present func(http.Header, []byte) error) (*http.Response, error) {
	return c.sent(ctx, func() (*http.Response, error) { return c.postOnce(ctx, agent, method, body, present) })
}

func (c *Client) postOnce(ctx context.Context, agent Agent, method string, body []byte, present func(http.Header, []byte) error) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, agent.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("A2A-Version", a2a.Version1)
	request.Header.Set("A2A-Extensions", ExtensionURI)
	if err := present(request.Header, body); err != nil {
		return nil, err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("holder: %s: %w", method, err)
	}
	return response, nil
}

// withSession makes a call of the extension as the user behind the task.
func (c *Client) withSession(ctx context.Context, agent Agent, method string, params powerbox.Value) (json.RawMessage, error) {
	return c.call(ctx, agent, method, params, func(h http.Header, _ []byte) error {
		if err := c.authorize(ctx, h, agent, http.MethodPost, agent.URL); err != nil {
			return err
		}
		if h.Get("Authorization") == "" {
			return fmt.Errorf("holder: %s needs the user's session, and there is none for %s", method, agent.Issuer)
		}
		return nil
	})
}

// withKey makes a call of the extension as the holder of the key, for whatever
// user the capabilities are.
func (c *Client) withKey(ctx context.Context, agent Agent, method string, params powerbox.Value) (json.RawMessage, error) {
	return c.call(ctx, agent, method, params, func(h http.Header, _ []byte) error {
		return c.proveKey(h, http.MethodPost, agent.URL)
	})
}

// readAnswer returns the result of a JSON-RPC response, or its error.
func readAnswer(response *http.Response) (json.RawMessage, error) {
	result, wrong, err := readEither(response)
	if wrong != nil {
		return nil, wrong.err()
	}
	return result, err
}

// readEither returns the result of a JSON-RPC response, or its error as it was written.
func readEither(response *http.Response) (json.RawMessage, *wireError, error) {
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, err
	}
	if len(body) > maxAnswer {
		return nil, nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *wireError      `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, fmt.Errorf("the answer is no JSON-RPC response; HTTP status %s", response.Status)
	}
	switch {
	case answer.Error != nil:
		return nil, answer.Error, nil
	case answer.Result == nil:
		return nil, nil, fmt.Errorf("the answer has neither result nor error; HTTP status %s", response.Status)
	}
	return answer.Result, nil, nil
}

func text(name, value string) powerbox.Member {
	return powerbox.Member{Name: name, Value: powerbox.String(value)}
}

// optional returns ms with one more member where value is not empty.
func optional(ms []powerbox.Member, name, value string) []powerbox.Member {
	if value == "" {
		return ms
	}
	return append(ms, text(name, value))
}

func texts(values []string) powerbox.Value {
	list := make([]powerbox.Value, len(values))
	for i, v := range values {
		list[i] = powerbox.String(v)
	}
	return powerbox.List(list...)
}
