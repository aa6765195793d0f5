package agentauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Signed is a token for an agent that speaks to a service itself (section 6.5).
type Signed struct {
	Token   string `json:"token"`
	Expires int    `json:"expires_in"` // seconds from its signing
}

// SignJWT signs for an agent that needs a token itself. An empty audience is the
// provider. What the token is good for is all that the agent was granted, or the
// capabilities that are named; one that was not granted refuses (AAP-CL12).
func (c *Client) SignJWT(ctx context.Context, id, audience string, capabilities []string) (Signed, error) {
	a, err := c.agent(ctx, id)
	if err != nil {
		return Signed{}, err
	}
	if audience == "" {
		audience = a.Issuer
	}
	if err := a.provider.reachable(audience); err != nil {
		return Signed{}, fmt.Errorf("agentauth: audience: %w", err)
	}
	if a.Status != string(wire.Active) {
		return Signed{}, fmt.Errorf("agentauth: agent %q is %s; want an active one", id, a.Status)
	}
	for _, name := range capabilities {
		if !slices.ContainsFunc(a.Grants, func(g Grant) bool { return g.Capability == name && g.Status == string(wire.Active) }) {
			return Signed{}, fmt.Errorf("agentauth: agent %q has no grant of %q, as its status was last seen", id, clip(name))
		}
	}
	t, err := c.freeToken(a, audience, capabilities...)
	return Signed{t, int(lifetime / time.Second)}, err
}

// RotateAgentKey gives an agent a new key; the old one is dead at once. Where the
// answer is lost, rotate again: the host decides, not the agent's key.
func (c *Client) RotateAgentKey(ctx context.Context, id string) error {
	a, err := c.agent(ctx, id)
	if err != nil {
		return err
	}
	next, err := token.GenerateKey(token.Ed25519, c.Random)
	if err != nil {
		return err
	}
	if _, err := c.managed(ctx, a, http.MethodPost, "rotate_key", map[string]any{"public_key": next.Public().JWK()}); err != nil {
		return err
	}
	return c.Store.update(func(st *state) error {
		k := st.Agents[id]
		if k == nil {
			return fmt.Errorf("agentauth: agent %q: %w", id, ErrUnknown)
		}
		k.Key = next.JWK()
		return nil
	})
}

// RotateHostKey gives the host a new key at the providers that are named, by name or
// URL, or at every one that knows it where none is; agents and grants stay. Errors are
// by provider: there the host keeps its old key, and rotating again continues.
func (c *Client) RotateHostKey(ctx context.Context, providers ...string) (rotated []string, err error) {
	only := map[string]bool{}
	for _, name := range providers {
		p, err := c.Provider(ctx, name)
		if err != nil {
			return nil, err
		}
		only[p.Issuer] = true
	}
	next, err := token.GenerateKey(token.Ed25519, c.Random)
	if err != nil {
		return nil, err
	}
	var issuers []string
	err = c.Store.update(func(st *state) error {
		if st.HostKey == nil {
			return fmt.Errorf("agentauth: the store has no host: %w", ErrUnknown)
		}
		if len(only) == 0 {
			st.HostKey = next.JWK() // of providers to come
		}
		for issuer, p := range st.Providers {
			if p.HostKey != nil && (len(only) == 0 || only[issuer]) {
				issuers = append(issuers, issuer)
			}
		}
		return nil
	})
	var problems []error
	for _, issuer := range slices.Sorted(slices.Values(issuers)) {
		if err := c.rotateHost(ctx, issuer, next); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", issuer, err))
			continue
		}
		rotated = append(rotated, issuer)
	}
	return rotated, errors.Join(append(problems, err)...)
}

// rotateHost changes the key at one provider. The new key is kept before it is told,
// so that a lost answer does not lose the host: one of the two is good.
func (c *Client) rotateHost(ctx context.Context, issuer string, next *token.PrivateKey) error {
	var candidates []json.RawMessage
	err := c.Store.update(func(st *state) error {
		p := st.Providers[issuer]
		if p.HostID == "" { // never registered: no provider is told
			p.HostKey, p.NextKeys = nil, nil
			return nil
		}
		candidates = append([]json.RawMessage{p.HostKey}, p.NextKeys...)
		p.NextKeys = append(p.NextKeys, next.JWK())
		return nil
	})
	for i, jwk := range candidates {
		current, parsing := token.ParsePrivateKey(jwk)
		if parsing != nil {
			return parsing
		}
		_, err = c.at(ctx, issuer, "rotate_host_key", "", &call{
			method: http.MethodPost, body: map[string]any{"public_key": next.Public().JWK()},
			token: func() (string, error) { return c.hostToken(current, issuer, nil) },
		})
		if err == nil || i == len(candidates)-1 || !has(err, string(wire.CodeInvalidJWT), string(wire.CodeHostNotFound), string(wire.CodeUnauthorized)) {
			break
		}
	}
	if err != nil {
		return err
	}
	return c.Store.update(func(st *state) error {
		if p := st.Providers[issuer]; p.HostID != "" {
			p.HostKey, p.NextKeys = next.JWK(), nil
		}
		return nil
	})
}
