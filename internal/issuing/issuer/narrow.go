package issuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Narrowing is what an attenuation asks for (SEP-12). Nil and zero members
// keep what the parent has.
type Narrowing struct {
	Handles    []string
	Operations []string
	Shapes     map[string]powerbox.Shape // by operation, the rest of its arguments
	Expires    time.Time
	// Recipient becomes the holder; the zero value keeps the parent's holder.
	Recipient identity.Holder
	// Agent is the configured name of the recipient.
	Agent string
	Task  string
}

// A Part is a capability that is narrowed, and to what.
type Part struct {
	Of     string // the agent that it is for
	Parent string // its id
	Narrowing
}

// Narrow issues a child that is no wider than its parent. Anything wider is
// refused, and the refusal names the wider part.
func (i *Issuer) Narrow(ctx context.Context, agentID string, caller identity.Caller, parentID string, n Narrowing) (Capability, error) {
	children, err := i.NarrowAll(ctx, caller, []Part{{agentID, parentID, n}})
	if err != nil {
		return Capability{}, err
	}
	return children[0], nil
}

// NarrowAll is [Issuer.Narrow] for several capabilities: it issues all children or, if one
// is refused, none of them.
func (i *Issuer) NarrowAll(ctx context.Context, caller identity.Caller, parts []Part) ([]Capability, error) {
	children, records := make([]Capability, len(parts)), make([]evidence.Record, len(parts))
	for n, p := range parts {
		var err error
		if children[n], records[n], err = i.child(ctx, caller, p); err != nil {
			return nil, err
		}
	}
	return children, i.config.Store.Update(ctx, func(tx Tx) error {
		for n, child := range children {
			if err := putCapability(tx, child); err != nil {
				return err
			}
			if _, err := tx.Append(records[n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// child makes a child and its record, which are not stored yet. A refusal is recorded.
func (i *Issuer) child(ctx context.Context, caller identity.Caller, p Part) (Capability, evidence.Record, error) {
	record, err := i.newRecord(p.Of, caller, action.CapabilityAttenuate, evidence.Intent{
		Operation: OperationCapability,
	})
	if err != nil {
		return Capability{}, record, err
	}
	parent, err := i.Capability(ctx, p.Parent)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Capability{}, record, err
	}
	record.Intent.Details = details(map[string]any{"parent": parent.ID})
	if parent.ID == "" {
		record.Intent.Details = details(map[string]any{"parent_heard": heard(p.Parent)})
	}
	if refusal := i.usable(parent, p.Of, caller); refusal != nil {
		return Capability{}, record, i.denied(ctx, record, refusal)
	}
	child, refusal := i.narrow(parent, caller, p.Narrowing)
	if refusal != nil {
		return Capability{}, record, i.denied(ctx, record, refusal)
	}
	record.Details.Capability, record.Details.Granted = child.ID, child.Authority.Names()
	record.OutcomeStatus = evidence.Achieved
	return child, record, nil
}

func (i *Issuer) narrow(parent Capability, caller identity.Caller, n Narrowing) (Capability, *Refusal) {
	agent, ok := i.all()[parent.Agent]
	if !ok {
		return Capability{}, refuse(CodeAgentUnknown, "no agent %q is protected here", parent.Agent)
	}
	if !parent.Attenuable {
		return Capability{}, refuse(CodeNotAttenuable, "capabilities of grant %q cannot be attenuated", parent.Grant)
	}
	if wider := wider(parent, n); len(wider) > 0 {
		refusal := refuseWords(CodeWider, strings.Join(wider, "\n"), "the attenuation is wider than its parent", "the attenuation is wider than its parent")
		refusal.Details = wider
		return Capability{}, refusal
	}
	child := parent
	child.Ancestors = parent.Lineage()
	child.Rooted, child.Through = parent.Issued(), append(slices.Clone(parent.Through), parent.Holder)
	child.Created = i.config.Now().UTC().Truncate(time.Second)
	child.Token = ""
	var errID, errRevocation error
	child.ID, errID = i.NewID("cap_")
	child.RevocationID, errRevocation = i.NewID("rv_")
	if err := errors.Join(errID, errRevocation); err != nil {
		return Capability{}, refuse(CodeNothingGranted, "%v", err)
	}
	recipient := caller
	if n.Recipient.ID != "" {
		recipient = identity.Caller{Principal: parent.Principal, Holder: n.Recipient, Agent: n.Agent}
		child.Holder, child.Requester = n.Recipient.ID, n.Agent
	}
	if n.Task != "" {
		child.Task = n.Task
	}
	authority, err := narrowed(agent, parent, n)
	if err != nil {
		return Capability{}, refuse(CodeDelegationDepth, "%v", err)
	}
	child.Authority, child.Expires = authority, authority.Window().Until
	if n.Handles != nil {
		child.Handles = slices.DeleteFunc(slices.Clone(parent.Handles), func(h Handle) bool { return !slices.Contains(n.Handles, h.Handle) })
	}
	if len(child.Operations()) == 0 {
		return Capability{}, refuse(CodeNothingGranted, "nothing is left of the capability after the attenuation")
	}
	return i.mint(agent, recipient, child)
}

// wider lists everything in which a narrowing goes beyond the parent.
func wider(parent Capability, n Narrowing) []string {
	var out []string
	for _, h := range n.Handles {
		if !slices.ContainsFunc(parent.Handles, func(p Handle) bool { return p.Handle == h }) {
			out = append(out, fmt.Sprintf("resourceHandles: %q is not in the capability", h))
		}
	}
	for _, op := range n.Operations {
		if !slices.Contains(parent.Operations(), op) {
			out = append(out, fmt.Sprintf("operations: %q is not in the capability", op))
		}
	}
	if n.Expires.After(parent.Expires) {
		out = append(out, fmt.Sprintf("expires: %s is later than %s", n.Expires.UTC().Format(time.RFC3339), parent.Expires.UTC().Format(time.RFC3339)))
	}
	return out
}

// narrowed meets the parent's authority with the kept part.
func narrowed(agent *Agent, parent Capability, n Narrowing) (powerbox.Authority, error) {
	depth := parent.Authority.Depth()
	if n.Recipient.ID != "" && n.Recipient.ID != parent.Holder {
		if depth--; depth < 0 {
			return powerbox.Authority{}, errors.New("the capability may not be passed on to another holder")
		}
	}
	window := parent.Authority.Window()
	if !n.Expires.IsZero() {
		window.Until = n.Expires.UTC().Truncate(time.Second)
	}
	var clauses []powerbox.Clause
	for _, c := range parent.Authority.Clauses() {
		name, ours := unqualify(parent.Agent, parent.Grant, c.Pattern.Name())
		if ours && n.Operations != nil && !slices.Contains(n.Operations, name) {
			continue
		}
		shape := powerbox.AnyArguments()
		if _, handle := agent.shapeOf(parent.Grant, name); ours && handle != "" && n.Handles != nil {
			values := make([]powerbox.Value, len(n.Handles))
			for k, h := range n.Handles {
				values[k] = powerbox.String(h)
			}
			var err error
			if shape, err = powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: handle, Constraint: powerbox.OneOf{Values: values}, Required: true}); err != nil {
				return powerbox.Authority{}, err
			}
		}
		if left, narrows := n.Shapes[name]; ours && narrows {
			shape = left
		}
		clauses = append(clauses, powerbox.Clause{Pattern: c.Pattern, Shape: shape})
	}
	kept, err := powerbox.NewAuthority(window, depth, clauses...)
	return parent.Authority.Meet(kept), err
}
