package link

import (
	"context"
	"encoding/json"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Scope tokens, delegation links and the models ROLE and ATTRIBUTE of the authorization
// extension, as a remote gateway asks the server about them. What the server has issued
// and which link took a nonce first never change, so they are kept. What policy allows is
// asked for every call.

// ScopesQuery asks what a scope token was issued for.
type ScopesQuery struct {
	Hash string `json:"hash"`
}

// ScopesIssued is the capability on record that has a scope token, and the scopes of its
// operations by name; the zero one is none.
type ScopesIssued struct {
	ID     string            `json:"id"`
	Scopes map[string]string `json:"scopes,omitempty"`
}

// NonceQuery asks whether a nonce names a delegation link.
type NonceQuery struct {
	ID    string `json:"id"`    // of delegator and nonce
	Link  string `json:"link"`  // hash of the link
	Until int64  `json:"until"` // end of the link, Unix seconds
}

// NonceAnswer says whether it does.
type NonceAnswer struct {
	Named bool `json:"named"`
}

// PolicyQuery asks what policy allows a caller, whom the gateway has authenticated.
type PolicyQuery struct {
	Principal  string     `json:"principal"`
	Groups     []string   `json:"groups,omitempty"`
	Roles      []string   `json:"roles,omitempty"`
	Attributes Attributes `json:"attributes,omitempty"`
	Agent      string     `json:"agent,omitempty"` // configured name of the caller
	Holder     string     `json:"holder,omitempty"`
}

// PolicyAnswer is what it allows.
type PolicyAnswer struct {
	Authority json.RawMessage `json:"authority"`
}

// ScopeRecords tells what scope tokens were issued for: a gate.ScopeRecords.
type ScopeRecords struct{ *Remote }

// NotIssued refuses a scope token that is on no record of the agent, at the server as at a
// gateway.
func NotIssued() error {
	return &gate.Refusal{Reasons: []evidence.Reason{{
		Code: gate.CodeCapabilityUnknown, Message: "the scope token was not issued by this agent",
	}}}
}

// Issued implements gate.ScopeRecords.
func (r ScopeRecords) Issued(ctx context.Context, _ *gate.Target, hash string) (gate.Issued, error) {
	issued, ok := r.scopes.get(hash)
	if !ok {
		if err := r.Client.call(ctx, PathScopes, ScopesQuery{hash}, &issued); err != nil {
			return gate.Issued{}, err
		}
	}
	if issued.ID == "" {
		return gate.Issued{}, NotIssued()
	}
	r.scopes.put(hash, issued)
	c, err := r.onRecord(ctx, issued.ID)
	if err != nil {
		return gate.Issued{}, err
	}
	if c.ID == "" {
		return gate.Issued{}, Unknown()
	}
	held, err := c.held()
	held.Links, held.Digest = c.Lineage, ""
	return gate.Issued{Held: held, Scopes: issued.Scopes}, err
}

// Nonces asks the server which delegation link a nonce names: a gate.Nonces.
type Nonces struct{ *Remote }

// Name implements gate.Nonces.
func (n Nonces) Name(ctx context.Context, l gate.NamedLink, _ time.Time) (bool, error) {
	if link, ok := n.links.get(l.ID); ok && link == l.Link {
		return true, nil
	}
	var a NonceAnswer
	if err := n.Client.call(ctx, PathLink, NonceQuery{l.ID, l.Link, l.Until.Unix()}, &a); err != nil {
		return false, err
	}
	if a.Named {
		n.links.put(l.ID, l.Link)
	}
	return a.Named, nil
}

// ByPolicy returns what policy allows a caller without a capability. It is never kept:
// policies change.
func (r *Remote) ByPolicy(ctx context.Context, _ string, caller identity.Caller) (powerbox.Authority, error) {
	var a PolicyAnswer
	q := PolicyQuery{
		Principal: caller.Principal, Groups: caller.Groups, Roles: caller.Roles, Attributes: AttributesOf(caller.Attributes), Agent: caller.Agent, Holder: caller.Holder.ID,
	}
	if err := r.Client.call(ctx, PathPolicy, q, &a); err != nil {
		return powerbox.Authority{}, err
	}
	v, err := powerbox.ParseValue(a.Authority)
	if err != nil {
		return powerbox.Authority{}, err
	}
	return powerbox.ParseAuthority(v)
}
