package policy

import (
	"fmt"
	"slices"

	cedar "github.com/cedar-policy/cedar-go"
)

// Finding is what one policy has to do with a question.
type Finding struct {
	Policy  string // file:line
	Forbid  bool   // else it is a permit
	Applies bool
	Why     string // one clause
	Text    string // the policy as Cedar prints it
}

// Explain answers like [Engine.Permits] and says of every loaded policy whether
// it applies and, if not, which part of it does not. It is for people: it looks
// at every policy.
func (e *Engine) Explain(p Principal, operation string, r *Resource, agent, grant string) (Answer, []Finding) {
	answer := e.Permits(p, operation, r, agent, grant)
	w, reason := e.asking(p, operation, agent, grant)
	if reason == "" {
		w, reason = e.about(w, agent, r)
	}
	if reason != "" {
		return answer, nil
	}
	findings := make([]Finding, len(e.statements))
	for i, s := range e.statements {
		findings[i] = e.find(&w, s)
	}
	return answer, findings
}

func (e *Engine) find(w *world, s *statement) Finding {
	f := Finding{Policy: s.place, Forbid: s.forbid, Text: string(s.policy.MarshalCedar())}
	if why := e.whyNot(w, s.head); why != "" {
		f.Why = why
		return f
	}
	_, diagnostic := cedar.Authorize(numbered{s}, w, w.request())
	switch {
	case len(diagnostic.Errors) > 0:
		f.Why = "it could not be evaluated: " + diagnostic.Errors[0].Message
	case len(diagnostic.Reasons) > 0 && s.forbid:
		f.Applies, f.Why = true, "it forbids"
	case len(diagnostic.Reasons) > 0:
		f.Applies, f.Why = true, "it permits"
	default:
		f.Why = "a condition does not hold"
	}
	return f
}

// whyNot names the first part of a policy that a request is not in, or none.
func (e *Engine) whyNot(w *world, h head) string {
	for _, part := range []struct {
		what  string
		named []cedar.EntityUID
		has   []symbol
	}{{"principal", h.principal, w.principals}, {"action", h.action, w.actions}, {"resource", h.resource, w.resources}} {
		if part.named == nil {
			continue
		}
		if !slices.ContainsFunc(part.named, func(id cedar.EntityUID) bool {
			return slices.Contains(part.has, e.index.symbols[id])
		}) {
			return fmt.Sprintf("the %s is not, and is not in, %s", part.what, part.named[0])
		}
	}
	return ""
}
