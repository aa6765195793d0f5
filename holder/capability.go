package holder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// Capability is what a holder has of one agent, for one task.
type Capability struct {
	ID      string   // on record, or of the last token of a chain that was derived offline
	Agent   string   // public URL of the agent that issued it
	Grant   string   // id of the grant
	Chain   []string // compact tokens, root first; nil where it is by reference only
	Handles []Handle // resources; nil where it came from another holder, who knows them
	// NextResources is the cursor of the resources that the request selects after Handles:
	// the value of after in the resourceQuery of a next request. "" if there are none.
	NextResources string
	Operations    []string // as the wire has them
	Expires       time.Time
	RevocationID  string // "" for one that was derived offline
	Principal     string // the user behind, as the agent calls them
	Task          string
	Tenant        string // of the agent, in which that task is; "" for none
	Legacy        bool   // wraps a service without capability support: reduced security
	// ScopeToken and Links are JSON texts, where it was issued as a scope token
	// (EXT-5): Chain is nil then, and Operations of what a link passes on are
	// scopes.
	ScopeToken string
	Links      []string
	// OutsideScope are the operations that the caller's configured scope at the agent refused
	// when the capability was issued: calls of them are denied.
	OutsideScope []string
}

// Handle is the opaque name of one resource, and what a person may see of it.
type Handle struct{ Handle, DisplayName string }

// RequestParams is a request for capabilities (SEP-4).
type RequestParams struct {
	// Grants are the ids of grants. Required. A legacy one is replaced by one
	// that is attenuable and has the same operations (SEP-3).
	Grants []string
	// Operations are fewer than the grants have; nil for all of theirs.
	Operations []string
	// Purpose is the task in the agent's own words. Required.
	Purpose string
	// Query selects resources: {collection, filter, limit, after}; null for none.
	Query   powerbox.Value
	Expires time.Time // zero for as long as the issuer allows
	Task    string    // A2A task or context that it is for; "" for the purpose alone
	Tenant  string    // of the agent, in which that task is; "" for that of [Agent], which mostly is none
	Push    bool      // whether push notifications are wanted as well
	Card    bool      // whether the extended card is wanted as well
	// ScopeToken asks for a scope token instead of an attenuating token.
	ScopeToken bool
}

// Request asks the agent for capabilities on behalf of the user behind the
// session. All grants are given or none. A refusal is a [*Denied], a request
// that waits for a person a [*Pending].
func (c *Client) Request(ctx context.Context, agent Agent, p RequestParams) ([]Capability, error) {
	ms := []powerbox.Member{{Name: "grants", Value: texts(agent.prefer(p.Grants, p.Operations))}, text("purpose", p.Purpose)}
	if p.Operations != nil {
		ms = append(ms, powerbox.Member{Name: "operations", Value: texts(p.Operations)})
	}
	if p.Query.Kind() != powerbox.KindNull {
		ms = append(ms, powerbox.Member{Name: "resourceQuery", Value: p.Query})
	}
	if p.Push {
		ms = append(ms, powerbox.Member{Name: "push", Value: powerbox.Bool(true)})
	}
	if p.Card {
		ms = append(ms, powerbox.Member{Name: "card", Value: powerbox.Bool(true)})
	}
	if p.ScopeToken {
		ms = append(ms, text("format", a2a.FormatScopeToken))
	}
	tenant := p.Tenant
	if p.Task != "" {
		tenant = cmp.Or(tenant, agent.Tenant)
	}
	ms = optional(optional(optional(ms, "task", p.Task), "tenant", tenant), "expires", timeText(p.Expires))
	return c.capabilities(ctx, agent, "a2a/capabilities/request", powerbox.Object(ms...))
}

// Attenuation is the narrower form that the issuer makes of a capability. Nil and
// zero members stay as they are.
type Attenuation struct {
	Handles    []string
	Operations []string
	Expires    time.Time
}

// Attenuate has the issuer narrow a capability (SEP-12). [Client.Narrow] does
// it offline, where there is a chain.
func (c *Client) Attenuate(ctx context.Context, agent Agent, held Capability, a Attenuation) (Capability, error) {
	var constraints []powerbox.Member
	if a.Handles != nil {
		constraints = append(constraints, powerbox.Member{Name: "resourceHandles", Value: texts(a.Handles)})
	}
	if a.Operations != nil {
		constraints = append(constraints, powerbox.Member{Name: "operations", Value: texts(a.Operations)})
	}
	constraints = optional(constraints, "expires", timeText(a.Expires))
	got, err := c.capabilities(ctx, agent, "a2a/capabilities/attenuate", powerbox.Object(
		text("capabilityId", held.ID), powerbox.Member{Name: "constraints", Value: powerbox.Object(constraints...)}))
	if err != nil {
		return Capability{}, err
	}
	if len(got) != 1 {
		return Capability{}, fmt.Errorf("holder: %s answered an attenuation with %d capabilities; want 1", agent.Issuer, len(got))
	}
	return got[0], nil
}

// List returns what the holder has of the agent and can still use (SEP-20).
func (c *Client) List(ctx context.Context, agent Agent) ([]Capability, error) {
	return c.capabilities(ctx, agent, "a2a/capabilities/list", powerbox.Object())
}

// Revoke ends a capability and everything that descends from it (SEP-20). What
// was derived offline is ended by showing its chain, with the key of any of its
// holders: the one that made it, one before that, or its own (EXT-15).
func (c *Client) Revoke(ctx context.Context, agent Agent, held Capability) error {
	if held.RevocationID == "" {
		return c.revokeLink(ctx, agent, held)
	}
	_, err := c.withSession(ctx, agent, "a2a/capabilities/revoke", powerbox.Object(text("revocationId", held.RevocationID)))
	return err
}

func (c *Client) revokeLink(ctx context.Context, agent Agent, held Capability) error {
	if len(held.Chain) < 2 {
		return errors.New("holder: the capability has no revocation id and no chain of derived links; ask an operator to revoke it")
	}
	_, err := c.withKey(ctx, agent, "a2a/capabilities/revoke", powerbox.Object(powerbox.Member{Name: "chain", Value: texts(held.Chain)}))
	return err
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// wireCapability is a capability in a result (SEP-6).
type wireCapability struct {
	ID              string    `json:"id"`
	Grant           string    `json:"grant"`
	Token           string    `json:"token"`
	Operations      []string  `json:"operations"`
	Expires         time.Time `json:"expires"`
	RevocationID    string    `json:"revocationId"`
	Principal       string    `json:"principal"`
	Task            string    `json:"task"`
	Tenant          string    `json:"tenant"`
	Legacy          bool      `json:"legacy"`
	ResourceHandles []struct {
		Handle      string `json:"handle"`
		DisplayName string `json:"displayName"`
	} `json:"resourceHandles"`
	NextResources string `json:"nextResources"`

	OutsideScope []string `json:"outsideScope"`
}

func (c *Client) capabilities(ctx context.Context, agent Agent, method string, params powerbox.Value) ([]Capability, error) {
	raw, err := c.withSession(ctx, agent, method, params)
	if err != nil {
		return nil, err
	}
	return c.readCapabilities(agent, method, raw)
}

// readCapabilities takes in the result of a method of the extension.
func (c *Client) readCapabilities(agent Agent, method string, raw json.RawMessage) ([]Capability, error) {
	var result struct {
		Capabilities []wireCapability `json:"capabilities"`
		Pending      *struct {
			ID          string `json:"id"`
			ApprovalURL string `json:"approvalUrl"`
			Interval    int    `json:"interval"`
		} `json:"pending"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("holder: %s: the result is not understood: %w", method, err)
	}
	if p := result.Pending; p != nil {
		return nil, &Pending{ID: p.ID, ApprovalURL: p.ApprovalURL, Interval: p.Interval}
	}
	out := make([]Capability, len(result.Capabilities))
	for i, w := range result.Capabilities {
		held, err := c.accept(agent, w)
		if err != nil {
			return nil, fmt.Errorf("holder: %s: capability %q: %w", method, w.ID, err)
		}
		out[i] = held
	}
	return out, nil
}

// accept takes a capability in. One that is not for our key, or not from the
// agent that was asked, would be useless and is refused at once.
func (c *Client) accept(agent Agent, w wireCapability) (Capability, error) {
	out := Capability{
		ID: w.ID, Agent: agent.Issuer, Grant: w.Grant, Operations: w.Operations, Expires: w.Expires,
		RevocationID: w.RevocationID, Principal: w.Principal, Task: w.Task, Tenant: w.Tenant, Legacy: w.Legacy,
		NextResources: w.NextResources, OutsideScope: w.OutsideScope,
	}
	for _, h := range w.ResourceHandles {
		out.Handles = append(out.Handles, Handle{h.Handle, h.DisplayName})
	}
	if w.Token == "" || w.Token == w.ID {
		return out, nil // by reference only
	}
	if c.Key == nil {
		return Capability{}, errors.New("the token is bound to a key, and the client has none")
	}
	if strings.HasPrefix(w.Token, "{") {
		out.ScopeToken = w.Token
		return out, c.acceptScopes(agent, w.Token)
	}
	verified, err := trusted([]string{w.Token}, c.Now())
	switch {
	case err != nil:
		return Capability{}, err
	case verified.Holder() != c.Key.Public():
		return Capability{}, errors.New("the token is bound to another key than the client's")
	case verified.Issuer() != agent.Issuer:
		return Capability{}, fmt.Errorf("the token is of issuer %q; want %q", verified.Issuer(), agent.Issuer)
	}
	out.Chain = []string{w.Token}
	return out, nil
}

// fromChain describes a chain that was derived offline.
func fromChain(chain []string, now time.Time) (Capability, token.Verified, error) {
	v, err := trusted(chain, now)
	if err != nil {
		return Capability{}, v, err
	}
	private, _ := v.Private()
	out := Capability{
		ID: v.ID(), Agent: v.Issuer(), Grant: private.Grant, Principal: private.Principal,
		Chain: slices.Clone(chain), Expires: v.Authority().Window().Until,
	}
	for _, clause := range v.Tools() {
		if name := clause.Pattern.Name(); !reserved(name) {
			out.Operations = append(out.Operations, wireName(name, out.Grant))
		}
	}
	return out, v, nil
}

// reserved reports whether an operation stands for what A2A itself does with a
// task; every capability has some of them.
func reserved(name string) bool { return strings.HasPrefix(name, "a2a.") }

// wireName returns an operation's name without the agent and the grant in
// front of it (SEP-25).
func wireName(qualified, grant string) string {
	if _, name, ok := strings.Cut(qualified, "/"+grant+"/"); ok && grant != "" {
		return name
	}
	return qualified
}

// Permits reports whether the capability, as far as its holder can tell,
// permits an operation with those arguments at that time. The agent decides.
func (held Capability) Permits(op powerbox.Operation, arguments powerbox.Value, now time.Time) bool {
	if held.Chain == nil {
		return now.Before(held.Expires) && (reserved(op.String()) || slices.Contains(held.Operations, wireName(op.String(), held.Grant)))
	}
	v, err := trusted(held.Chain, now)
	if err != nil {
		return false
	}
	attempt, err := powerbox.Invocation(op, arguments)
	return err == nil && powerbox.Decide(attempt, v.Authority(), now).Allowed
}
