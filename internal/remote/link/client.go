package link

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// Client asks the server as an enrolled gateway.
type Client struct {
	Server    string // public base URL, which is the audience of requests
	Key       signed.Key
	Transport http.RoundTripper
	Now       func() time.Time
	// Patience bounds one call further than 2 s; 0 does not.
	Patience time.Duration
}

// callTime bounds one call: someone waits for it.
const callTime = 2 * time.Second

// maxAnswer is the largest answer.
const maxAnswer = 64 << 20

// Sign signs a request with its body.
func (c *Client) Sign(r *http.Request, body []byte) error {
	sum := sha256.Sum256(body)
	compact, err := c.Key.Sign(TypeRequest, Request{
		Audience: c.Server, Method: r.Method, Path: r.URL.RequestURI(), Digest: base64.RawURLEncoding.EncodeToString(sum[:]), Time: c.Now().UnixMilli(),
	})
	r.Header.Set(HeaderGateway, Scheme+compact)
	return err
}

// Authorize signs a request without a body, such as those for the feed.
func (c *Client) Authorize(r *http.Request) error { return c.Sign(r, nil) }

// call asks one question. An answer other than 200 is an error.
func (c *Client) call(ctx context.Context, path string, question, answer any) error {
	within := callTime
	if c.Patience > 0 {
		within = min(within, c.Patience)
	}
	return c.callFor(ctx, within, path, question, answer)
}

// callFor is call with its own time.
func (c *Client) callFor(ctx context.Context, within time.Duration, path string, question, answer any) error {
	body, err := encode(question)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.Server, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if err := c.Sign(r, body); err != nil {
		return err
	}
	return do(c.Transport, r, answer)
}

// encode writes JSON with every character as it stands. A record has one form, in which < is
// <: the server refuses one in which it is escaped, and every record behind it. An answer
// that is within its limit stays so.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	err := to.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// ErrConflict says that the server refuses what does not follow what it has.
var ErrConflict = errors.New("it does not follow what the server has")

func do(transport http.RoundTripper, r *http.Request, answer any) error {
	response, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		_ = json.Unmarshal(data, &problem) // what can be had of the explanation
		err := fmt.Errorf("%s: %s %s", r.URL.Path, response.Status, problem.Detail)
		if response.StatusCode == http.StatusConflict {
			err = fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return err
	}
	return json.Unmarshal(data, answer)
}

// Enroll makes a gateway known to the server whose key the token names, with
// its keys, and returns the server's answer. The token's secret goes to
// no server with an invalid certificate, but the server's key is believed only
// where its fingerprint is that of the token.
func Enroll(ctx context.Context, transport http.RoundTripper, server, fingerprint string, key signed.Key, e Enrolment) (Enrolled, error) {
	e.Key = key.Public()
	compact, err := key.Sign(TypeEnrolment, e)
	if err != nil {
		return Enrolled{}, err
	}
	body, err := json.Marshal(e) //nolint:gosec // the token is what enrols, and goes to the server alone
	if err != nil {
		return Enrolled{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(server, "/")+PathEnroll, bytes.NewReader(body))
	if err != nil {
		return Enrolled{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(HeaderGateway, compact)
	var answer struct {
		Enrolled string `json:"enrolled"`
	}
	if err := do(transport, r, &answer); err != nil {
		return Enrolled{}, err
	}
	return pinned(answer.Enrolled, fingerprint, key.Public())
}

// pinned opens the server's answer under the key that it names itself, which is
// the server's only where the token says so.
func pinned(compact, fingerprint string, own signed.Public) (Enrolled, error) {
	var claimed Enrolled
	parts := strings.Split(compact, ".")
	if len(parts) != 3 {
		return Enrolled{}, errors.New("the server's answer is no statement")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(data, &claimed)
	}
	if err != nil {
		return Enrolled{}, fmt.Errorf("the server's answer: %w", err)
	}
	if claimed.Feed.ID() != fingerprint {
		return Enrolled{}, errors.New("the server has another key than the token says; somebody may stand between, or the token is of another server")
	}
	var out Enrolled
	if _, err := signed.Open(TypeEnrolled, []signed.Public{claimed.Feed}, compact, &out); err != nil {
		return Enrolled{}, err
	}
	if out.Key != own || out.Gateway == "" || out.Agent == "" {
		return Enrolled{}, errors.New("the server's answer is about another gateway")
	}
	return out, nil
}

// Setup asks what the gateway is made of, which the server's pinned key must
// have signed for this gateway just now.
func (c *Client) Setup(ctx context.Context, pin signed.Public, gateway string) (Setup, error) {
	var answer struct {
		Setup string `json:"setup"`
	}
	if err := c.call(ctx, PathSetup, struct{}{}, &answer); err != nil {
		return Setup{}, err
	}
	var s Setup
	if _, err := signed.Open(TypeSetup, []signed.Public{pin}, answer.Setup, &s); err != nil {
		return Setup{}, err
	}
	age := c.Now().Sub(time.UnixMilli(s.Time))
	if s.Gateway != gateway || s.Server != c.Server || age > RequestWindow || age < -RequestWindow {
		return Setup{}, fmt.Errorf("the setup is of gateway %q at %q, %v old; want %q at %q, now", s.Gateway, s.Server, age, gateway, c.Server)
	}
	return s, nil
}

// Send carries records to the server, with the bodies that they commit to by their places.
func (c *Client) Send(ctx context.Context, records [][]byte, bodies map[int]*evidence.Body) (next int64, err error) {
	q := Shipment{Records: make([]json.RawMessage, len(records)), Bodies: bodies}
	for n, r := range records {
		q.Records[n] = r
	}
	var a Shipped
	err = c.call(ctx, PathShip, q, &a)
	return a.Next, err
}

// ChainEnd returns where the gateway's chain ends at the server: the head of a chain
// without records where it has not begun.
func (c *Client) ChainEnd(ctx context.Context) (evidence.Head, error) {
	var a Shipped
	if err := c.call(ctx, PathShip, Shipment{Records: []json.RawMessage{}}, &a); err != nil {
		return evidence.Head{}, err
	}
	if a.Chain == nil || a.Hash == nil {
		return evidence.Head{}, errors.New("the server does not say where the chain ends: bring it to this version")
	}
	return evidence.Head{ChainID: *a.Chain, Sequence: a.Next, Hash: *a.Hash}, nil
}
