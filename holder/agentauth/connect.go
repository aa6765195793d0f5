package agentauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Connection is what an agent is registered with (section 6.4).
type Connection struct {
	Name         string // of the agent, shown to people; required
	Capabilities []Ask
	Mode         string // "" for delegated
	Asking
}

// Connect registers an agent at a provider and waits for a person if one must
// approve. Errors are [*Pending] before an answer, [*Denied] after a
// denial, and [*Error] otherwise.
func (c *Client) Connect(ctx context.Context, provider string, with Connection) (Agent, error) {
	if with.Name == "" {
		return Agent{}, errors.New("agentauth: an agent needs a name, for people")
	}
	if with.Mode == "" {
		with.Mode = wire.Delegated
	}
	if err := checkAsks(with.Capabilities); err != nil {
		return Agent{}, err
	}
	p, err := c.Provider(ctx, provider)
	if err != nil {
		return Agent{}, err
	}
	if !slices.Contains(p.Modes, with.Mode) {
		return Agent{}, fmt.Errorf("agentauth: %s has no agents of mode %q; it has %q", p.Name, with.Mode, p.Modes)
	}
	o := open{What: digest("register "+with.Mode, with.Capabilities), Asks: with.Capabilities, Whole: true}
	if err := c.undenied(p.Issuer, o.What, with.Again); err != nil {
		return Agent{}, err
	}
	draft := digest("draft "+with.Mode+" "+with.Name, with.Capabilities)
	out, err := c.register(ctx, p, with, draft, o)
	if has(err, string(wire.CodeAgentExists)) {
		// The answer to an earlier registration was lost: a new key is a new agent.
		if err := c.dropDraft(p.Issuer, draft); err != nil {
			return Agent{}, err
		}
		out, err = c.register(ctx, p, with, draft, o)
	}
	if with.Again && has(err, string(wire.CodeHostRejected)) {
		if err := c.newHost(p.Issuer); err != nil {
			return Agent{}, err
		}
		out, err = c.register(ctx, p, with, draft, o)
	}
	if err != nil {
		return Agent{}, c.helped(ctx, p.Issuer, "", err)
	}
	return c.await(ctx, out, with.NoWait, o)
}

// draftKeys returns the host's key and that of an agent, made and kept before anybody
// hears of them.
func (c *Client) draftKeys(issuer, draft string) (host, agent *token.PrivateKey, err error) {
	fresh := func() (json.RawMessage, error) {
		k, err := token.GenerateKey(token.Ed25519, c.Random)
		if err != nil {
			return nil, err
		}
		return k.JWK(), nil
	}
	err = c.Store.update(func(st *state) (err error) {
		if st.HostKey == nil {
			if st.HostKey, err = fresh(); err != nil {
				return err
			}
		}
		p := st.Providers[issuer]
		if p.Drafts == nil {
			p.Drafts = map[string]json.RawMessage{}
		}
		if p.HostKey == nil {
			p.HostKey = st.HostKey
		}
		if p.Drafts[draft] == nil {
			if p.Drafts[draft], err = fresh(); err != nil {
				return err
			}
		}
		if host, err = st.hostKey(issuer); err != nil {
			return err
		}
		agent, err = token.ParsePrivateKey(p.Drafts[draft])
		return err
	})
	return host, agent, err
}

func (c *Client) dropDraft(issuer, draft string) error {
	return c.Store.update(func(st *state) error {
		delete(st.Providers[issuer].Drafts, draft)
		return nil
	})
}

// newHost gives the host another key at a provider that has rejected it for good. A
// person asked for that.
func (c *Client) newHost(issuer string) error {
	key, err := token.GenerateKey(token.Ed25519, c.Random)
	if err != nil {
		return err
	}
	return c.Store.update(func(st *state) error {
		p := st.Providers[issuer]
		p.HostKey, p.NextKeys, p.HostID = key.JWK(), nil, ""
		return nil
	})
}

// register makes the request and keeps what came of it.
func (c *Client) register(ctx context.Context, p Provider, with Connection, draft string, o open) (Agent, error) {
	host, key, err := c.draftKeys(p.Issuer, draft)
	if err != nil {
		return Agent{}, err
	}
	body := with.body(with.Capabilities)
	body["name"], body["mode"] = with.Name, with.Mode
	if c.HostName != "" {
		body["host_name"] = c.HostName
	}
	// The same key again is the same agent, so that sending it twice does no harm.
	answer, err := c.at(ctx, p.Issuer, "register", "", &call{
		method: http.MethodPost, safe: true, body: body, token: func() (string, error) { return c.hostToken(host, p.Issuer, key) },
	})
	if err != nil {
		return Agent{}, err
	}
	s, err := parseStanding(p.Issuer, answer.body)
	if err != nil {
		return Agent{}, err
	}
	return c.keep(s, func(st *state, k *kept) error {
		if k.Issuer != "" && (k.Issuer != p.Issuer || k.Draft != draft) {
			return fmt.Errorf("agentauth: %s gives agent id %q, which is that of another agent, at %s", p.Issuer, s.ID, k.Issuer)
		}
		k.Issuer, k.Provider, k.Key, k.Draft, k.Asked = p.Issuer, p.Name, key.JWK(), draft, with.Capabilities
		k.Open = []open{o}
		st.Providers[p.Issuer].HostID = s.HostID
		return nil
	})
}

// body is what asks a person.
func (a Asking) body(asks []Ask) map[string]any {
	b := map[string]any{}
	if len(asks) > 0 {
		list := make([]any, len(asks))
		for i, one := range asks {
			if list[i] = one; one.Constraints == nil {
				list[i] = one.Capability
			}
		}
		b["capabilities"] = list
	}
	for name, value := range map[string]string{
		"reason": a.Reason, "preferred_method": a.Method, "login_hint": a.LoginHint, "binding_message": a.Message,
	} {
		if value != "" {
			b[name] = value
		}
	}
	return b
}

// undenied refuses what a person has denied before (AAP-A5, AAP-CL13).
func (c *Client) undenied(issuer, what string, again bool) error {
	if again {
		return nil
	}
	return c.Store.view(func(st *state) error {
		p := st.Providers[issuer]
		if p == nil {
			return nil
		}
		if at, ok := p.Denied[what]; ok && c.Now().Before(at.Add(denialMemory)) {
			return &Denied{Earlier: at}
		}
		return nil
	})
}

// RequestCapability asks for more for an agent, and waits as [Client.Connect] does.
// The grants of the result are those that were asked for (section 6.6).
func (c *Client) RequestCapability(ctx context.Context, id string, asks []Ask, with Asking) (Agent, error) {
	if len(asks) == 0 {
		return Agent{}, errors.New("agentauth: no capability is asked for")
	}
	if err := checkAsks(asks); err != nil {
		return Agent{}, err
	}
	a, err := c.agent(ctx, id)
	if err != nil {
		return Agent{}, err
	}
	before, err := c.status(ctx, a)
	if err != nil {
		return Agent{}, err
	}
	o := open{What: digest("request "+id, asks), Asks: asks, Before: before.Grants}
	if err := c.undenied(a.Issuer, o.What, with.Again); err != nil {
		return Agent{}, err
	}
	answer, err := c.at(ctx, a.Issuer, "request_capability", "", &call{
		method: http.MethodPost, body: with.body(asks), token: func() (string, error) { return c.agentToken(a, a.Issuer) },
	})
	if err != nil {
		return Agent{}, c.helped(ctx, a.Issuer, id, err)
	}
	s, err := parseStanding(a.Issuer, answer.body)
	if err != nil {
		return Agent{}, err
	}
	if err := c.askedFor(a.Agent, s, o); err != nil {
		return Agent{}, err
	}
	c.forget(a.Issuer)
	out := a.Agent
	out.Status, out.Grants, out.Approval, out.Asked = before.Status, s.Grants, s.Approval, asks
	if out, err = c.await(ctx, out, with.NoWait, o); err == nil && s.Approval == nil {
		_, err = c.Status(ctx, id) // given at once: what it holds now is kept
	}
	out.Grants = slices.DeleteFunc(slices.Clone(out.Grants), func(g Grant) bool { return !o.names(g.Capability) })
	return out, err
}

// askedFor keeps what an agent asks for beside what it holds.
func (c *Client) askedFor(a Agent, s standing, o open) error {
	if s.ID != a.ID {
		return fmt.Errorf("agentauth: the provider answered about agent %q, and was asked for %q", s.ID, a.ID)
	}
	return c.Store.update(func(st *state) error {
		k := st.Agents[a.ID]
		if k == nil {
			return fmt.Errorf("agentauth: agent %q: %w", a.ID, ErrUnknown)
		}
		k.Open = append(k.Open, o)
		for _, one := range o.Asks {
			if !slices.ContainsFunc(k.Asked, func(have Ask) bool { return digest("", []Ask{have}) == digest("", []Ask{one}) }) {
				k.Asked = append(k.Asked, one)
			}
		}
		return nil
	})
}

// helped adds to a refusal of names what names there are (sections 6.4 and 6.6).
func (c *Client) helped(ctx context.Context, issuer, agent string, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != string(wire.CodeInvalidCapability) {
		return err
	}
	c.forget(issuer)
	list, listing := c.List(ctx, issuer, View{Agent: agent})
	if listing != nil {
		return err
	}
	for _, one := range list {
		e.Available = append(e.Available, one.Name)
	}
	return err
}
