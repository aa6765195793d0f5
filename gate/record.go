package gate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// record words a verdict as evidence: origin, target, required, allowed and
// missing (GATE-10), possessed and exercised operations (EXT-32).
func (g *Gate) record(call *Call, v *Verdict, now time.Time) (evidence.Record, error) {
	id, err := g.NewID()
	if err != nil {
		return evidence.Record{}, err
	}
	required := requiredNames(call)
	subject := required
	if namesNoSkill(call) {
		subject = []string{opMessage}
	}
	begun := &call.Record
	r := evidence.Record{
		ID: id, AgentID: call.Target.ID, TaskID: cmp.Or(call.Task, begun.TaskID), ActionType: call.Action, Time: now, Detached: begun.Detached,
		Intent: evidence.Intent{Operation: firstOf(subject), Purpose: begun.Intent.Purpose},
		Details: evidence.Details{
			Recorder: g.RecorderID, Requester: requesterOf(call, v), Principal: principalOf(call, v), Tenant: call.Tenant, TraceID: begun.Details.TraceID,
			Attempt: kindOf(call), Capability: v.Held.Capability, Granted: v.Held.Authority.Names(),
			Gate: &evidence.Gate{
				Origin: requesterOf(call, v), Target: call.Target.ID,
				Required: required, Allowed: v.Under.Names(), Missing: v.Missing,
			},
			Mode: string(call.Mode), RevocationSequence: g.Revocations.RevocationSequence(), PolicyDigest: g.Policy.Digest(),
			Reasons: slices.Clone(v.Reasons), Arguments: begun.Details.Arguments, BodyCommitment: begun.Details.BodyCommitment,
		},
	}
	if call.Ask.Details != nil {
		r.Intent.Details = call.Ask.Details(id, v.Held.Capability)
	}
	r.Intent.Details = withRead(r.Intent.Details, v)
	if v.Held.Capability == "" {
		// Who is refused before it could be verified is still worth knowing to
		// anyone who looks into it.
		if holder, capability := claimed(call); holder != "" {
			r.Details.Capability = capability
			if r.Details.Requester == unknown {
				r.Details.Requester, r.Details.Gate.Origin = holder, holder
			}
		}
	}
	switch {
	case call.Mode == Observe && v.Allowed && v.Basis != OnCapability:
		r.Decision, r.OutcomeStatus = evidence.Abstain, evidence.Pending
	case v.Allowed:
		r.Decision, r.OutcomeStatus = evidence.Allow, evidence.Pending
		r.Details.Exercised = subject
		r.Details.Mode = string(call.Mode) + "/" + string(v.Basis)
	case v.Waits:
		r.Decision = evidence.Abstain
	default:
		r.Decision = evidence.Deny
	}
	if v.Held.Legacy {
		r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: "legacy_grant", Message: "the capability wraps a service without capability support: reduced security"})
	}
	if v.Held.Foreign != "" {
		r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: "foreign_issuer", Message: "the capability was issued by " + v.Held.Foreign})
	}
	if v.Allowed && call.Target.AdmitFreeText && call.Free.Any {
		r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: "free_text_unsafe", Message: "free text was admitted because the operator wrote admit_free_text: unsafe"})
	}
	anonymous := r.Decision == evidence.Deny && v.Held.Capability == "" && call.Caller.Holder == "" && call.Caller.Name == "" && call.Caller.Principal == ""
	return fit(r, anonymous), nil
}

func requiredNames(call *Call) []string {
	var names []string
	for _, a := range call.Attempts {
		for _, op := range a.Required() {
			names = append(names, op.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	// The first stays first: it is what the record is about.
	rest := names[1:]
	slices.Sort(rest)
	return append(names[:1:1], slices.Compact(rest)...)
}

func firstOf(names []string) string {
	if len(names) == 0 || names[0] == "" {
		return "unknown"
	}
	return names[0]
}

func requesterOf(call *Call, v *Verdict) string {
	switch {
	case v.Held.Origin != "":
		return v.Held.Origin
	case call.Caller.Name != "":
		return call.Caller.Name
	case v.Held.Holder != "":
		return v.Held.Holder
	case v.refused != "":
		return v.refused
	case call.Caller.Holder != "":
		return call.Caller.Holder
	}
	return unknown
}

// unknown is the requester of whom nothing was shown.
const unknown = "unknown"

// claimed is who the first presented chain says that its holder is and which
// token it is, where it has the form of a chain. It is not verified.
func claimed(call *Call) (holder, capability string) {
	for _, p := range call.Presented {
		u, err := token.ParseChain(p.Chain)
		if err != nil {
			continue
		}
		links := u.Describe()
		last := links[len(links)-1]
		return "unverified:key:" + last.Holder[strings.LastIndexByte(last.Holder, ':')+1:], "unverified:" + last.ID
	}
	return "", ""
}

func principalOf(call *Call, v *Verdict) string {
	if v.Held.Principal != "" {
		return v.Held.Principal
	}
	return call.Caller.Principal
}

// opMessage is the operation that sends a message, whatever it asks for.
const opMessage = "a2a.message"

// namesNoSkill reports whether a call is free text. It needs every operation that it could
// ask for, and none of them was called; a hand-off says itself what it needs.
func namesNoSkill(call *Call) bool {
	return call.Free.Any && kindOf(call) == "admission" && call.Action != evidence.ActionHandoff
}

func kindOf(call *Call) string {
	if len(call.Attempts) > 0 && call.Attempts[0].IsAdmission() {
		return "admission"
	}
	return "invocation"
}

// maxReason bounds the texts of a reason on record, which repeat what callers wrote.
const maxReason = 1024
