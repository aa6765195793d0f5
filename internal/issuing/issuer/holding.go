package issuer

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// listLimit is how many capabilities a list has at the most.
const listLimit = 256

// List returns what a holder holds of one agent for the principal of its
// session and can still use, newest first: those of the newest 256 that are
// not revoked.
func (i *Issuer) List(ctx context.Context, agentID string, caller identity.Caller) ([]Capability, error) {
	if refusal := checkCaller(caller); refusal != nil {
		return nil, refusal
	}
	query := HeldQuery{Agent: agentID, Holder: caller.Holder.ID, Principal: caller.Principal, After: i.config.Now(), Limit: listLimit}
	var held []Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		held, err = r.HeldBy(query)
		return err
	})
	// What a person gave for one call is the gateway's that held it: no other party presents
	// it, or learns its id (ATK-58).
	return slices.DeleteFunc(held, func(c Capability) bool { return c.Once || c.given() || i.Dead(c) }), err
}

// Capability returns what a reference stands for, to every caller; whether it may
// be used is for the caller of this to check.
func (i *Issuer) Capability(ctx context.Context, id string) (Capability, error) {
	var c Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		c, err = r.Capability(id)
		return err
	})
	return c, err
}

// usable refuses a capability that cannot be used now, by this caller.
func (i *Issuer) usable(c Capability, agentID string, caller identity.Caller) *Refusal {
	switch now := i.config.Now(); {
	case c.ID == "", c.given(), caller.Holder.ID == "", c.Agent != agentID, c.Holder != caller.Holder.ID:
		// The same words for a missing capability, another agent's and another
		// holder's, and before all others: an id must not tell whether it exists,
		// and a capability without a holder is held by no party.
		return refuse(CodeCapabilityUnknown, "you hold no such capability of this agent")
	case caller.Principal != "" && c.Principal != caller.Principal:
		return refuse(CodeNotPrincipal, "the capability was issued for another user than the session's")
	case i.Dead(c):
		return refuse(CodeCapabilityRevoked, "the capability, or one that it descends from, has been revoked")
	case !c.Expires.After(now):
		return refuse(CodeCapabilityExpired, "the capability has expired")
	case c.Card != "" && i.Frozen(cardTarget(c.Agent, c.Card)):
		return refuse(CodeCardWidened, "the agent's card says more than when this was granted; it continues when an operator consents, and a new grant is made with the new card in view")
	case i.FrozenAny(append(c.Links(), c.Through...)):
		return refuse(CodeFrozen, "an operator stopped the capability, one that it descends from, or a holder that it came through; asking again does not help until an operator thaws it")
	}
	// Regardless of the caller, the user behind the capability is its own.
	caller.Principal = c.Principal
	return i.checkFrozen(c.Agent, caller)
}

// Held returns a capability of any agent that the caller holds and can use. A
// refusal is recorded if the caller is known: in the chain of the agent
// that issued the capability, or of the issuer itself where none did.
func (i *Issuer) Held(ctx context.Context, caller identity.Caller, id string) (Capability, error) {
	c, err := i.Capability(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Capability{}, err
	}
	refusal := i.usable(c, c.Agent, caller)
	if refusal == nil {
		return c, nil
	}
	if requester(caller) == "" {
		return Capability{}, refusal
	}
	agentID := c.Agent
	if agentID == "" {
		agentID = issuerItself
	}
	record, err := i.newRecord(agentID, caller, action.CapabilityUse, evidence.Intent{
		Operation: OperationCapability, Details: details(map[string]any{"capability": id}),
	})
	if err != nil {
		return Capability{}, err
	}
	return Capability{}, i.denied(ctx, record, refusal)
}

// LiveOf returns what a holder can still use: the capabilities on record that were
// issued to it, by its configured name or its holder id, and those that were
// narrowed from them for others. Expired and revoked ones are left out, frozen
// ones are not. At most 10,000 are looked at.
func (i *Issuer) LiveOf(ctx context.Context, holder string) ([]Capability, error) {
	var out []Capability
	q := TreeQuery{After: i.config.Now(), Holders: []string{holder}, Requesters: []string{holder}, Limit: liveLimit}
	err := i.config.Store.View(ctx, func(r Reader) error {
		out = nil
		for c, err := range r.Trees(q) {
			if err != nil {
				return err
			}
			if !i.Dead(c) {
				out = append(out, c)
			}
		}
		return nil
	})
	return out, err
}

const (
	// livePage is how many capabilities are read at a time, and liveScan how many are
	// looked at for one answer. They bound its time and memory.
	livePage = 500
	liveScan = 2000
)

// InForce returns up to q.Limit capabilities in force that match, the one that was issued
// last first. Expired and revoked ones are left out, frozen ones are not. A holder without
// a colon is the configured name of a calling agent. next is what q.Before is for the next
// page, "" after the last; a page can be empty and have a next one.
func (i *Issuer) InForce(ctx context.Context, q LiveQuery) (page []Capability, next string, err error) {
	limit := q.Limit
	if q.Holder != "" && !strings.Contains(q.Holder, ":") {
		q.Requester, q.Holder = q.Holder, ""
	}
	q.After, q.Limit = i.config.Now(), min(livePage, limit+1)
	err = i.config.Store.View(ctx, func(r Reader) error {
		page, next = nil, ""
		q := q
		for looked := 0; ; looked += q.Limit {
			found, err := r.LiveBefore(q)
			if err != nil {
				return err
			}
			for _, c := range found {
				if i.Dead(c) {
					continue
				}
				if len(page) == limit {
					next = page[limit-1].ID
					return nil
				}
				page = append(page, c)
			}
			if len(found) < q.Limit {
				return nil
			}
			q.Before = found[len(found)-1].ID
			if q.Limit = livePage; looked >= liveScan {
				next = q.Before
				return nil
			}
		}
	})
	return page, next, err
}

// liveLimit bounds what LiveOf looks at.
const liveLimit = 10000

// OnRecord returns the capability of an id from memory, or from the store the
// first time: a capability never changes. The zero Capability stands for one
// that is not on record.
func (i *Issuer) OnRecord(ctx context.Context, id string) (Capability, error) {
	if c, ok := i.known.get(id); ok {
		return c, nil
	}
	c, err := i.Capability(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return Capability{}, nil
	}
	if err == nil {
		i.known.put(c)
	}
	return c, err
}
