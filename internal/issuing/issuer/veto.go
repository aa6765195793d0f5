package issuer

import (
	"encoding/json"
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// subjectOf keeps what policy may ask about a principal.
func subjectOf(c identity.Caller) Subject {
	s := Subject{Groups: c.Groups, Roles: c.Roles}
	for name, v := range c.Attributes {
		if s.Attributes == nil {
			s.Attributes = map[string]json.RawMessage{}
		}
		s.Attributes[name] = v.AppendJSON(nil)
	}
	return s
}

// subject is the principal of a capability as it was at issue.
func (c Capability) subject() (identity.Caller, error) {
	out := identity.Caller{Principal: c.Principal, Groups: c.Subject.Groups, Roles: c.Subject.Roles}
	for name, raw := range c.Subject.Attributes {
		v, err := powerbox.ParseValue(raw)
		if err != nil {
			return identity.Caller{}, err
		}
		if out.Attributes == nil {
			out.Attributes = map[string]powerbox.Value{}
		}
		out.Attributes[name] = v
	}
	return out, nil
}

// Vetoed returns the first operation of attempts that the policies in force
// forbid to the principal of a capability, and whether there is one. It is
// asked only where they are others than those that the capability was issued
// under; groups, roles and attributes are those of then. What policy wants a
// person to approve is forbidden too, unless a person has approved it.
func (i *Issuer) Vetoed(c Capability, attempts []powerbox.Attempt) (string, bool) {
	if c.ByPerson || c.PolicyDigest == i.config.Policy.Digest() {
		return "", false
	}
	agent, ok := i.all()[c.Agent]
	subject, err := c.subject()
	for _, attempt := range attempts {
		for _, op := range attempt.Required() {
			name, ours := unqualify(c.Agent, c.Grant, op.String())
			if !ours {
				continue // of A2A itself, or refused by the capability anyway
			}
			if !ok || err != nil || !i.stillPermits(agent, c, subject, name, attempt) {
				return op.String(), true
			}
		}
	}
	return "", false
}

// stillPermits asks the policy about the resource behind the handle of an
// attempt, and otherwise about the agent and everything that the capability
// holds.
func (i *Issuer) stillPermits(agent *Agent, c Capability, subject identity.Caller, operation string, attempt powerbox.Attempt) bool {
	_, argument := agent.shapeOf(c.Grant, operation)
	given := ""
	if argument != "" && !attempt.IsAdmission() {
		v, _ := attempt.Arguments().Get(argument)
		given, _ = v.Text()
	}
	permits := func(item *catalogue.Item) bool {
		r := i.config.Policy.Permits(subject, c.Agent, c.Grant, operation, item)
		return r.Allow && (r.Approval == "" || c.Approval != "")
	}
	if given == "" && permits(nil) {
		return true
	}
	for _, h := range c.Handles {
		if given != "" && given != h.Handle {
			continue
		}
		if item := agent.resource(h); item != nil && permits(item) {
			return true
		}
	}
	return false
}

// Permitted returns those handles of a capability that policy still gives its
// principal for any of its operations.
func (i *Issuer) Permitted(c Capability) []Handle {
	agent, ok := i.all()[c.Agent]
	if !ok || c.PolicyDigest == i.config.Policy.Digest() {
		return c.Handles
	}
	subject, err := c.subject()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Handles), func(h Handle) bool {
		item := agent.resource(h)
		return item == nil || !slices.ContainsFunc(c.Operations(), func(op string) bool {
			r := i.config.Policy.Permits(subject, c.Agent, c.Grant, op, item)
			return r.Allow && (r.Approval == "" || c.Approval != "")
		})
	})
}
