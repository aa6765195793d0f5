package issuer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Request is a request for capabilities, one for each grant (SEP-4).
type Request struct {
	Grants     []string
	Purpose    string           // required, in the agent's own words
	Query      *catalogue.Query // which resources; nil for none
	Expires    time.Time        // zero for as long as the issuer allows
	Brief      time.Time        // end of what no person was asked about; zero for that of Expires
	Operations []string         // narrower than the grants; empty for all of theirs
	Task       string           // A2A task or context that it is for, "" for the purpose alone
	Tenant     string           // of the agent, in which that task is; "" for none
	Push       bool             // whether push notifications are wanted as well
	Card       bool             // whether the extended card is wanted as well
	ScopeToken bool             // whether it is wanted as a scope token (EXT-5)
	// QueryText is Query as it was sent, by which the same request is known again.
	QueryText string
	// Of narrows single grants to some of their operations; a grant that is not there has
	// those of Operations.
	Of map[string][]string
	// Client sent a person here for the request, who answers it whatever policy says; nil
	// for a request that the caller made itself.
	Client *Client

	approved *Asked // the answer of a person, nil if no one was asked
}

// Request issues what the grants permit, the request asks and the policy
// allows the principal: the meet of the three (SEP-7). All grants are issued
// or none.
func (i *Issuer) Request(ctx context.Context, agentID string, caller identity.Caller, req Request) ([]Capability, error) {
	record, err := i.requestRecord(agentID, caller, req)
	if err != nil {
		return nil, err
	}
	if live := i.looksUp(agentID, req); live != nil {
		return i.held(ctx, live, record, agentID, caller, req)
	}
	return i.answered(ctx, record, agentID, caller, req)
}

// answered issues the request, or records its refusal.
func (i *Issuer) answered(ctx context.Context, record evidence.Record, agentID string, caller identity.Caller, req Request) ([]Capability, error) {
	issued, refusal, err := i.requested(ctx, record, agentID, caller, req)
	if refusal != nil {
		return nil, i.denied(ctx, record, refusal)
	}
	if err != nil {
		return nil, err
	}
	return issued, nil
}

// requested issues the request, or has a person asked if policy wants
// that.
func (i *Issuer) requested(ctx context.Context, record evidence.Record, agentID string, caller identity.Caller, req Request) ([]Capability, *Refusal, error) {
	issued, refusal := i.prepare(ctx, agentID, caller, req)
	if refusal != nil {
		return nil, refusal, nil
	}
	if slices.ContainsFunc(issued, func(c Capability) bool { return c.Wants != "" }) {
		return i.ask(ctx, record, caller, req, issued)
	}
	refusal, err := i.issue(ctx, record, caller, issued, req.approved)
	return issued, refusal, err
}

// prepare makes the capabilities without storing them.
func (i *Issuer) prepare(ctx context.Context, agentID string, caller identity.Caller, req Request) ([]Capability, *Refusal) {
	agent, ok := i.all()[agentID]
	if !ok {
		return nil, refuse(CodeAgentUnknown, "no agent %q is protected here", agentID)
	}
	if err := checkCaller(caller); err != nil {
		return nil, err
	}
	if err := i.checkFrozen(agentID, caller); err != nil {
		return nil, err
	}
	if err := i.checkRequest(agent, req); err != nil {
		return nil, err
	}
	var out []Capability
	var nothing *Refusal
	for _, id := range req.Grants {
		if req.approved.dropped(id) {
			continue
		}
		grant, _ := agent.Grant(id)
		c, err := i.grant(ctx, agent, grant, caller, req)
		if err != nil && err.Code == CodeNothingGranted && req.leaves() {
			nothing = err // a client asks for all that there is
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 && nothing != nil {
		return nil, nothing
	}
	return out, nil
}

func checkCaller(caller identity.Caller) *Refusal {
	if caller.Principal == "" {
		return refuse(CodeUnauthenticated, "the call has no session; present the user's access token for this agent")
	}
	if caller.Holder.ID == "" {
		return refuse(CodeHolderUnknown, "the session does not say who holds it; add a DPoP proof, a client certificate or a client id")
	}
	return nil
}

func (i *Issuer) checkRequest(agent *Agent, req Request) *Refusal {
	if strings.TrimSpace(req.Purpose) == "" {
		return refuse(CodePurposeMissing, "purpose is missing; say what the task is")
	}
	if len(req.Grants) == 0 {
		return refuse(CodeGrantUnknown, "grants is empty; name at least one of %s", strings.Join(grantIDs(agent), ", "))
	}
	for _, id := range req.Grants {
		grant, ok := agent.Grant(id)
		if !ok {
			return refuseWords(CodeGrantUnknown, id, "a grant that is not offered", "grant %q is not offered; the agent offers %s", id, strings.Join(grantIDs(agent), ", "))
		}
		if grant.Legacy && grant.Attenuable {
			return refuse(CodeLegacyNotAllowed, "grant %q is configured as legacy and attenuable, which cannot be", id)
		}
	}
	if !req.Expires.IsZero() && !req.Expires.Truncate(time.Second).After(i.config.Now()) {
		return refuse(CodeExpiryInvalid, "expires %s has passed; times are whole seconds, and what is beyond one is cut off", req.Expires.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

func grantIDs(agent *Agent) []string {
	ids := make([]string, len(agent.Grants))
	for n, g := range agent.Grants {
		ids[n] = g.ID
	}
	return ids
}

// grant makes the capability of one grant.
func (i *Issuer) grant(ctx context.Context, agent *Agent, grant Grant, caller identity.Caller, req Request) (Capability, *Refusal) {
	offered := agent.operationsOf(grant)
	p := i.rule(agent, grant, caller, offered)
	if refusal := i.selectResources(ctx, agent, grant, caller, asked(grant.ID, offered, req), req, &p); refusal != nil {
		return Capability{}, refusal
	}
	p.selected = req.approved.within(grant.ID, p.selected)
	lifetime, approval := p.terms(asked(grant.ID, offered, req), i.config.MaximumLifetime)
	if req.Client != nil && req.Client.Asserted == "" {
		approval = cmp.Or(approval, consentOf)
	}
	if approval != "" && i.asker == nil {
		return Capability{}, refuse(CodeApprovalRequired, "grant %q needs the approval of a %s, and this server cannot ask a person: people cannot log in to it", grant.ID, approval)
	}
	c, err := i.newCapability(agent, grant, caller, req)
	if req.approved == nil {
		c.Wants = approval
	} else {
		c.Approval = req.approved.ID
	}
	if err != nil {
		return Capability{}, refuse(CodeNothingGranted, "%v", err)
	}
	for _, item := range p.selected {
		c.Handles = append(c.Handles, i.handle(agent, c.Root, item))
	}
	c.NextResources = p.next
	now := i.config.Now().UTC().Truncate(time.Second)
	if approval == "" && req.approved == nil && !req.Brief.IsZero() && (req.Expires.IsZero() || req.Brief.Before(req.Expires)) {
		req.Expires = req.Brief
	}
	until := i.until(now, grant, lifetime, caller, req)
	if !until.After(now) {
		return Capability{}, refuse(CodeNothingGranted, "what could be issued of grant %q has ended, at %s; ask again", grant.ID, until.Format(time.RFC3339))
	}
	if c.Authority, err = i.authority(agent, grant, p, c, offered, req, powerbox.Window{From: now, Until: until}); err != nil {
		return Capability{}, refuse(CodeNothingGranted, "%v", err)
	}
	if len(c.Operations()) == 0 {
		return Capability{}, i.nothing(grant, p, req)
	}
	c.Created, c.Expires = now, c.Authority.Window().Until
	if c.Wants != "" {
		return c, nil // it is only shown to the approver
	}
	if req.ScopeToken {
		return i.mintScopes(agent, caller, c)
	}
	return i.mint(agent, caller, c)
}

// selectResources sets which resources the request selects, of a live collection or of
// the catalogue.
func (i *Issuer) selectResources(ctx context.Context, agent *Agent, grant Grant, caller identity.Caller, wanted []string, req Request, p *permitted) *Refusal {
	if req.Query == nil {
		return nil
	}
	if live := agent.live(req.Query.Collection()); live != nil {
		return i.selectLive(ctx, agent, grant, caller, live, wanted, req, p)
	}
	if req.Query.Limit() != 0 || req.Query.After() != "" {
		return refuse(CodeQueryInvalid, "resourceQuery: limit and after are for live collections; leave them out")
	}
	var err error
	if p.selected, err = req.Query.Select(p.visible); err != nil {
		return refuseWords(CodeQueryInvalid, req.QueryText, "the resourceQuery is invalid", "%v", err)
	}
	return nil
}

// asked returns the offered operations that a request wants of a grant.
func asked(grant string, offered []string, req Request) []string {
	wanted := req.Operations
	if some, narrowed := req.Of[grant]; narrowed {
		wanted = some
	}
	if len(wanted) == 0 {
		return offered
	}
	return slices.DeleteFunc(slices.Clone(offered), func(op string) bool { return !slices.Contains(wanted, op) })
}

// consentOf is who answers an authorization request that policy leaves to no other person.
const consentOf = "user"

// until is the earliest of everything that bounds a lifetime (SEP-8).
func (i *Issuer) until(now time.Time, grant Grant, lifetime time.Duration, caller identity.Caller, req Request) time.Time {
	until := now.Add(i.config.MaximumLifetime)
	bound := func(t time.Time) {
		if !t.IsZero() && t.Before(until) {
			until = t.UTC().Truncate(time.Second)
		}
	}
	if grant.MaximumLifetime > 0 {
		bound(now.Add(grant.MaximumLifetime))
	}
	bound(now.Add(lifetime))
	bound(caller.SessionExpires)
	bound(req.Expires)
	if req.approved != nil {
		bound(req.approved.part(grant.ID).Until)
	}
	return until
}

func (i *Issuer) newCapability(agent *Agent, grant Grant, caller identity.Caller, req Request) (Capability, error) {
	id, err := i.NewID("cap_")
	if err != nil {
		return Capability{}, err
	}
	revocation, err := i.NewID("rv_")
	if err != nil {
		return Capability{}, err
	}
	tenant := ""
	if req.Task != "" {
		tenant = req.Tenant // a capability without a task is valid in every tenant
	}
	return Capability{
		ID: id, Root: id, Agent: agent.ID, Grant: grant.ID, Principal: caller.Principal,
		Holder: caller.Holder.ID, Requester: caller.Agent, Purpose: req.Purpose, Task: req.Task, Tenant: tenant,
		RevocationID: revocation, Attenuable: grant.Attenuable, Legacy: grant.Legacy,
		Subject: subjectOf(caller), Card: i.Card(agent.ID), PolicyDigest: i.config.Policy.Digest(), Budgets: grant.Budgets,
	}, nil
}

// authority meets the offer with the request, as far as people have
// approved it where they were asked, and what policy allows (SEP-7, SEP-27).
func (i *Issuer) authority(agent *Agent, grant Grant, p permitted, c Capability, offered []string, req Request, window powerbox.Window) (powerbox.Authority, error) {
	var offer, wanted, allowed []powerbox.Clause
	requested := asked(grant.ID, offered, req)
	for _, name := range offered {
		op, err := operation(Qualify(agent.ID, grant.ID, name))
		if err != nil {
			return powerbox.Authority{}, err
		}
		pattern := powerbox.ExactPattern(op)
		shape, handle := agent.shapeOf(grant.ID, name)
		offer = append(offer, powerbox.Clause{Pattern: pattern, Shape: shape})
		if limits, ok := req.approved.limits(grant.ID, name); ok && slices.Contains(requested, name) {
			wanted = append(wanted, powerbox.Clause{Pattern: pattern, Shape: limits})
		}
		policyShape, ok, err := p.shape(name, handle, c)
		if err != nil {
			return powerbox.Authority{}, err
		}
		if ok {
			allowed = append(allowed, powerbox.Clause{Pattern: pattern, Shape: policyShape})
		}
	}
	reserved, err := i.reserved(req)
	if err != nil {
		return powerbox.Authority{}, err
	}
	met := powerbox.Authority{}
	for n, clauses := range [][]powerbox.Clause{offer, wanted, allowed} {
		a, err := powerbox.NewAuthority(window, depthOf(grant), append(clauses, reserved...)...)
		if err != nil {
			return powerbox.Authority{}, fmt.Errorf("grant %q: %w", grant.ID, err)
		}
		if n == 0 {
			met = a
			continue
		}
		met = met.Meet(a)
	}
	return met, nil
}

// depthOf is how often a capability of a grant may be passed on. What may not
// be attenuated may not be derived from offline either (SEP-12).
func depthOf(g Grant) int {
	if !g.Attenuable {
		return 0
	}
	return g.MaximumDepth
}

// reserved are the operations that every capability has: to start and continue
// with a task, to read it and to cancel it; push notifications and the extended
// card on request.
func (i *Issuer) reserved(req Request) ([]powerbox.Clause, error) {
	names := []string{OperationMessage, OperationTaskRead, OperationTaskCancel}
	if req.Push {
		names = append(names, OperationPush)
	}
	if req.Card {
		names = append(names, OperationCard)
	}
	var clauses []powerbox.Clause
	for _, name := range names {
		op, err := operation(name)
		if err != nil {
			return nil, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	return clauses, nil
}

// nothing says why the meet is empty, without saying what exists.
func (i *Issuer) nothing(grant Grant, p permitted, req Request) *Refusal {
	r := refuse(CodeNothingGranted, "nothing of grant %q is left after what was requested and what the user's policy allows", grant.ID)
	switch {
	case !p.anything():
		r.Details = append(r.Details, "the user's policy allows none of its operations")
	case req.Query == nil:
		r.Details = append(r.Details, "policy allows no requested operation on the agent itself, and the request has no resourceQuery; check the names of the operations, or name resources")
	default:
		r.Details = append(r.Details, "no resource that the user may access matches the resourceQuery, or no requested operation applies to it")
	}
	return r
}

// issue stores the capabilities and their record in one transaction.
func (i *Issuer) issue(ctx context.Context, record evidence.Record, caller identity.Caller, issued []Capability, by *Asked) (*Refusal, error) {
	for n := range issued {
		record.Details.Granted = append(record.Details.Granted, issued[n].Authority.Names()...)
	}
	record.Details.Capability, record.Intent.Purpose = capabilityIDs(issued), purposeOnRecord(issued[0].Purpose)
	if slices.ContainsFunc(issued, func(c Capability) bool { return c.Legacy }) {
		record.Details.Reasons = append(record.Details.Reasons, evidence.Reason{Code: "legacy_grant", Message: "a legacy grant wraps a service without capability support: reduced security"})
	}
	if by != nil {
		record.Intent.Details = answering(record.Intent.Details, by.ID)
	}
	record.OutcomeStatus = evidence.Achieved
	var refusal *Refusal
	change := func(tx Tx, questions Questions) error {
		if refusal = i.checkRequires(tx, caller, issued); refusal != nil {
			return refusal
		}
		if refusal = i.checkTask(tx, caller, issued[0]); refusal != nil {
			return refusal
		}
		if by != nil {
			// What a person said is used up with what it gave (ATK-46).
			if err := questions.Use(by.ID, ids(issued)); err != nil {
				return err
			}
		}
		for _, c := range issued {
			if err := putCapability(tx, c); err != nil {
				return err
			}
		}
		_, err := tx.Append(record)
		return err
	}
	var err error
	if by != nil {
		err = i.asker.Update(ctx, change)
	} else {
		err = i.config.Store.Update(ctx, func(tx Tx) error { return change(tx, nil) })
	}
	if refusal != nil {
		return refusal, nil
	}
	return nil, err
}

// capabilityPutter is how much of a transaction putCapability uses.
type capabilityPutter interface {
	PutCapability(c Capability) error
	NameTask(agent, tenant, task string) error
}

// putCapability stores a capability and that its task has one.
func putCapability(tx capabilityPutter, c Capability) error {
	if c.Task != "" {
		if err := tx.NameTask(c.Agent, c.Tenant, c.Task); err != nil {
			return err
		}
	}
	return tx.PutCapability(c)
}

func capabilityIDs(cs []Capability) string { return strings.Join(ids(cs), ",") }

func ids(cs []Capability) []string {
	out := make([]string, len(cs))
	for n, c := range cs {
		out[n] = c.ID
	}
	return out
}

// checkTask refuses a capability for a task or context that is not the
// caller's: the caller holds the root capability that it belongs to, or made it
// without one. One that does not exist gets the same answer (SEP-22, ATK-18).
func (i *Issuer) checkTask(r TaskReader, caller identity.Caller, c Capability) *Refusal {
	if c.Task == "" {
		return nil
	}
	unknown := refuseWords(CodeTaskUnknown, c.Task, "no task or context of the caller has that id", "no task or context of yours has the id %q; leave task out to have a capability for the purpose alone", c.Task)
	owner, known, err := r.TaskOwner(c.Agent, c.Tenant, a2a.TaskKey(c.Task))
	if err == nil && !known {
		owner, known, err = r.TaskOwner(c.Agent, c.Tenant, a2a.ContextKey(c.Task))
	}
	if err != nil || !known || owner.Principal != i.Pseudonym(c.Agent, caller.Principal) || i.Revoked(taskTarget(c.Agent, c.Tenant, c.Task)) {
		return unknown
	}
	if owner.Holder != caller.Holder.ID {
		return unknown
	}
	return nil
}

// requiresLimit is how many live capabilities of a required grant are looked
// at: this happens inside the transaction, which everybody waits for.
const requiresLimit = 64

// checkRequires refuses a grant without every grant that it requires, in the
// same request or held already (SEP-2). Where the newest [requiresLimit] of a
// holder are all revoked, an older one does not help.
func (i *Issuer) checkRequires(r CapabilityReader, caller identity.Caller, issued []Capability) *Refusal {
	for _, c := range issued {
		agent := i.all()[c.Agent]
		grant, _ := agent.Grant(c.Grant)
		for _, needed := range grant.Requires {
			if slices.ContainsFunc(issued, func(o Capability) bool { return o.Grant == needed }) {
				continue
			}
			held, err := r.HeldBy(HeldQuery{
				Agent: c.Agent, Holder: caller.Holder.ID, Principal: caller.Principal, Grant: needed, After: i.config.Now(), Limit: requiresLimit,
			})
			if err != nil || !slices.ContainsFunc(held, func(o Capability) bool { return !i.Dead(o) }) {
				return refuse(CodeRequiresMissing, "grant %q is issued only together with %q, or to a holder of it", c.Grant, needed)
			}
		}
	}
	return nil
}
