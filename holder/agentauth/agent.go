package agentauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/sorting"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Ask is one capability that is asked for, with constraints in the protocol's form
// (section 2.13), nil for none.
type Ask struct {
	Capability  string          `json:"name"`
	Constraints json.RawMessage `json:"constraints,omitempty"`
}

// Asking is how a person is asked.
type Asking struct {
	Reason    string // shown to the person
	Method    string // preferred_method, a hint
	LoginHint string
	Message   string // binding_message
	// Again asks for what a person has denied before. Only a person may say so.
	Again bool
	// NoWait returns [Pending] at once where a person has to approve.
	NoWait bool
}

// Grant is a capability of an agent, as its provider says (section 5.3).
type Grant struct {
	Capability  string          `json:"capability"`
	Status      string          `json:"status"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	Constraints json.RawMessage `json:"constraints,omitempty"`
	GrantedBy   string          `json:"granted_by,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Expires     string          `json:"expires_at,omitempty"`
	// Wider says that the provider granted more than was asked for. The agent
	// stays within what it asked.
	Wider bool `json:"wider,omitempty"`
}

// Approval is what a person must do (section 7).
type Approval struct {
	Method   string `json:"method"`
	URL      string `json:"verification_uri,omitempty"`
	Complete string `json:"verification_uri_complete,omitempty"` // URL with the code
	Code     string `json:"user_code,omitempty"`
	Message  string `json:"binding_message,omitempty"` // that the person sees, too
	Notify   string `json:"notification_url,omitempty"`
	Expires  int    `json:"expires_in"` // seconds
	Interval int    `json:"interval"`   // seconds between two polls
}

// String says it in one sentence.
func (a *Approval) String() string {
	if a.URL == "" && a.Message != "" {
		return fmt.Sprintf("a person is asked by %s about %q, and has %d seconds to answer", clip(a.Method), clip(a.Message), a.Expires)
	}
	if a.URL == "" {
		return fmt.Sprintf("a person is asked by %s, and has %d seconds to answer", clip(a.Method), a.Expires)
	}
	return fmt.Sprintf("open %s and enter %s within %d seconds", a.URL, a.Code, a.Expires)
}

// Agent is an agent at its provider.
type Agent struct {
	ID        string    `json:"agent_id"`
	Issuer    string    `json:"issuer"`   // of the provider
	Provider  string    `json:"provider"` // its name
	HostID    string    `json:"host_id,omitempty"`
	Name      string    `json:"name"`
	Mode      string    `json:"mode"`
	Status    string    `json:"status"`
	Grants    []Grant   `json:"agent_capability_grants"`
	Asked     []Ask     `json:"asked,omitempty"` // what the grants were asked with
	Approval  *Approval `json:"approval,omitempty"`
	User      string    `json:"user_id,omitempty"`
	Created   string    `json:"created_at,omitempty"`
	Activated string    `json:"activated_at,omitempty"`
	LastUsed  string    `json:"last_used_at,omitempty"`
	Expires   string    `json:"expires_at,omitempty"`
	// Claim is how the question who takes over stands: "" if no person was asked.
	Claim string `json:"claim_status,omitempty"`
}

// standing is an agent on the wire.
type standing struct {
	ID        string    `json:"agent_id"`
	HostID    string    `json:"host_id"`
	Name      string    `json:"name"`
	Mode      string    `json:"mode"`
	Status    string    `json:"status"`
	Grants    []Grant   `json:"agent_capability_grants"`
	Approval  *Approval `json:"approval"`
	User      string    `json:"user_id"`
	Created   string    `json:"created_at"`
	Activated string    `json:"activated_at"`
	LastUsed  string    `json:"last_used_at"`
	Expires   string    `json:"expires_at"`
	Claim     string    `json:"claim_status"`
}

// parseStanding reads what the provider of an issuer says of an agent. Where a person
// is sent is held to what requests are held to (AAP-CL7): a model shows it to them.
func parseStanding(issuer string, body []byte) (standing, error) {
	var s standing
	if err := jsonv2.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("agentauth: the provider's answer: %w", err)
	}
	if s.ID == "" || len(s.ID) > 256 || strings.ContainsFunc(s.ID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s, fmt.Errorf("agentauth: the provider's answer names agent %q; want 1 to 256 visible characters", clip(s.ID))
	}
	if s.Approval == nil {
		return s, nil
	}
	for _, at := range []string{s.Approval.URL, s.Approval.Complete} {
		at, _, _ = strings.Cut(at, "#") // which no server sees
		if at == "" {
			continue
		}
		if err := (&Provider{Issuer: issuer}).reachable(at); err != nil {
			return s, fmt.Errorf("agentauth: where a person is to answer: %w", err)
		}
	}
	return s, nil
}

// signing is an agent that can sign.
type signing struct {
	Agent
	key, host *token.PrivateKey
	provider  Provider
}

// agent returns an agent of the store with its keys.
func (c *Client) agent(ctx context.Context, id string) (*signing, error) {
	a := &signing{}
	err := c.Store.view(func(st *state) (err error) {
		k := st.Agents[id]
		if k == nil {
			return fmt.Errorf("agentauth: agent %q: %w", clip(id), ErrUnknown)
		}
		a.Agent = k.Agent
		if a.key, err = token.ParsePrivateKey(k.Key); err != nil {
			return err
		}
		a.host, err = st.hostKey(k.Issuer)
		return err
	})
	if err != nil {
		return nil, err
	}
	a.provider, err = c.Discover(ctx, a.Issuer)
	return a, err
}

// Agents returns the agents of the store as they were last seen.
func (c *Client) Agents() ([]Agent, error) {
	var out []Agent
	err := c.Store.view(func(st *state) error {
		for _, k := range st.Agents {
			out = append(out, k.Agent)
		}
		return nil
	})
	sorting.Sort(out, func(a, b Agent) int { return strings.Compare(a.Provider+" "+a.ID, b.Provider+" "+b.ID) })
	return out, err
}

// digest identifies a request, so that the same one is recognised.
func digest(of string, asks []Ask) string {
	lines := []string{}
	for _, a := range asks {
		v, err := powerbox.ParseValue(a.Constraints)
		if err != nil {
			v = powerbox.String(string(a.Constraints))
		}
		lines = append(lines, string(powerbox.List(powerbox.String(a.Capability), v).AppendJSON(nil)))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(of + "\n" + strings.Join(slices.Compact(lines), "\n")))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// checkAsks refuses constraints that mean nothing, before a person sees them.
func checkAsks(asks []Ask) error {
	for _, a := range asks {
		if _, err := a.shape(); err != nil {
			return fmt.Errorf("agentauth: capability %q: %w", a.Capability, err)
		}
	}
	return nil
}

func (a Ask) shape() (powerbox.Shape, error) { return shapeOf(a.Constraints) }

func shapeOf(constraints json.RawMessage) (powerbox.Shape, error) {
	if len(constraints) == 0 {
		return powerbox.AnyArguments(), nil
	}
	v, err := powerbox.ParseValue(constraints)
	if err != nil {
		return powerbox.Shape{}, err
	}
	return wire.Options{}.ParseConstraints(v)
}

// wider reports whether a grant lets more pass than every request for its
// capability asked for (AAP-CL9). Constraints that cannot be read are opaque
// (section 2.13): nothing is said about them. A capability that was not requested is a default.
func wider(g Grant, asked []Ask) bool {
	if g.Status != string(wire.Active) {
		return false
	}
	granted, err := shapeOf(g.Constraints)
	if err != nil {
		return false
	}
	asking := false
	for _, a := range asked {
		if a.Capability != g.Capability {
			continue
		}
		asking = true
		if shape, err := a.shape(); err == nil && shape.Covers(granted) {
			return false
		}
	}
	return asking
}

// within refuses arguments that no request for the capability asked for, where
// the provider granted more.
func (a *Agent) within(capability string, arguments powerbox.Value) error {
	if !slices.ContainsFunc(a.Grants, func(g Grant) bool { return g.Capability == capability && g.Wider }) {
		return nil
	}
	for _, ask := range a.Asked {
		if ask.Capability != capability {
			continue
		}
		if shape, err := ask.shape(); err == nil && len(wire.Violations(shape, arguments)) == 0 {
			return nil
		}
	}
	return fmt.Errorf("agentauth: %s with these arguments is %w; ask for it", capability, ErrWider)
}

// keep puts what a provider says of an agent into the store, and notes what people
// have answered. One that was rejected is not kept.
func (c *Client) keep(s standing, change func(*state, *kept) error) (Agent, error) {
	var out Agent
	err := c.Store.update(func(st *state) error {
		k := st.Agents[s.ID]
		if k == nil {
			k = &kept{}
			st.Agents[s.ID] = k
		}
		if change != nil {
			if err := change(st, k); err != nil {
				return err
			}
		}
		k.take(s)
		k.settle(st.Providers[k.Issuer], s, c.Now())
		if k.Status == string(wire.Rejected) {
			delete(st.Agents, s.ID)
		}
		out = k.Agent
		return nil
	})
	for _, g := range out.Grants {
		if g.Wider {
			c.warn(fmt.Sprintf("%s granted %s wider than it was asked for; the agent stays within what it asked", out.Provider, g.Capability))
		}
	}
	return out, err
}

// take updates an agent by what its provider says.
func (k *kept) take(s standing) {
	k.ID, k.Status, k.Grants = s.ID, s.Status, s.Grants
	k.Approval, k.Claim = s.Approval, s.Claim
	for _, f := range []struct {
		into *string
		from string
	}{
		{&k.HostID, s.HostID},
		{&k.Name, s.Name},
		{&k.Mode, s.Mode},
		{&k.User, s.User},
		{&k.Created, s.Created},
		{&k.Activated, s.Activated},
		{&k.LastUsed, s.LastUsed},
		{&k.Expires, s.Expires},
	} {
		if f.from != "" {
			*f.into = f.from
		}
	}
	for i := range k.Grants {
		k.Grants[i].Wider = wider(k.Grants[i], k.Asked)
	}
}

// Status asks the provider how an agent stands.
func (c *Client) Status(ctx context.Context, id string) (Agent, error) {
	a, err := c.agent(ctx, id)
	if err != nil {
		return Agent{}, err
	}
	s, err := c.seen(ctx, a)
	if err != nil {
		return Agent{}, err
	}
	return c.keep(s, nil)
}

// seen is status, to which a host that was rejected is an answer: a person who
// denies the first agent of a host denies the host.
func (c *Client) seen(ctx context.Context, a *signing) (standing, error) {
	s, err := c.status(ctx, a)
	if has(err, string(wire.CodeHostRejected)) {
		return standing{ID: a.ID, Status: string(wire.Rejected)}, nil
	}
	return s, err
}

func (c *Client) status(ctx context.Context, a *signing) (standing, error) {
	return c.managed(ctx, a, http.MethodGet, "status", nil)
}

// managed makes a call of the host about one of its agents.
func (c *Client) managed(ctx context.Context, a *signing, method, endpoint string, body map[string]any) (standing, error) {
	query := ""
	if method == http.MethodGet {
		query = "?" + url.Values{"agent_id": {a.ID}}.Encode()
	} else {
		if body == nil {
			body = map[string]any{}
		}
		body["agent_id"] = a.ID
	}
	r := &call{method: method, safe: method == http.MethodGet, token: func() (string, error) { return c.hostToken(a.host, a.Issuer, nil) }}
	if body != nil {
		r.body = body
	}
	answer, err := c.at(ctx, a.Issuer, endpoint, query, r)
	if err != nil {
		return standing{}, err
	}
	s, err := parseStanding(a.Issuer, answer.body)
	if err == nil && s.ID != a.ID {
		err = fmt.Errorf("agentauth: the provider answered about agent %q, and was asked about %q", s.ID, a.ID)
	}
	return s, err
}

// at makes a call of an endpoint. An endpoint that is gone is looked for once
// (AAP-CL4).
func (c *Client) at(ctx context.Context, issuer, endpoint, query string, r *call) (*reply, error) {
	p, err := c.Discover(ctx, issuer)
	if err != nil {
		return nil, err
	}
	at := p.Endpoints[endpoint]
	r.url = at + query
	answer, err := c.do(ctx, r)
	if !gone(err) {
		return answer, about(endpoint, err)
	}
	if p, discovery := c.rediscover(ctx, issuer); discovery == nil && p.Endpoints[endpoint] != at {
		r.url = p.Endpoints[endpoint] + query
		answer, err = c.do(ctx, r)
	}
	return answer, about(endpoint, err)
}

func about(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("agentauth: %s: %w", endpoint, err)
}

// gone reports whether there is nothing at an endpoint, rather than nothing of the
// name that was asked for.
func gone(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusNotFound && e.Status != http.StatusGone {
		return false
	}
	return !has(err, string(wire.CodeAgentNotFound), string(wire.CodeHostNotFound), string(wire.CodeCapabilityNotFound))
}

// Reactivate brings an expired agent back, with the host's defaults alone: what it
// had been given beyond them is asked for anew (section 5.6). An active one stays
// as it is.
func (c *Client) Reactivate(ctx context.Context, id string, noWait bool) (Agent, error) {
	a, err := c.agent(ctx, id)
	if err != nil {
		return Agent{}, err
	}
	s, err := c.status(ctx, a)
	if err != nil {
		return Agent{}, err
	}
	if s.Status == string(wire.Active) {
		return c.keep(s, nil)
	}
	if s, err = c.managed(ctx, a, http.MethodPost, "reactivate", nil); err != nil {
		return Agent{}, err
	}
	c.forget(a.Issuer)
	out, err := c.keep(s, func(_ *state, k *kept) error {
		k.Asked, k.Open = nil, nil
		return nil
	})
	if err != nil {
		return out, err
	}
	return c.await(ctx, out, noWait, open{Whole: true})
}

// Disconnect revokes an agent and forgets its key. It is final.
func (c *Client) Disconnect(ctx context.Context, id string) error {
	a, err := c.agent(ctx, id)
	if err != nil {
		return err
	}
	_, err = c.managed(ctx, a, http.MethodPost, "revoke", nil)
	if err != nil && !has(err, string(wire.CodeAgentNotFound), string(wire.CodeHostRevoked), string(wire.CodeAgentRevoked)) {
		return err
	}
	c.forget(a.Issuer)
	return c.Store.update(func(st *state) error {
		delete(st.Agents, id)
		return nil
	})
}
