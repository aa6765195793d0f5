package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// Fate is what a decision that is on record becomes under other policies.
type Fate string

// The fates. What cannot be told is never guessed.
const (
	FateNone     Fate = ""         // policy did not decide: an outcome, an operator's act, an agent without policies
	FateSame     Fate = "same"     // as it is on record
	FateFlips    Fate = "flips"    // allowed becomes denied, or the other way round
	FateNarrower Fate = "narrower" // still issued, with less
	FateUnknown  Fate = "unknown"  // the record does not hold what policy would be asked about
)

// Replayed is one decision under other policies.
type Replayed struct {
	Fate      Fate
	Operation string // the first one that is another's now; where there is one
	Why       string // of FateUnknown: the part that is not on record
}

// Anything that is not on record (Replayed.Why).
const (
	WhyRoles      = "roles_not_on_record"      // a call without a capability: the session's roles are not kept
	WhyRequest    = "request_not_on_record"    // a request that was refused: nothing is kept of who asked
	WhyCapability = "capability_not_on_record" // its holder made it of one that is
	WhyResource   = "resource_not_on_record"   // arguments are redacted, and the policies tell the resources apart
	WhyAgent      = "agent_not_configured"     // the agent is no longer here, or the grant's resources
	WhyMore       = "refused_for_more"         // refused by policy and by something else, of which the policies may be the cause
)

// Replay says what a decision on record would be if policies were in force that
// are not. Capabilities, resources and the catalogue are those of now, groups,
// roles and attributes those that the capability was issued for. At use policy
// only subtracts, so whatever else refused a call refuses it still. An error is of
// the store.
func (i *Issuer) Replay(ctx context.Context, policies Policy, r evidence.Record) (Replayed, error) {
	switch {
	case r.Details.OutcomeOf != "":
		return Replayed{}, nil
	case action.CapabilityRequest.Is(r.ActionType):
		return i.replayRequest(ctx, policies, r)
	case r.Details.Gate == nil:
		return Replayed{}, nil
	}
	return i.replayCall(ctx, policies, r)
}

func (i *Issuer) replayCall(ctx context.Context, policies Policy, r evidence.Record) (Replayed, error) {
	vetoed, outside, other := 0, 0, 0
	for _, reason := range r.Details.Reasons {
		switch reason.Code {
		case string(gate.CodeVeto):
			vetoed++
		case string(gate.CodeByPolicy):
			outside++
		default:
			other++
		}
	}
	denied := r.Decision == evidence.Deny
	switch {
	case strings.HasSuffix(r.Details.Mode, "/policy"), denied && outside > 0:
		return Replayed{Fate: FateUnknown, Why: WhyRoles}, nil
	case denied && vetoed > 0 && other > 0:
		return Replayed{Fate: FateUnknown, Why: WhyMore}, nil
	case denied && vetoed == 0, r.Decision == evidence.Abstain, r.Details.Capability == "":
		return Replayed{Fate: FateSame}, nil
	}
	c, err := i.Capability(ctx, r.Details.Capability)
	if errors.Is(err, ErrNotFound) {
		return Replayed{Fate: FateUnknown, Why: WhyCapability}, nil
	}
	if err != nil {
		return Replayed{}, err
	}
	if c.Agent != r.AgentID {
		return Replayed{Fate: FateUnknown, Why: WhyCapability}, nil
	}
	operation, answer := i.wouldPermit(policies, c, r)
	switch {
	case answer == unsure:
		return Replayed{Fate: FateUnknown, Why: WhyResource, Operation: operation}, nil
	case answer == gone:
		return Replayed{Fate: FateUnknown, Why: WhyAgent, Operation: operation}, nil
	case denied == (answer == no):
		return Replayed{Fate: FateSame}, nil
	}
	return Replayed{Fate: FateFlips, Operation: operation}, nil
}

// tri is an answer of policies about the record.
type tri int

const (
	yes tri = iota
	no
	unsure // it depends on data that is not on record
	gone   // what they would be asked about is no longer here
)

// wouldPermit asks about every operation of a call, as [Issuer.Vetoed] would, and
// returns the first one that is not permitted.
func (i *Issuer) wouldPermit(policies Policy, c Capability, r evidence.Record) (string, tri) {
	if c.PolicyDigest == policies.Digest() {
		return r.Intent.Operation, yes
	}
	agent, ok := i.all()[c.Agent]
	subject, err := c.subject()
	answer, at := yes, r.Intent.Operation
	for _, op := range r.Details.Gate.Required {
		name, ours := unqualify(c.Agent, c.Grant, op)
		if !ours {
			continue
		}
		one := gone
		if ok && err == nil {
			one = wouldPermitOne(policies, agent, c, subject, name, r)
		}
		if one == no {
			return op, no
		}
		if one != yes && answer == yes {
			answer, at = one, op
		}
	}
	return at, answer
}

func wouldPermitOne(policies Policy, agent *Agent, c Capability, subject identity.Caller, operation string, r evidence.Record) tri {
	permits := func(item *catalogue.Item) bool {
		ruling := policies.Permits(subject, c.Agent, c.Grant, operation, item)
		return ruling.Allow && ruling.Approval == ""
	}
	_, argument := agent.shapeOf(c.Grant, operation)
	bound := argument != "" && r.Details.Attempt != "admission" // to one resource
	given := ""
	if bound {
		given = textArgument(r.Details.Arguments, argument)
	}
	if !bound && permits(nil) {
		return yes
	}
	allowed, refused, missing := 0, 0, 0
	named := slices.ContainsFunc(c.Handles, func(h Handle) bool { return h.Handle == given })
	for _, h := range c.Handles {
		if named && h.Handle != given {
			continue
		}
		item := agent.resource(h)
		switch {
		case item == nil:
			missing++
		case permits(item):
			allowed++
		default:
			refused++
		}
	}
	switch {
	case allowed > 0 && (!bound || refused+missing == 0):
		return yes
	case allowed > 0:
		return unsure
	case missing > 0:
		return gone
	}
	return no
}

// textArgument is the value of an argument as in the record, which is the kind
// of value where arguments are redacted.
func textArgument(arguments json.RawMessage, name string) string {
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(arguments, &members) != nil || json.Unmarshal(members[name], &text) != nil {
		return ""
	}
	return text
}

// beforePolicy are the reasons for which a request is refused before any policy is
// asked.
var beforePolicy = []string{
	string(CodeAgentUnknown), string(CodeUnauthenticated), string(CodeHolderUnknown), string(CodePurposeMissing), string(CodeGrantUnknown), string(CodeExpiryInvalid),
	string(CodeLegacyNotAllowed),
}

func (i *Issuer) replayRequest(ctx context.Context, policies Policy, r evidence.Record) (Replayed, error) {
	if r.Decision != evidence.Allow {
		if slices.ContainsFunc(r.Details.Reasons, func(reason evidence.Reason) bool { return slices.Contains(beforePolicy, reason.Code) }) {
			return Replayed{Fate: FateSame}, nil
		}
		return Replayed{Fate: FateUnknown, Why: WhyRequest}, nil
	}
	narrower := Replayed{Fate: FateSame}
	for id := range strings.SplitSeq(r.Details.Capability, ",") {
		c, err := i.Capability(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return Replayed{Fate: FateUnknown, Why: WhyCapability}, nil
		}
		if err != nil {
			return Replayed{}, err
		}
		one := i.replayIssue(policies, c)
		switch one.Fate {
		case FateFlips, FateUnknown:
			return one, nil
		case FateNarrower:
			narrower = one
		case FateNone, FateSame:
		}
	}
	return narrower, nil
}

// replayIssue returns the rest of a capability if it were issued under other
// policies: it is refused if there is none, or if a person must approve.
func (i *Issuer) replayIssue(policies Policy, c Capability) Replayed {
	agent, ok := i.all()[c.Agent]
	subject, err := c.subject()
	if !ok || err != nil {
		return Replayed{Fate: FateUnknown, Why: WhyAgent}
	}
	left, lost := 0, ""
	for _, op := range c.Operations() {
		kept, approval := 0, false
		ask := func(item *catalogue.Item) bool {
			ruling := policies.Permits(subject, c.Agent, c.Grant, op, item)
			approval = approval || ruling.Allow && ruling.Approval != ""
			return ruling.Allow
		}
		bare := ask(nil)
		for _, h := range c.Handles {
			item := agent.resource(h)
			if item == nil {
				return Replayed{Fate: FateUnknown, Why: WhyAgent, Operation: Qualify(c.Agent, c.Grant, op)}
			}
			if ask(item) {
				kept++
			}
		}
		_, argument := agent.shapeOf(c.Grant, op)
		switch {
		case approval:
			return Replayed{Fate: FateFlips, Operation: Qualify(c.Agent, c.Grant, op)}
		case kept > 0 || argument == "" && bare:
			left++
		}
		had := handlesOf(c, argument, op)
		if (kept == 0 && (argument != "" || !bare) || argument != "" && kept < had) && lost == "" {
			lost = Qualify(c.Agent, c.Grant, op)
		}
	}
	switch {
	case left == 0:
		return Replayed{Fate: FateFlips, Operation: lost}
	case lost != "":
		return Replayed{Fate: FateNarrower, Operation: lost}
	}
	return Replayed{Fate: FateSame}
}

// handlesOf is how many resources a capability has for an operation.
func handlesOf(c Capability, argument, operation string) int {
	op, err := powerbox.ParseOperation(Qualify(c.Agent, c.Grant, operation))
	shape, ok := c.Authority.Shape(op)
	if err != nil || !ok || argument == "" {
		return 0
	}
	field, bound := shape.Field(argument)
	n := 0
	for _, h := range c.Handles {
		if !bound || field.Constraint.Admits(powerbox.String(h.Handle)) {
			n++
		}
	}
	return n
}
