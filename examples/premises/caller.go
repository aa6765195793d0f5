package premises

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/powerbox-project/powerbox/examples/quarterly"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// The members of a request's metadata that carry authority (EXT-5, EXT-8).
const (
	memberToken = "urn:a2a:ext:authorization:v1/capability_token" //nolint:gosec // a name, and no secret
	memberLinks = "urn:a2a:ext:authorization:v1/delegation_chain"
)

// Caller is an agent that calls others: a key of its own, and the session of the
// user that it works for, where it has one.
type Caller struct {
	holder.Client
}

// Caller makes a caller. An empty session is for one that works for other agents.
func (p *Premises) Caller(session string) (*Caller, error) {
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &Caller{holder.Client{Key: key, HTTP: p.HTTP, Now: time.Now, Random: rand.Reader}}
	if session != "" {
		c.Session = func(context.Context, string) (string, error) { return session, nil }
	}
	return c, nil
}

// DID is what the caller is called in scope tokens and links: its key.
func (c *Caller) DID() string { return c.Key.Public().Party().DID() }

// Requester is what the caller is called in the evidence where only its key is
// known. Those of [Setting.Callers] are called by their names.
func (c *Caller) Requester() string { return "key:" + c.Key.Public().Thumbprint() }

// Ask requests a scope token of the agent at a URL.
func (c *Caller) Ask(ctx context.Context, url string, want holder.RequestParams) (holder.Capability, error) {
	agent, err := c.Discover(ctx, url)
	if err != nil {
		return holder.Capability{}, err
	}
	want.ScopeToken = true
	got, err := c.Request(ctx, agent, want)
	if err != nil {
		return holder.Capability{}, err
	}
	return got[0], nil
}

// GiveBack has the issuer revoke what the caller asked for.
func (c *Caller) GiveBack(ctx context.Context, held holder.Capability) error {
	agent, err := c.Discover(ctx, held.Agent)
	if err != nil {
		return err
	}
	return c.Revoke(ctx, agent, held)
}

// Forge signs a link as it comes: nothing here looks at whether what it passes on
// is held. [holder.Client.Link] does, and would refuse.
func (c *Caller) Forge(held holder.Capability, claims token.LinkClaims) (holder.Capability, error) {
	claims.Delegator = c.DID()
	claims.Nonce = rand.Text()
	claims.IssuedAt = cmp.Or(claims.IssuedAt, c.Now().UTC().Truncate(time.Second))
	claims.ExpiresAt = cmp.Or(claims.ExpiresAt, held.Expires)
	link, err := token.SignLink(c.Key, claims)
	if err != nil {
		return holder.Capability{}, err
	}
	held.Links = append(held.Links[:len(held.Links):len(held.Links)], string(link))
	return held, nil
}

// Call asks the agent at a URL for a skill, through a2a-go's own client. The
// caller's capability goes in the request's metadata. The session identifies the
// caller, or a proof of the key alone does.
func (c *Caller) Call(ctx context.Context, url string, held holder.Capability, skill string, args map[string]any) (string, error) {
	agent, err := c.Discover(ctx, url)
	if err != nil {
		return "", err
	}
	card, err := agentcard.NewResolver(c.HTTP).Resolve(ctx, url)
	if err != nil {
		return "", err
	}
	signing := &http.Client{Transport: identifying{c, agent}, Timeout: c.HTTP.Timeout}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(signing), a2aclient.WithCallInterceptors(&under{held: held}))
	if err != nil {
		return "", err
	}
	answer, err := quarterly.Invoke(ctx, client, skill, args)
	return answer.Text, errors.Join(err, client.Destroy())
}

// identifying tells a protected agent who calls.
type identifying struct {
	caller *Caller
	agent  holder.Agent
}

// RoundTrip implements http.RoundTripper.
func (t identifying) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if t.agent.Negotiates {
		if err := t.caller.Identify(r.Context(), out.Header, t.agent, r.Method, t.agent.URL); err != nil {
			return nil, err
		}
	}
	return t.caller.HTTP.Transport.RoundTrip(out)
}

// under puts scope token and links into the metadata of messages.
type under struct {
	a2aclient.PassthroughInterceptor
	held holder.Capability
}

// Before implements a2aclient.CallInterceptor.
func (u *under) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	message, ok := req.Payload.(*a2a.SendMessageRequest)
	if !ok || u.held.ScopeToken == "" {
		return ctx, nil, nil
	}
	message.SetMeta(memberToken, json.RawMessage(u.held.ScopeToken))
	var links []json.RawMessage
	for _, l := range u.held.Links {
		links = append(links, json.RawMessage(l))
	}
	if links != nil {
		message.SetMeta(memberLinks, links)
	}
	return ctx, nil, nil
}

// Received is the authority that came with a request, for the agent that works
// on it: a scope token of someone else, with links that end at the agent's key.
func Received(in Incoming) (holder.Capability, error) {
	text, err := json.Marshal(in.Metadata[memberToken])
	if err != nil {
		return holder.Capability{}, err
	}
	t, err := token.ParseScopeToken(text)
	if err != nil {
		return holder.Capability{}, fmt.Errorf("the request hands over no scope token: %w", err)
	}
	held := holder.Capability{Agent: t.Claims().Issuer, ScopeToken: string(text), Operations: t.Claims().Scopes, Expires: t.Claims().ExpiresAt}
	handed, _ := in.Metadata[memberLinks].([]any)
	for _, l := range handed {
		link, err := json.Marshal(l)
		if err != nil {
			return holder.Capability{}, err
		}
		held.Links = append(held.Links, string(link))
	}
	if last, err := lastLink(held); err == nil {
		held.Operations, held.Expires = last.Scopes, last.ExpiresAt
	} else if len(held.Links) > 0 {
		return holder.Capability{}, err
	}
	return held, nil
}

// lastLink is what the last link of a capability says.
func lastLink(held holder.Capability) (token.LinkClaims, error) {
	if len(held.Links) == 0 {
		return token.LinkClaims{}, errors.New("the capability has no link")
	}
	all, err := token.ParseLinks([]byte("[" + held.Links[len(held.Links)-1] + "]"))
	if err != nil {
		return token.LinkClaims{}, err
	}
	return all[0].Claims(), nil
}

// LinkID is what an operator revokes the last link of a capability by.
func LinkID(held holder.Capability) (string, error) {
	last, err := lastLink(held)
	return token.LinkRevocationID(last.Delegator, last.Delegate, last.Nonce), err
}

// Reason is the stable code of a denial, as a2a-go's client reports it; "" for
// another error, and for none.
func Reason(err error) string {
	var e *a2a.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch metadata := e.ErrorInfo().Value["metadata"].(type) {
	case map[string]any:
		code, _ := metadata["code"].(string)
		return code
	case map[string]string:
		return metadata["code"]
	}
	return ""
}
