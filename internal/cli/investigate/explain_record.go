package investigate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

func (x *explainer) stored(ctx context.Context, id string) (audit.Capability, error) {
	var c audit.Capability
	o, err := x.server()
	if err != nil {
		return c, err
	}
	if err := o.Get(ctx, "/v1/capabilities/"+url.PathEscape(id), &c); err != nil {
		return c, fmt.Errorf("capability %s: %w", id, err)
	}
	return c, nil
}

// capability explains a capability on record: the tree from its root to it.
func (x *explainer) capability(ctx context.Context, id string) (explanation, error) {
	c, err := x.stored(ctx, id)
	if err != nil {
		return explanation{}, err
	}
	e := explanation{Kind: "capability", ID: id, Verdict: "holds"}
	var before *audit.Capability
	for _, step := range append(slices.Clone(c.Ancestors), id) {
		s, err := x.stored(ctx, step)
		if err != nil {
			return explanation{}, err
		}
		e.Hops = append(e.Hops, hopOf(s, before))
		before = &s
	}
	e.fact("agent", "%s at %s", c.Agent, x.urlOf(c.Agent))
	e.fact("may", "%s", strings.Join(c.Operations, ", "))
	e.fact("grant", "%s", c.Grant)
	e.fact("for", "%s, by %s", c.Principal, cmp.Or(c.Requester, c.Holder))
	e.fact("purpose", "%q (the requester's words)", c.Purpose)
	e.fact("task", "%s", c.Task)
	e.fact("tenant", "%s", c.Tenant)
	if len(c.Resources) > 0 {
		e.fact("resources", "%s", strings.Join(c.Resources, ", "))
	}
	if c.Legacy {
		e.note("it wraps a service without capability support: reduced security")
	}
	request := fmt.Sprintf("powerbox request %s --grant %s --purpose '...' --key FILE --out capability.json", x.urlOf(c.Agent), c.Grant)
	if c.Revoked {
		e.fail(gate.CodeRevoked, "it, or one that it descends from, was revoked")
	}
	if c.Frozen {
		e.fail(gate.CodeFrozen, "an operator stopped it, or its agent, holder or user")
	}
	if c.Expired {
		e.fail(string(powerbox.CodeExpired), "it expired at "+plain.Time(c.Expires))
	}
	if e.First != nil {
		e.Verdict, e.Fix = "fails", "ask again: "+request
		if e.First.Code == gate.CodeFrozen {
			e.Fix = thawFix
		}
	}
	return e, nil
}

// thawFix is the command that ends a freeze.
const thawFix = "see who stopped it and why with powerbox freeze; powerbox thaw TARGET --reason '...' lets it go on"

// hopOf says what a capability has less than its parent.
func hopOf(c audit.Capability, parent *audit.Capability) hop {
	h := hop{ID: c.ID, Holder: c.Holder, Expires: plain.Time(c.Expires), Narrowed: []string{}, Holds: !c.Revoked && !c.Expired && !c.Frozen}
	switch {
	case c.Revoked:
		h.Problem = "revoked, or one above it"
	case c.Frozen:
		h.Problem = "frozen by an operator"
	case c.Expired:
		h.Problem = "expired"
	}
	if parent == nil {
		return h
	}
	for _, op := range parent.Operations {
		if !slices.Contains(c.Operations, op) {
			h.Narrowed = append(h.Narrowed, "without "+op)
		}
	}
	if n := len(parent.Resources) - len(c.Resources); n > 0 {
		h.Narrowed = append(h.Narrowed, fmt.Sprintf("%d of %d resources", len(c.Resources), len(parent.Resources)))
	}
	if d := parent.Expires.Sub(c.Expires); d > 0 {
		h.Narrowed = append(h.Narrowed, fmt.Sprintf("expires %s earlier", d.Truncate(time.Second)))
	}
	if c.Holder != parent.Holder {
		h.Narrowed = append(h.Narrowed, "for another holder")
	}
	return h
}

// lastDenied is the id of the newest decision that was a denial.
func (x *explainer) lastDenied(ctx context.Context) (string, error) {
	o, err := x.server()
	if err != nil {
		return "", err
	}
	records, err := o.Records(ctx, audit.Query{Decision: string(evidence.Deny), Limit: 1})
	if err == nil && len(records) == 0 {
		err = errors.New("nothing was denied yet")
	}
	if err != nil {
		return "", err
	}
	return records[0].ID, nil
}

// decision explains a record: who tried what, what each layer had, and why it
// was decided as it was.
func (x *explainer) decision(ctx context.Context, id string) (explanation, error) {
	o, err := x.server()
	if err != nil {
		return explanation{}, err
	}
	r, err := o.Record(ctx, id)
	if err != nil {
		return explanation{}, fmt.Errorf("decision %s: %w", id, err)
	}
	e := explanation{Kind: "decision", ID: id, Verdict: audit.Verdict(r)}
	e.describe(x, r)
	told := map[[2]string]bool{} // two attempts of a call may fail for the same reason
	for _, reason := range r.Details.Reasons {
		if f := [2]string{reason.Code, reason.Message}; !told[f] {
			told[f] = true
			e.fail(reason.Code, reason.Message)
		}
	}
	if e.First != nil {
		e.Fix = x.decisionFix(r, r.Details.Reasons[0])
		for _, reason := range r.Details.Reasons[1:] {
			if reason.Code == gate.CodeScope && e.First.Code != gate.CodeScope {
				e.note("that is not enough: also %s", x.decisionFix(r, reason))
				break
			}
		}
		if audit.Waits(r.Decision, r.Details.Reasons) && r.OutcomeStatus == "" {
			e.Fix = "an approver answers on the page, or with powerbox approval list and approve"
		}
	}
	return e, x.under(ctx, r, &e)
}

// under adds the capability that a decision was made on.
func (x *explainer) under(ctx context.Context, r evidence.Record, e *explanation) error {
	id, unverified := strings.CutPrefix(r.Details.Capability, "unverified:")
	if id == "" || slices.Contains([]action.Class{action.Revoke, action.Freeze}, action.ClassOf(r.ActionType)) {
		return nil
	}
	if unverified {
		e.note("the caller presented %s, and what it presented did not verify", id)
	}
	c, err := x.capability(ctx, id)
	if errors.Is(err, audit.ErrNotThere) {
		e.note("the server does not have %s; a holder may have derived it offline: explain the holder's capability file", id)
		return nil
	}
	if err != nil {
		return err
	}
	e.Hops = c.Hops
	if c.First != nil {
		e.note("the capability does not hold any more: %s", c.First.Message)
	}
	return nil
}

// rulesOf words the rules that may have given a call its mode, beside the
// agent's.
func (x *explainer) rulesOf(r evidence.Record) string {
	var texts []string
	for _, a := range x.agents {
		for _, rule := range a.Rules {
			switch {
			case a.ID != r.AgentID || a.Set:
			case rule.Caller != "" && rule.Caller == r.Details.Requester:
				texts = append(texts, fmt.Sprintf("%s for caller %s", plain.Share(rule.Mode, rule.Canary), rule.Caller))
			case rule.Grant != "" && r.Details.Attempt == "invocation" && strings.HasPrefix(r.Intent.Operation, a.ID+"/"+rule.Grant+"/"):
				texts = append(texts, fmt.Sprintf("%s for grant %s", plain.Share(rule.Mode, rule.Canary), rule.Grant))
			}
		}
	}
	return strings.Join(texts, "; then ")
}

func (e *explanation) describe(x *explainer, r evidence.Record) {
	d := r.Details
	e.fact("when", "%s", plain.Time(r.Time))
	e.fact("who", "%s%s", d.Requester, plain.Prefixed(" for ", d.Principal))
	e.fact("what", "%s at agent %s (%s)", audit.SubjectOf(r), r.AgentID, r.ActionType)
	if r.Intent.Purpose != "" {
		e.fact("purpose", "%q (the requester's words)", r.Intent.Purpose)
	}
	e.fact("mode", "%s", d.Mode)
	e.fact("mode rules", "%s", x.rulesOf(r))
	e.fact("held", "%s", strings.Join(d.Granted, ", "))
	if g := d.Gate; g != nil {
		e.fact("required", "%s", strings.Join(g.Required, ", "))
		e.fact("effective", "%s", strings.Join(g.Allowed, ", "))
		e.fact("missing", "%s", strings.Join(g.Missing, ", "))
	}
	e.execution(r)
	e.fact("task", "%s", r.TaskID)
	e.fact("tenant", "%s", d.Tenant)
	e.fact("read before", "%s", audit.ReadBefore(r))
	e.fact("outcome", "%s", string(r.OutcomeStatus))
	e.fact("outcome of", "%s", d.OutcomeOf)
	e.fact("policies", "%s", d.PolicyDigest)
}

// decisionFix is the fix for one check that failed.
func (x *explainer) decisionFix(r evidence.Record, first evidence.Reason) string {
	agent, operation := r.AgentID, first.Operation
	if operation == "" {
		operation = r.Intent.Operation
	}
	grant := "GRANT"
	if parts := strings.Split(operation, "/"); len(parts) == 3 {
		grant = parts[1]
	}
	request := fmt.Sprintf("powerbox request %s --grant %s --purpose '...' --key FILE --out capability.json", x.urlOf(agent), grant)
	if audit.IsFreeText(r) && unnamedFails(first.Code) {
		return fmt.Sprintf("name the skill, since free text needs every operation that it can ask for: send it to %s/skills/SKILL, or powerbox call %[1]s --skill SKILL --arguments JSON --key FILE", x.urlOf(agent))
	}
	if a2a.IsMistake(first.Code) {
		return "correct the call, as the reason says: no capability helps"
	}
	switch first.Code {
	case gate.CodeCaps:
		if first.Argument != "" {
			return fmt.Sprintf("keep argument %s within the constraints that the configuration of %s has now, or have its operator loosen them", first.Argument, agent)
		}
		return mapSkill(agent)
	case gate.CodeScope:
		if audit.IsBuiltIn(r.Details.Requester) {
			return audit.OwnKey + ", and give NAME a scope; a capability reaches no further than the scope"
		}
		if !audit.IsNamed(r.Details.Requester) {
			return fmt.Sprintf("name the caller in identity.callers, such as %s, and give it a scope; a capability reaches no further than the scope", audit.CallerRule(r.Details.Requester))
		}
		return fmt.Sprintf("add %s to scopes.%s.%s (powerbox report --grants prints what was observed); a capability reaches no further than the scope",
			inScope(r, operation), r.Details.Requester, agent)
	case "skill_unmapped":
		return mapSkill(agent)
	case gate.CodeHandle, string(powerbox.CodeArgumentConstraint):
		return "ask for what is needed: " + request + " --collection NAME --filter attribute=value"
	case gate.CodeMessageNotBound:
		return fmt.Sprintf("name the skill: powerbox call %s --skill SKILL --arguments JSON --capability FILE --key FILE", x.urlOf(agent))
	case gate.CodeNotHolder, string(token.CodeHolder), string(token.CodeProofSignature):
		return "call with the key that the capability is bound to, or have it delegated: powerbox narrow --delegate KEY"
	case gate.CodeReplay, gate.CodeProofBefore, string(token.CodeProofTime):
		return "sign a new proof for every call, with a clock that is right: powerbox doctor"
	case gate.CodeVeto, "nothing_granted":
		return fmt.Sprintf("ask the policies: powerbox explain policy --principal user:NAME --operation %s", operation)
	case gate.CodeForeignTask:
		return "name a task of your own"
	case gate.CodeFrozen:
		return thawFix
	case gate.CodeCardWidened:
		return consentFix
	}
	return request
}

// inScope is the entry of a scope that lets a call with that operation pass. A2A's own
// operations come with every operation of the agent, and no scope can name them.
func inScope(r evidence.Record, operation string) string {
	if !strings.HasPrefix(operation, reserved) {
		return strconv.Quote(strings.TrimPrefix(operation, r.AgentID+"/"))
	}
	example := "GRANT/OPERATION"
	for _, name := range r.Details.Granted {
		if local, ok := strings.CutPrefix(name, r.AgentID+"/"); ok {
			example = local
			break
		}
	}
	return fmt.Sprintf("an operation of %s, such as %q,", r.AgentID, example)
}

// reserved begins the names of A2A's own operations.
const reserved = "a2a."

// unnamedFails reports whether free text may have been denied because it names no skill.
func unnamedFails(code string) bool {
	switch code {
	case gate.CodeCapabilityRequired, gate.CodeScope, gate.CodeByPolicy, string(powerbox.CodeOperation), string(powerbox.CodeRequirementUnknown):
		return true
	}
	return false
}

// execution adds by what an execution of Agent Auth came (AAP-Z4).
func (e *explanation) execution(r evidence.Record) {
	var said struct {
		Grant string `json:"grant"`
		Token string `json:"jti"`
	}
	if !action.Execute.Is(r.ActionType) || json.Unmarshal(r.Intent.Details, &said) != nil {
		return
	}
	e.fact("token", "%s", said.Token)
	e.fact("agent grant", "%s", said.Grant)
}

// mapSkill is the fix of a skill that maps to nothing.
func mapSkill(agent string) string {
	return fmt.Sprintf("map the skill to an operation in skills.%s of the configuration", agent)
}
