package gate

import (
	"fmt"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// sentences are the words of reasons that repeat nothing of the call, by code.
var sentences = map[string]string{
	CodeCapabilityRequired: "a capability is required",
	CodeCapabilityUnknown:  "the caller holds no such capability of this agent",
	CodeRevoked:            "the capability, or one that it descends from, has been revoked",
	CodeCardWidened:        "the agent's card says more than when this was granted; it continues when an operator consents, and a new grant is made with the new card in view",
	CodeStale:              "what was revoked or frozen is not known here now, so nothing goes on; try again in a moment",
	CodeNotHolder:          "the caller is not the holder of the capability",
	CodePrincipal:          "the capability was issued for another user than the session's",
	CodeReplay:             "the proof was used before; sign a new one for every call",
	CodeProofBefore:        "the proof is older than this gateway's memory; nothing was executed, sign a new one",
	CodeForeignTask:        "the call names a task or context that is not the caller's",
	codeOtherTask:          "the capability was issued for another task",
	CodeTrust:              "the calling agent's score, which comes from the evidence of what it did, is too low for this; asking again does not help",
	CodeApproval:           "a person has to approve this call",
	codeOtherRequest:       "the approval is for one call, which the gateway that held it makes by itself; it serves for no other call",
	CodeLimit:              ErrSpent.Error(),
	codeBudgetElsewhere:    "the capability has a budget, which is kept where it was issued; present it there",
	codeDelegation:         "this agent accepts no delegation links, as its card says; present a token of your own",
}

// Worded returns a reason with its sentence. The reason has a code of this package or of
// [powerbox.Decide], and names the argument where the code is about one. This is the one
// place that words such a denial.
func Worded(r powerbox.Reason) evidence.Reason {
	out := evidence.Reason{Code: string(r.Code), Operation: r.Operation, Argument: r.Argument, Constraint: r.ConstraintType}
	switch out.Code {
	case CodeHandle:
		// Unknown, foreign and merely not granted: one answer (SEP-19).
		out.Message = fmt.Sprintf("operation %q: %q is not a handle of the capability", r.Operation, r.Argument)
	case CodeArgumentNumber:
		out.Message = "argument " + r.Argument + " holds a number that readers with double precision take for another one; send it as a string"
	case CodeSpelling:
		out.Message = fmt.Sprintf("operation %q: some readers take argument %q for one that is spelt with other letter case; use the spelling of the operation", r.Operation, r.Argument)
	case CodeMessageNotBound:
		out.Message = notBound("")
	default:
		sentence, ok := sentences[out.Code]
		if out.Message = sentence; !ok {
			out.Message = r.String()
		}
	}
	return out
}

// because is the reason of a code that says nothing of the call.
func because(code powerbox.Code) []evidence.Reason {
	return []evidence.Reason{Worded(powerbox.Reason{Code: code})}
}

// says is a reason with its own sentence.
func says(code, message string) []evidence.Reason {
	return []evidence.Reason{{Code: code, Message: message}}
}

// untold is the reason of an unanswered question.
func untold(message string) []evidence.Reason { return says(CodeUnavailable, message) }

// notBound says why free content is denied; place names where the first of it is, "" for
// any.
func notBound(place string) string {
	if place == "" {
		return "free text cannot be held to a capability with constrained operations at this agent; name the skill and its arguments, and send nothing beside"
	}
	return place + " is free content, which cannot be held to a capability with constrained operations at this agent; name the skill and its arguments, and send nothing beside"
}

// atLink has reasons be about a link of the presented chain, or about none where it is
// negative.
func atLink(link int, reasons []evidence.Reason) []evidence.Reason {
	for n := range reasons {
		if link >= 0 {
			reasons[n].Link = &link
		}
	}
	return reasons
}

// layered words a reason of [powerbox.Decide] by the layer that it is of: "" is the
// capability, and any other the code of the layer.
func layered(call *Call, r powerbox.Reason, layer string) evidence.Reason {
	if layer == "" && r.Code == powerbox.CodeArgumentConstraint && r.Argument == call.Handle && call.Handle != "" {
		r.Code = CodeHandle
	}
	out := Worded(r)
	switch layer {
	case CodeScope:
		out.Code, out.Message = CodeScope, "the calling agent's scope does not allow it: "+out.Message
	case CodeByPolicy:
		out.Code, out.Message = CodeByPolicy, "policy does not allow it to the caller's role or attributes: "+out.Message
	case CodeCaps:
		why := "the agent's skills do not map to it"
		if r.Argument != "" {
			why = "the operator's own constraints, as they are now, do not admit it"
		}
		out.Code, out.Message = CodeCaps, why+": "+out.Message
	}
	return out
}
