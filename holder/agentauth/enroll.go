package agentauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox/token"
)

// Enrolled is a host that an administrator had made room for.
type Enrolled struct {
	Issuer   string   `json:"issuer"`
	HostID   string   `json:"host_id"`
	Name     string   `json:"name"`
	Status   string   `json:"status"`
	Defaults []string `json:"default_capabilities"`
}

// Enroll makes the host known to a provider with a token that an administrator made
// there (section 2.8). The token is good once. A host that the provider knows
// already is not enrolled again.
func (c *Client) Enroll(ctx context.Context, provider, enrollment, name string) (Enrolled, error) {
	if enrollment == "" {
		return Enrolled{}, errors.New("agentauth: the enrollment token is missing; an administrator of the provider makes one")
	}
	p, err := c.Provider(ctx, provider)
	if err != nil {
		return Enrolled{}, err
	}
	host, err := c.enrollingKey(p.Issuer)
	if err != nil {
		return Enrolled{}, err
	}
	body := map[string]any{"token": enrollment, "public_key": host.Public().JWK()}
	if name = cmp.Or(name, c.HostName); name != "" {
		body["name"] = name
	}
	answer, err := c.do(ctx, &call{
		method: http.MethodPost, url: p.Endpoints["enroll_host"], body: body, token: func() (string, error) { return c.hostToken(host, p.Issuer, nil) },
	})
	if err != nil {
		return Enrolled{}, about("enroll_host", err)
	}
	var said struct {
		Enrolled
		Other string `json:"hostId"` // of the protocol's own server
	}
	if err := jsonv2.Unmarshal(answer.body, &said); err != nil {
		return Enrolled{}, fmt.Errorf("agentauth: the provider's answer: %w", err)
	}
	out := said.Enrolled
	out.Issuer, out.HostID = p.Issuer, cmp.Or(out.HostID, said.Other)
	if out.HostID == "" || len(out.HostID) > 256 {
		return Enrolled{}, errors.New("agentauth: the provider's answer names no host")
	}
	c.forget(p.Issuer)
	return out, c.Store.update(func(st *state) error {
		known := st.Providers[p.Issuer]
		known.HostKey, known.HostID, known.Enrolled = host.JWK(), out.HostID, true
		return nil
	})
}

// enrollingKey is the key that a host has, or gets, at a provider that does not know
// it yet. It is kept before anybody hears of it.
func (c *Client) enrollingKey(issuer string) (host *token.PrivateKey, err error) {
	err = c.Store.update(func(st *state) error {
		p := st.Providers[issuer]
		if p.HostID != "" {
			return fmt.Errorf("agentauth: %s knows this host already, as %s; want another store for another host", issuer, clip(p.HostID))
		}
		if st.HostKey == nil {
			fresh, err := token.GenerateKey(token.Ed25519, c.Random)
			if err != nil {
				return err
			}
			st.HostKey = json.RawMessage(fresh.JWK())
		}
		if p.HostKey == nil {
			p.HostKey = st.HostKey
		}
		host, err = st.hostKey(issuer)
		return err
	})
	return host, err
}
