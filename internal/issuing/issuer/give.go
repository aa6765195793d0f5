package issuer

import (
	"context"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// Gift is what an operator gives a caller whose call was denied: one operation with limits
// on its arguments. It is used by calls of that holder, for that principal, that present
// nothing. See ADR 127.
type Gift struct {
	Agent     string
	Operation string // qualified
	Caller    string // configured name, "" for none
	Holder    string
	Principal string
	Limits    powerbox.Shape
	Uses      int // 1 to [MaxUses]
	Until     time.Time
	Record    string // id of the denied call
	By        string // the operator
}

// Given says on a capability who gave it, and after which denied call.
type Given struct{ By, Record string }

// MaxUses is how often a gift can be used, at most.
const MaxUses = 1000

// Prepare makes the capability of a gift without storing it: the meet of the offer, the
// gift and the policy. What policy leaves to people, and what needs the handle of a
// resource, its caller has to ask for.
func (i *Issuer) Prepare(ctx context.Context, g Gift) (Capability, *Refusal, error) {
	agent, grant, name, refusal := i.offered(g)
	if refusal != nil {
		return Capability{}, refusal, nil
	}
	caller, err := i.receiver(ctx, g)
	if err != nil {
		return Capability{}, nil, err
	}
	if refusal = checkCaller(caller); refusal == nil {
		refusal = i.checkFrozen(agent.ID, caller)
	}
	if refusal != nil {
		return Capability{}, refusal, nil
	}
	c, refusal := i.gift(agent, grant, name, caller, g)
	return c, refusal, nil
}

// offered finds what a gift is of.
func (i *Issuer) offered(g Gift) (*Agent, Grant, string, *Refusal) {
	agent, ok := i.all()[g.Agent]
	if !ok {
		return nil, Grant{}, "", refuse(CodeAgentUnknown, "no agent %q is protected here", g.Agent)
	}
	for _, grant := range agent.Grants {
		name, ours := unqualify(agent.ID, grant.ID, g.Operation)
		if !ours || !slices.Contains(agent.operationsOf(grant), name) {
			continue
		}
		switch _, handle := agent.shapeOf(grant.ID, name); {
		case grant.Legacy:
			return nil, grant, "", refuse(CodeLegacyNotAllowed, "grant %q is a legacy grant; its caller has to request it", grant.ID)
		case handle != "":
			return nil, grant, "", refuse(CodeNothingGranted, "argument %q of %s is the handle of a resource, which is sealed for one capability; the caller has to request a capability for the resource", handle, g.Operation)
		}
		return agent, grant, name, nil
	}
	return nil, Grant{}, "", refuse(CodeGrantUnknown, "agent %q offers no operation %q", g.Agent, g.Operation)
}

// receiver is the holder of a gift, with what its newest capability at the agent says of its
// user. Sessions are not kept: the policy is asked with the session's own groups at use.
func (i *Issuer) receiver(ctx context.Context, g Gift) (identity.Caller, error) {
	caller := identity.Caller{Principal: g.Principal}
	err := i.config.Store.View(ctx, func(r Reader) error {
		held, err := r.HeldBy(HeldQuery{Agent: g.Agent, Holder: g.Holder, Principal: g.Principal, Limit: 1})
		if err == nil && len(held) == 1 {
			caller, err = held[0].subject()
		}
		return err
	})
	caller.Agent, caller.Holder.ID = g.Caller, g.Holder
	return caller, err
}

func (i *Issuer) gift(agent *Agent, grant Grant, name string, caller identity.Caller, g Gift) (Capability, *Refusal) {
	if g.Uses < 1 || g.Uses > MaxUses {
		return Capability{}, refuse(CodeNothingGranted, "uses is %d; want 1 to %d", g.Uses, MaxUses)
	}
	p := i.rule(agent, grant, caller, []string{name})
	p.selected = p.visible // the conditions of every ruling hold
	lifetime, approval := p.terms([]string{name}, i.config.MaximumLifetime)
	switch {
	case !p.anything():
		return Capability{}, refuse(CodeNothingGranted, "policy does not allow %s to %s; change the policy first", g.Operation, g.Principal)
	case approval != "":
		return Capability{}, refuse(CodeApprovalRequired, "policy leaves %s to people (%s): the caller requests it, and they answer", g.Operation, approval)
	}
	now := i.config.Now().UTC().Truncate(time.Second)
	limits := Request{Purpose: "given by " + g.By + " after the denial " + g.Record, Expires: g.Until, Operations: []string{name}}
	c, err := i.newCapability(agent, grant, caller, limits)
	if err != nil {
		return c, refuse(CodeNothingGranted, "%v", err)
	}
	for _, item := range p.selected {
		c.Handles = append(c.Handles, i.handle(agent, c.Root, item))
	}
	c.Given, c.Attenuable, c.Created = Given{g.By, g.Record}, false, now
	if c.Budgets.Uses == 0 || g.Uses < c.Budgets.Uses {
		c.Budgets.Uses = g.Uses
	}
	until := i.until(now, grant, lifetime, caller, limits)
	if !until.After(now) {
		return c, refuse(CodeExpiryInvalid, "the end %s has passed; name a later one", g.Until.UTC().Format(time.RFC3339))
	}
	if c.Authority, err = i.giftAuthority(agent, grant, name, p, c, g, powerbox.Window{From: now, Until: until}); err != nil {
		return c, refuse(CodeNothingGranted, "%v", err)
	}
	if c.Expires = c.Authority.Window().Until; len(c.Operations()) == 0 {
		return c, refuse(CodeNothingGranted, "nothing is left of the limits within what the agent offers and the policy allows")
	}
	return c, nil
}

// giftAuthority is the meet of offer and limits. Policy has allowed the operation, which
// takes no handle.
func (i *Issuer) giftAuthority(agent *Agent, grant Grant, name string, p permitted, c Capability, g Gift, window powerbox.Window) (powerbox.Authority, error) {
	met, err := i.authority(agent, grant, p, c, []string{name}, Request{Operations: []string{name}}, window)
	if err != nil {
		return met, err
	}
	op, err := operation(g.Operation)
	if err != nil {
		return met, err
	}
	reserved, err := i.reserved(Request{})
	if err != nil {
		return met, err
	}
	limits, err := powerbox.NewAuthority(window, 0, append(reserved, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: g.Limits})...)
	if err != nil {
		return met, err
	}
	return met.Meet(limits), nil
}

// Give stores the capability of a gift, on record under the operator's name.
func (i *Issuer) Give(ctx context.Context, g Gift) (Capability, *Refusal, error) {
	c, refusal, err := i.Prepare(ctx, g)
	if refusal != nil || err != nil {
		return c, refusal, err
	}
	record, err := i.newRecord(g.Agent, identity.Caller{Agent: g.By, Principal: g.Principal}, action.OperatorGrant, evidence.Intent{
		Operation: OperationCapability, Details: details(map[string]any{"denied": g.Record, "caller": g.Caller, "holder": g.Holder, "uses": c.Budgets.Uses}),
	})
	if err != nil {
		return c, nil, err
	}
	receiver := identity.Caller{Principal: g.Principal, Agent: g.Caller, Holder: identity.Holder{ID: g.Holder}}
	refusal, err = i.issue(ctx, record, receiver, []Capability{c}, nil)
	return c, refusal, err
}

// GivenTo returns what operators gave a caller for an operation, as far as policy allows it
// to the session of now: its groups can be others than those that the operator saw.
func (i *Issuer) GivenTo(ctx context.Context, agentID string, caller identity.Caller, operation powerbox.Operation) ([]Capability, error) {
	agent, ok := i.all()[agentID]
	if !ok || checkCaller(caller) != nil {
		return nil, nil
	}
	at := slices.IndexFunc(agent.Grants, func(g Grant) bool {
		name, ours := unqualify(agentID, g.ID, operation.String())
		return ours && slices.Contains(agent.operationsOf(g), name)
	})
	if at < 0 {
		return nil, nil
	}
	var held []Capability
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		held, err = r.HeldBy(HeldQuery{Agent: agentID, Holder: caller.Holder.ID, Principal: caller.Principal, Grant: agent.Grants[at].ID, After: i.config.Now(), Limit: listLimit})
		return err
	})
	return slices.DeleteFunc(held, func(c Capability) bool { return !c.given() || i.Dead(c) || !i.permitsNow(agent, c, caller) }), err
}

// permitsNow asks the policy about a gift for the session of its holder.
func (i *Issuer) permitsNow(agent *Agent, c Capability, caller identity.Caller) bool {
	permits := func(op string, item *catalogue.Item) bool {
		r := i.config.Policy.Permits(caller, c.Agent, c.Grant, op, item)
		return r.Allow && r.Approval == ""
	}
	return !slices.ContainsFunc(c.Operations(), func(op string) bool {
		return !permits(op, nil) && !slices.ContainsFunc(c.Handles, func(h Handle) bool {
			item := agent.resource(h)
			return item != nil && permits(op, item)
		})
	})
}

// given reports whether an operator gave the capability. No party presents it.
func (c Capability) given() bool { return c.Given != Given{} }

// Presentable is [Issuer.OnRecord] for a capability that a caller presents: what an operator
// gave is none, since only [Issuer.GivenTo] asks the policy about the session.
func (i *Issuer) Presentable(ctx context.Context, id string) (Capability, error) {
	c, err := i.OnRecord(ctx, id)
	if c.given() {
		return Capability{}, err
	}
	return c, err
}

// Recorder is the name under which records are written here.
func (i *Issuer) Recorder() string { return i.config.Recorder }
