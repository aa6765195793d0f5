package holder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// maxBody bounds the body of a call that is signed.
const maxBody = 16 << 20

// Transport puts a capability and its proof on the calls that any stock A2A
// client makes of one agent over JSON-RPC. The bytes of a call stay as they
// are. It is safe for use by several goroutines.
//
// A call under no chain carries the user's session, where the client has one,
// and nothing else: what that is worth is for the agent to say.
type Transport struct {
	// Base sends the requests. Optional: http.DefaultTransport.
	Base http.RoundTripper
	// Client signs. Required.
	Client *Client
	// Agent is the only one that calls are signed for. Required.
	Agent Agent
	// Capability is presented with every call. Optional: one of Wallet is.
	Capability Capability
	// Wallet is where a capability is looked for that permits the call, and
	// where there is none any for this agent. Optional.
	Wallet *Wallet
}

// RoundTrip implements [http.RoundTripper]. A POST to another URL than that of
// the agent is refused, also after a redirect; other methods pass unsigned.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if r.Method != http.MethodPost || !t.Agent.Negotiates {
		return base.RoundTrip(r)
	}
	signed, err := t.signed(r)
	if err != nil {
		return nil, fmt.Errorf("holder: transport: %w", err)
	}
	answer, err := base.RoundTrip(signed)
	if err != nil || !t.Client.SignAgain(r.Context(), answer) {
		return answer, err
	}
	again := r.Clone(r.Context())
	if again.Body, err = signed.GetBody(); err == nil {
		signed, err = t.signed(again)
	}
	if err != nil {
		return nil, fmt.Errorf("holder: transport: %w", err)
	}
	return base.RoundTrip(signed)
}

// signed returns a request with the same bytes and our headers. The body of r
// is closed, as a RoundTripper must.
func (t *Transport) signed(r *http.Request) (*http.Request, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if t.Client == nil {
		return nil, errors.New("Client is missing")
	}
	if err := t.Client.check(); err != nil {
		return nil, err
	}
	if err := t.forAgent(r); err != nil {
		return nil, err
	}
	p, err := t.proves(r, body)
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.ContentLength = int64(len(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Header.Del(HeaderCapability)
	out.Header.Del(HeaderProof)
	if chain := t.chain(p); chain != nil {
		return out, t.Client.present(out.Header, t.Agent, chain, p, token.Request{
			Method: r.Method, URL: t.Agent.URL, Digest: token.DigestOf(body),
		})
	}
	if r.Header.Get("Authorization") != "" {
		return out, nil // the caller has its own session
	}
	return out, t.Client.authorize(r.Context(), out.Header, t.Agent, r.Method, t.Agent.URL)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, errors.New("the call has no body; want a JSON-RPC request")
	}
	defer func() { _ = r.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the body is larger than %d bytes", maxBody)
	}
	return body, err
}

// forAgent refuses a target that is not the agent's: a redirect must not take
// a proof elsewhere.
func (t *Transport) forAgent(r *http.Request) error {
	u := *r.URL
	u.RawQuery, u.Fragment = "", ""
	if strings.TrimRight(u.String(), "/") != strings.TrimRight(t.Agent.URL, "/") {
		return fmt.Errorf("the call goes to %s; the capability is for %s", u.Redacted(), t.Agent.URL)
	}
	return nil
}

// chain returns the chain to present, nil for none.
func (t *Transport) chain(p proven) []string {
	if t.Capability.Chain != nil || t.Wallet == nil {
		return t.Capability.Chain
	}
	if op, err := powerbox.ParseOperation(p.operation); err == nil {
		if held, ok := t.Wallet.Pick(t.Agent.Issuer, op, p.arguments, t.Client.Now()); ok && held.Chain != nil {
			return held.Chain
		}
	}
	// The agent refuses better than we could: with its reason, on record.
	for _, held := range t.Wallet.Of(t.Agent.Issuer, t.Client.Now()) {
		if held.Chain != nil {
			return held.Chain
		}
	}
	return nil
}

// proves works out what the proof of a call is about: the operation of the
// skill that it names with its arguments, else the reserved operation for what
// it does with a task.
func (t *Transport) proves(r *http.Request, body []byte) (proven, error) {
	version := r.Header.Get("A2A-Version")
	if version == "" {
		version = r.URL.Query().Get("A2A-Version")
	}
	call, decodeError := a2a.Decode(body, a2a.Header{Version: version}, powerbox.Limits{Bytes: maxBody, Depth: 64})
	if decodeError != nil {
		return proven{}, fmt.Errorf("the call cannot be signed: %w", decodeError)
	}
	about, ambiguous := call.Proves(t.Agent.urlSkill(), t.Agent.operationOf)
	if ambiguous != nil {
		return proven{}, fmt.Errorf("the call cannot be signed: %w", ambiguous)
	}
	return proven{about.Operation, about.Arguments}, nil
}

// operationOf is what a skill maps to, "" for nothing.
func (a Agent) operationOf(skill string) string {
	if s, ok := a.Skills[skill]; ok {
		return s.Operation.String()
	}
	return ""
}

// urlSkill returns the skill that the agent's URL stands for, "" for none.
func (a Agent) urlSkill() string {
	skill, ok := strings.CutPrefix(a.URL, strings.TrimRight(a.Issuer, "/")+"/skills/")
	if !ok {
		return ""
	}
	return strings.TrimRight(skill, "/")
}
