package agentauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"

	wire "github.com/powerbox-project/powerbox/internal/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// lifetime is how long a token lives: it is for one request.
const lifetime = wire.MaxLifetime

// claims are what a token says beside its times and id.
type claims struct {
	Issuer   string          `json:"iss"`
	Subject  string          `json:"sub,omitempty"`
	Audience string          `json:"aud"`
	IssuedAt int64           `json:"iat"`
	Expires  int64           `json:"exp"`
	ID       string          `json:"jti"`
	HostKey  json.RawMessage `json:"host_public_key,omitempty"`
	AgentKey json.RawMessage `json:"agent_public_key,omitempty"`
	Only     []string        `json:"capabilities,omitempty"`
}

// sign returns a token of that type, good from now. Every one has an id of its
// own, so that none can pass for another (AAP-CL6, AAP-CL8).
func (c *Client) sign(key *token.PrivateKey, typ string, cl claims) (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(c.Random, id[:]); err != nil {
		return "", fmt.Errorf("agentauth: no randomness for an id: %w", err)
	}
	now := c.Now().Truncate(time.Second)
	cl.ID, cl.IssuedAt, cl.Expires = base64.RawURLEncoding.EncodeToString(id[:]), now.Unix(), now.Add(lifetime).Unix()
	head, err := json.Marshal(map[string]string{"alg": "EdDSA", "typ": typ})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(cl)
	if err != nil {
		return "", err
	}
	input := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	signature, err := key.Sign([]byte(input))
	if err != nil {
		return "", fmt.Errorf("agentauth: %w", err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// hostToken signs as the host, for the provider alone.
func (c *Client) hostToken(host *token.PrivateKey, issuer string, agent *token.PrivateKey) (string, error) {
	cl := claims{Issuer: host.Public().Thumbprint(), Audience: issuer, HostKey: host.Public().JWK().AppendJSON(nil)}
	if agent != nil {
		cl.AgentKey = agent.Public().JWK().AppendJSON(nil)
	}
	return c.sign(host, wire.TypeHost, cl)
}

// agentToken signs as an agent, for one audience; only is what it is good for.
func (c *Client) agentToken(a *signing, audience string, only ...string) (string, error) {
	return c.sign(a.key, wire.TypeAgent, claims{Issuer: a.host.Public().Thumbprint(), Subject: a.ID, Audience: audience, Only: only})
}
