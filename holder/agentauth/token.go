package agentauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox/token"
)

// Token is an attenuating token for a grant, bound to the agent's key: it can be
// narrowed and passed on offline, with package holder. Not every provider issues
// them: it is an extension of the protocol.
type Token struct {
	ID           string
	Issuer       string // URL of the protected agent that it is presented at
	Grant        string
	Operations   []string // names of capabilities
	Chain        []string // compact JWS, root first
	Expires      time.Time
	RevocationID string
	Principal    string
}

// TokenAsk is what tokens are asked for.
type TokenAsk struct {
	Capabilities []string
	// Arguments are those that calls may have beside the ones that are constrained or
	// required, by capability.
	Arguments map[string][]string
	Lifetime  time.Duration // 0 for as long as it can be
}

// ErrNoTokens says that a provider issues no tokens for grants.
var ErrNoTokens = errors.New("agentauth: the provider issues no tokens for grants")

// Tokens has the provider issue tokens for grants of an agent. One that is not for
// the agent's key is refused.
func (c *Client) Tokens(ctx context.Context, agent string, ask TokenAsk) ([]Token, error) {
	a, err := c.agent(ctx, agent)
	if err != nil {
		return nil, err
	}
	p, err := c.Discover(ctx, a.Issuer)
	if err != nil {
		return nil, err
	}
	if p.Endpoints["issue_token"] == "" {
		return nil, ErrNoTokens
	}
	body := map[string]any{"capabilities": ask.Capabilities}
	if len(ask.Arguments) > 0 {
		body["arguments"] = ask.Arguments
	}
	if ask.Lifetime > 0 {
		body["expires_in"] = int(ask.Lifetime / time.Second)
	}
	answer, err := c.at(ctx, a.Issuer, "issue_token", "", &call{
		method: http.MethodPost, body: body, token: func() (string, error) { return c.agentToken(a, a.Issuer, ask.Capabilities...) },
	})
	if err != nil {
		return nil, err
	}
	var out struct {
		Capabilities []struct {
			ID           string    `json:"id"`
			Grant        string    `json:"grant"`
			Token        string    `json:"token"`
			Operations   []string  `json:"operations"`
			Expires      time.Time `json:"expires"`
			RevocationID string    `json:"revocationId"`
			Principal    string    `json:"principal"`
		} `json:"capabilities"`
	}
	if err := jsonv2.Unmarshal(answer.body, &out); err != nil {
		return nil, fmt.Errorf("agentauth: the provider's answer: %w", err)
	}
	var tokens []Token
	for _, one := range out.Capabilities {
		t := Token{ID: one.ID, Grant: one.Grant, Operations: one.Operations, Chain: []string{one.Token}, Expires: one.Expires, RevocationID: one.RevocationID, Principal: one.Principal}
		u, err := token.ParseChain(t.Chain)
		if err != nil {
			return nil, fmt.Errorf("agentauth: the token for %s: %w", clip(one.ID), err)
		}
		root := u.Describe()[0]
		if root.Holder != a.key.Public().String() {
			return nil, fmt.Errorf("agentauth: the token for %s is bound to another key than the agent's", clip(one.ID))
		}
		t.Issuer = root.Issuer
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// Key returns the key of an agent, to narrow, pass on and present its tokens with.
func (c *Client) Key(ctx context.Context, agent string) (*token.PrivateKey, error) {
	a, err := c.agent(ctx, agent)
	if err != nil {
		return nil, err
	}
	return a.key, nil
}
