package agentauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
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
	Bound    *bound          `json:"cnf,omitempty"`
}

// sign returns a token of that type, good from now. Every one has an id of its
// own, so that none can pass for another (AAP-CL6, AAP-CL8).
func (c *Client) sign(key *token.PrivateKey, typ string, cl claims) (string, error) {
	id, err := c.newID()
	if err != nil {
		return "", err
	}
	now := c.Now().Truncate(time.Second)
	cl.ID, cl.IssuedAt, cl.Expires = id, now.Unix(), now.Add(lifetime).Unix()
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

// newID is the id of one token or proof.
func (c *Client) newID() (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(c.Random, id[:]); err != nil {
		return "", fmt.Errorf("agentauth: no randomness for an id: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(id[:]), nil
}

// hostToken signs as the host, for the provider alone.
func (c *Client) hostToken(host *token.PrivateKey, issuer string, agent *token.PrivateKey) (string, error) {
	cl := claims{Issuer: host.Public().Thumbprint(), Audience: issuer, HostKey: host.Public().JWK().AppendJSON(nil)}
	if agent != nil {
		cl.AgentKey = agent.Public().JWK().AppendJSON(nil)
	}
	return c.sign(host, wire.TypeHost, cl)
}

// bound is the key that a token is good with alone (RFC 9449, section 6.1).
type bound struct {
	Key string `json:"jkt"`
}

// proofKey is the key that tokens of agents are bound to.
func (c *Client) proofKey() (*token.PrivateKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.proofs == nil {
		c.proofs, err = token.GenerateKey(token.Ed25519, c.Random)
	}
	return c.proofs, err
}

// prove adds to a request whose token is bound a proof of the key, for this very
// request, and says so.
func (c *Client) prove(r *http.Request, compact string) error {
	t, err := wire.ParseToken(compact, wire.TypeAgent)
	if err != nil || t.Confirmed == "" {
		return nil // a host's, or one that is not bound
	}
	key, err := c.proofKey()
	if err != nil {
		return err
	}
	id, err := c.newID()
	if err != nil {
		return err
	}
	proof, err := token.SignDPoP(key, token.DPoPRequest{Method: r.Method, URL: r.URL.String(), AccessToken: compact, Now: c.Now()}, id)
	if err != nil {
		return fmt.Errorf("agentauth: %w", err)
	}
	r.Header.Set("Authorization", "DPoP "+compact)
	r.Header.Set("DPoP", proof)
	return nil
}

// agentToken signs as an agent, for one audience; only is what it is good for. Where
// the provider itself is the audience and takes proofs, the token is bound to a key
// of this process: anyone who comes by it can do nothing with it (AAP-J9).
func (c *Client) agentToken(a *signing, audience string, only ...string) (string, error) {
	if (audience == a.Issuer || audience == a.provider.Location) && slices.Contains(a.provider.DPoP, "EdDSA") {
		return c.boundToken(a, audience, only...)
	}
	return c.freeToken(a, audience, only...)
}

// boundToken signs as an agent a token that is bound to a key of this process.
func (c *Client) boundToken(a *signing, audience string, only ...string) (string, error) {
	key, err := c.proofKey()
	if err != nil {
		return "", err
	}
	return c.sign(a.key, wire.TypeAgent, claims{
		Issuer: a.host.Public().Thumbprint(), Subject: a.ID, Audience: audience, Only: only, Bound: &bound{key.Public().Thumbprint()},
	})
}

// freeToken signs as an agent a token that someone else sends.
func (c *Client) freeToken(a *signing, audience string, only ...string) (string, error) {
	return c.sign(a.key, wire.TypeAgent, claims{Issuer: a.host.Public().Thumbprint(), Subject: a.ID, Audience: audience, Only: only})
}
