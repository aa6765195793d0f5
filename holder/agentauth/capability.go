package agentauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Capability is what a provider offers (section 2.12). List leaves the schemas and
// the location out.
type Capability struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Granted     string          `json:"grant_status,omitempty"` // of the agent that looks
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	Location    string          `json:"location,omitempty"` // "" for the provider's own
	// Bound says that it is executed with a token alone that is bound to a key
	// (RFC 9728, section 2).
	Bound bool `json:"dpop_bound_access_tokens_required,omitempty"`
}

// View says as whom capabilities are looked at: as an agent, else as the host where
// it is known, else, or when Anonymous, as anybody (AAP-P8).
type View struct {
	Agent     string
	Anonymous bool
	Query     string // narrows a list
}

// question is what an answer about capabilities is kept under: never another's
// identity (AAP-CL10).
type question struct {
	issuer, identity, url string
}

type remembered struct {
	body  []byte
	until time.Time
}

// Bounds of the memory, and of following a list.
const (
	maxRemembered = 1024
	freshListed   = 5 * time.Minute // where the provider does not say
	maxPages      = 100
)

// List returns all capabilities of a provider that are shown to who looks.
func (c *Client) List(ctx context.Context, provider string, v View) ([]Capability, error) {
	p, err := c.Provider(ctx, provider)
	if err != nil {
		return nil, err
	}
	var out []Capability
	query := url.Values{}
	if v.Query != "" {
		query.Set("query", v.Query)
	}
	for range maxPages {
		body, err := c.look(ctx, p, v, "capabilities", query)
		if err != nil {
			return nil, err
		}
		var page struct {
			Capabilities []Capability `json:"capabilities"`
			Next         string       `json:"next_cursor"`
			More         bool         `json:"has_more"`
		}
		if err := jsonv2.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("agentauth: the list of capabilities: %w", err)
		}
		out = append(out, page.Capabilities...)
		if !page.More || page.Next == "" {
			return out, nil
		}
		query.Set("cursor", page.Next)
	}
	return nil, fmt.Errorf("agentauth: the list of capabilities has more than %d pages", maxPages)
}

// Describe returns one capability whole. One that is not shown to who looks is an
// [*Error] of capability_not_found.
func (c *Client) Describe(ctx context.Context, provider, name string, v View) (Capability, error) {
	p, err := c.Provider(ctx, provider)
	if err != nil {
		return Capability{}, err
	}
	var out Capability
	body, err := c.look(ctx, p, v, "describe_capability", url.Values{"name": {name}})
	if err != nil {
		return out, err
	}
	if err := jsonv2.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("agentauth: capability %q: %w", clip(name), err)
	}
	if out.Name != name {
		return out, fmt.Errorf("agentauth: the provider describes capability %q, and was asked for %q", clip(out.Name), clip(name))
	}
	return out, nil
}

// look asks about capabilities, or knows the answer from before.
func (c *Client) look(ctx context.Context, p Provider, v View, endpoint string, query url.Values) ([]byte, error) {
	identity, token, err := c.viewer(ctx, p, v)
	if err != nil {
		return nil, err
	}
	q := question{p.Issuer, identity, endpoint + "?" + query.Encode()}
	if body := c.recall(q); body != nil {
		return body, nil
	}
	answer, err := c.at(ctx, p.Issuer, endpoint, "?"+query.Encode(), &call{method: http.MethodGet, safe: true, token: token})
	if err != nil {
		return nil, err
	}
	c.memorise(q, answer)
	return answer.body, nil
}

// viewer is who looks, and how that is proven.
func (c *Client) viewer(ctx context.Context, p Provider, v View) (identity string, token func() (string, error), err error) {
	if v.Agent != "" {
		a, err := c.agent(ctx, v.Agent)
		if err != nil {
			return "", nil, err
		}
		if a.Issuer != p.Issuer {
			return "", nil, fmt.Errorf("agentauth: agent %q is one of %s, not of %s", v.Agent, a.Issuer, p.Issuer)
		}
		return "agent " + a.ID, func() (string, error) { return c.agentToken(a, a.Issuer) }, nil
	}
	known, _, err := c.known(p.Issuer)
	if err != nil || v.Anonymous || known.HostID == "" || !known.Enrolled && !c.accepted(p.Issuer) {
		return "", nil, err
	}
	return "host " + known.HostID, func() (string, error) {
		var t string
		err := c.Store.view(func(st *state) error {
			key, err := st.hostKey(p.Issuer)
			if err == nil {
				t, err = c.hostToken(key, p.Issuer, nil)
			}
			return err
		})
		return t, err
	}, nil
}

// accepted reports whether the host has an agent at a provider that someone
// approved: before that its tokens are not taken for more than registering.
func (c *Client) accepted(issuer string) bool {
	agents, err := c.Agents()
	if err != nil {
		return false
	}
	for _, a := range agents {
		if a.Issuer == issuer && a.Status != string(wire.Pending) {
			return true
		}
	}
	return false
}

func (c *Client) recall(q question) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.listed[q]
	if !ok || !c.Now().Before(r.until) {
		return nil
	}
	return r.body
}

func (c *Client) memorise(q question, a *reply) {
	until := c.Now().Add(freshness(a.header, freshListed))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed == nil || len(c.listed) >= maxRemembered {
		c.listed = map[question]remembered{}
	}
	c.listed[q] = remembered{a.body, until}
}

// forget forgets the capabilities of a provider for all identities, because
// the provider changed.
func (c *Client) forget(issuer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range c.listed {
		if q.issuer == issuer {
			delete(c.listed, q)
		}
	}
}

// stale forgets, if an error says that the cached capabilities are out of date (AAP-CL10).
func (c *Client) stale(issuer string, err error) {
	if has(err, string(wire.CodeCapabilityNotFound), string(wire.CodeInvalidRequest)) {
		c.forget(issuer)
	}
}
