package issuer

import (
	"context"
	"errors"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Client is an OAuth client that sent a person here for a request (ADR 129).
type Client struct {
	ID   string
	Name string // in its own words, "" for none
	// Returns is the origin to which the browser is sent with the answer.
	Returns string
	// Continue is the path of the authorization request at this server.
	Continue string
	// Asserted is the identity provider that has consented in the person's place, "" for none.
	// There is no browser then, and policy alone says whether a person is asked.
	Asserted string `json:",omitempty"`
}

// Consent finds the question about an authorization request of a client, or asks it, and
// returns the key of the request, for [Issuer.Redeem]. Policy cannot answer it: every
// authorization request has a question. Of the requested grants those that policy gives
// nothing of are left out.
func (i *Issuer) Consent(ctx context.Context, agentID string, caller identity.Caller, req Request) (Asked, string, error) {
	record, err := i.requestRecord(agentID, caller, req)
	if err != nil {
		return Asked{}, "", err
	}
	key, err := requestKey(agentID, caller, req)
	if err != nil {
		return Asked{}, "", err
	}
	asked, known, err := i.asker.Find(ctx, key)
	if err != nil || known && len(asked.Issued) == 0 {
		return asked, key, err
	}
	wanted, refusal := i.prepare(ctx, agentID, caller, req)
	if refusal == nil {
		_, refusal, err = i.askAnew(ctx, record, caller, req, wanted, key)
	}
	if refusal != nil {
		return Asked{}, key, i.denied(ctx, record, refusal)
	}
	if pending := (*Pending)(nil); errors.As(err, &pending) {
		return pending.Asked, key, nil
	}
	return Asked{}, key, err
}

// ErrNotConsented says that no person has approved the request, or the approval has ended.
var ErrNotConsented = errors.New("no person has approved this request, or the approval has ended")

// Redeem issues what people approved of an authorization request, once. A second time is
// [ErrUsed], with the question that has the issued capabilities.
func (i *Issuer) Redeem(ctx context.Context, caller identity.Caller, key string) ([]Capability, Asked, error) {
	asked, known, err := i.asker.Find(ctx, key)
	agent := asked.Approved.Agent
	switch {
	case err != nil:
		return nil, asked, err
	case len(asked.Issued) > 0:
		return nil, asked, ErrUsed
	case !known, asked.State != StateApproved, !asked.isFor(agent, caller, key):
		return nil, asked, ErrNotConsented
	}
	req := Request{Purpose: asked.Approved.Asker.Purpose, approved: &asked}
	for _, p := range asked.Approved.Parts {
		req.Grants = append(req.Grants, p.Grant)
	}
	record, err := i.requestRecord(agent, caller, req)
	if err != nil {
		return nil, asked, err
	}
	issued, refusal, err := i.requested(ctx, record, agent, caller, req)
	switch {
	case refusal != nil:
		return nil, asked, i.denied(ctx, record, refusal)
	case errors.Is(err, ErrUsed): // by the same code at the same time, or taken back
		if asked, _, err = i.asker.Find(ctx, key); err == nil {
			err = ErrUsed
		}
		return nil, asked, err
	}
	return issued, asked, err
}

// requestRecord begins the record of a request for capabilities.
func (i *Issuer) requestRecord(agentID string, caller identity.Caller, req Request) (evidence.Record, error) {
	return i.newRecord(agentID, caller, action.CapabilityRequest, evidence.Intent{
		Operation: OperationCapability, Details: details(i.wanted(agentID, req)),
	})
}

// leaves reports whether grants that policy gives nothing of are left out of a request: a client
// asks for all that there is.
func (r Request) leaves() bool { return r.Client != nil && r.approved == nil }

// InForceOf returns those of some capabilities that are neither ended nor revoked, and of
// them those that can be used now: an operator has stopped nothing that they need.
func (i *Issuer) InForceOf(ctx context.Context, ids []string) (live, usable []Capability, err error) {
	for _, id := range ids {
		c, err := i.OnRecord(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if c.ID == "" || i.Dead(c) || !c.Expires.After(i.config.Now()) {
			continue
		}
		if live = append(live, c); !i.Stopped(c) {
			usable = append(usable, c)
		}
	}
	return live, usable, nil
}
