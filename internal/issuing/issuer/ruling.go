package issuer

import (
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// permitted is what policy allows the principal of one grant.
type permitted struct {
	rulings  map[string]map[string]Ruling // by operation and resource id: those that allow
	bare     map[string]Ruling            // by operation, on the agent itself
	visible  []catalogue.Item             // resources that any operation may touch, in order of their ids
	selected []catalogue.Item             // resources that the request selects, all of them allowed
	next     string                       // cursor of the resources after them, "" for none
}

// rule asks the policy about every operation of a grant, on the agent itself
// and on every resource. What the caller may not see is gone before anything
// else looks at it (SEP-5).
func (i *Issuer) rule(agent *Agent, grant Grant, caller identity.Caller, operations []string) permitted {
	p := permitted{rulings: map[string]map[string]Ruling{}, bare: map[string]Ruling{}}
	for _, op := range operations {
		p.bare[op] = i.config.Policy.Permits(caller, agent.ID, grant.ID, op, nil)
		p.rulings[op] = map[string]Ruling{}
		for n := range agent.Resources {
			if r := i.config.Policy.Permits(caller, agent.ID, grant.ID, op, &agent.Resources[n]); r.Allow {
				p.rulings[op][agent.Resources[n].ID] = r
			}
		}
	}
	for _, item := range agent.Resources {
		if slices.ContainsFunc(operations, func(op string) bool { return p.rulings[op][item.ID].Allow }) {
			p.visible = append(p.visible, item)
		}
	}
	sorting.Sort(p.visible, func(a, b catalogue.Item) int { return strings.Compare(a.ID, b.ID) })
	return p
}

// Sees reports whether policy allows a caller anything of an agent, on whatever
// resource, with a person's approval or without: who may not be granted anything
// of it need not know of it (CARD-19).
func (i *Issuer) Sees(caller identity.Caller, agent string) bool {
	a, ok := i.all()[agent]
	return ok && caller.Principal != "" && slices.ContainsFunc(a.Grants, func(g Grant) bool {
		return i.rule(a, g, caller, a.operationsOf(g)).anything()
	})
}

// ListingRecord is the record of what an operator does with a listing of the
// registry.
func (i *Issuer) ListingRecord(by string, of action.Type, about map[string]any) (evidence.Record, error) {
	return i.serverRecord(by, of, OperationCard, about)
}

// RedeliveryRecord is the record that an operator has a message to a webhook tried again.
func (i *Issuer) RedeliveryRecord(by string, about map[string]any) (evidence.Record, error) {
	return i.serverRecord(by, action.WebhookRedeliver, OperationCapability, about)
}

// serverRecord is the record of a change by an operator that belongs to no agent.
func (i *Issuer) serverRecord(by string, of action.Type, operation string, about map[string]any) (evidence.Record, error) {
	r, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, of, evidence.Intent{Operation: operation, Details: details(about)})
	r.OutcomeStatus = evidence.Achieved
	return r, err
}

// anything reports whether any operation is allowed on the agent or on any
// resource, selected or not.
func (p permitted) anything() bool {
	for op := range p.bare {
		if p.bare[op].Allow || len(p.rulings[op]) > 0 {
			return true
		}
	}
	return false
}

// relied returns the rulings that an operation is granted by: that on the
// agent itself and those on selected resources, as far as they allow. Resources that were
// not selected are never relied on, so their conditions cannot be skipped.
func (p permitted) relied(operation string) []Ruling {
	var out []Ruling
	if r := p.bare[operation]; r.Allow {
		out = append(out, r)
	}
	for _, item := range p.selected {
		if r, ok := p.rulings[operation][item.ID]; ok {
			out = append(out, r)
		}
	}
	return out
}

// terms joins what the rulings demand that are relied on: the shortest
// lifetime, and an approval where one wants it.
func (p permitted) terms(operations []string, maximum time.Duration) (lifetime time.Duration, approval string) {
	lifetime = maximum
	for _, op := range operations {
		for _, r := range p.relied(op) {
			if r.MaximumLifetime > 0 {
				lifetime = min(lifetime, r.MaximumLifetime)
			}
			if r.Approval != "" {
				approval = r.Approval
			}
		}
	}
	return lifetime, approval
}

// shape is what policy allows of one operation: the handles of the resources
// that it may touch, or any call where the operation takes no handle and a
// ruling can be relied on.
func (p permitted) shape(operation, handle string, c Capability) (powerbox.Shape, bool, error) {
	if handle == "" {
		return powerbox.AnyArguments(), len(p.relied(operation)) > 0, nil
	}
	var values []powerbox.Value
	for _, h := range c.Handles {
		if p.rulings[operation][h.Resource].Allow {
			values = append(values, powerbox.String(h.Handle))
		}
	}
	shape, err := powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: handle, Constraint: powerbox.OneOf{Values: values}, Required: true})
	return shape, len(values) > 0, err
}
