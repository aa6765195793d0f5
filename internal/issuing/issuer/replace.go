package issuer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// Narrower is a capability that takes the place of a wider one.
type Narrower struct {
	Old, New   Capability
	Revocation Revocation // of the old one; zero for a preview
}

// Narrowable makes the capability that would take the place of another, with some of its
// operations and for the rest of its time, for the same holder. Nothing is stored.
func (i *Issuer) Narrowable(ctx context.Context, id string, keep []string) (Narrower, error) {
	old, err := i.Capability(ctx, id)
	if err != nil {
		return Narrower{}, err
	}
	agent, ok := i.all()[old.Agent]
	switch {
	case !ok:
		return Narrower{}, noTarget("no agent %q is protected here", old.Agent)
	case i.Dead(old) || !old.Expires.After(i.config.Now()):
		return Narrower{}, noTarget("the capability %s has ended", id)
	case len(old.Ancestors) > 0:
		return Narrower{}, noTarget("the capability %s was narrowed from %s; narrow that one, or end this one", id, old.Root)
	case old.budgeted() || old.Once || old.Legacy || old.given():
		return Narrower{}, noTarget("the capability %s has a budget, is for one call, or wraps a service without capabilities: it cannot be replaced without a reset; end it instead", id)
	}
	now := old.Operations()
	for _, op := range keep {
		if !slices.Contains(now, op) {
			return Narrower{}, noTarget("the capability %s has no operation %q; it has [%s]", id, op, strings.Join(now, ", "))
		}
	}
	if keep = slices.Compact(slices.Sorted(slices.Values(keep))); len(keep) == 0 || len(keep) == len(now) {
		return Narrower{}, noTarget("name some of [%s], and not all; to take all away, end the capability", strings.Join(now, ", "))
	}
	next, err := i.replacement(agent, old, keep)
	return Narrower{Old: old, New: next}, err
}

func (i *Issuer) replacement(agent *Agent, old Capability, keep []string) (Capability, error) {
	c, now := old, i.config.Now().UTC().Truncate(time.Second)
	var err error
	if c.ID, err = i.NewID("cap_"); err != nil {
		return c, err
	}
	if c.RevocationID, err = i.NewID("rv_"); err != nil {
		return c, err
	}
	c.Root, c.Created, c.Token, c.Handles = c.ID, now, "", nil
	renamed := map[string]string{} // handles are sealed for one root
	for _, h := range old.Handles {
		next := h
		next.Handle = i.config.Sealer.Seal(agent.ID, c.Root, h.Resource)
		c.Handles, renamed[h.Handle] = append(c.Handles, next), next.Handle
	}
	var clauses []powerbox.Clause
	for _, one := range old.Authority.Clauses() {
		name, ours := unqualify(old.Agent, old.Grant, one.Pattern.Name())
		if ours && !slices.Contains(keep, name) {
			continue
		}
		if ours {
			_, argument := agent.shapeOf(old.Grant, name)
			if one.Shape, err = resealed(one.Shape, argument, renamed); err != nil {
				return c, err
			}
		}
		clauses = append(clauses, one)
	}
	window := old.Authority.Window()
	window.From = now
	if c.Authority, err = powerbox.NewAuthority(window, old.Authority.Depth(), clauses...); err != nil {
		return c, err
	}
	c.Expires = c.Authority.Window().Until
	holder := identity.Caller{Principal: old.Principal, Agent: old.Requester, Holder: identity.Holder{ID: old.Holder}}
	if old.Token != "" {
		if holder.Holder.Key, err = i.keyIn(agent, old.Token); err != nil {
			return c, err
		}
	}
	c, refusal := i.mint(agent, holder, c)
	if refusal != nil {
		return c, noTarget("%s", refusal.Error())
	}
	return c, nil
}

// resealed has a shape admit the handles of another root instead of those that it
// admits.
func resealed(s powerbox.Shape, argument string, renamed map[string]string) (powerbox.Shape, error) {
	fields := s.Fields()
	for n, f := range fields {
		if f.Name != argument || argument == "" {
			continue
		}
		var values []powerbox.Value
		for was, is := range renamed {
			if f.Constraint.Admits(powerbox.String(was)) {
				values = append(values, powerbox.String(is))
			}
		}
		fields = slices.Clone(fields)
		fields[n].Constraint = powerbox.OneOf{Values: values}
	}
	return powerbox.NewShape(s.Rest(), fields...)
}

// keyIn is the key of the holder of a root token of an agent.
func (i *Issuer) keyIn(agent *Agent, compact string) (token.PublicKey, error) {
	u, err := token.ParseChain([]string{compact})
	if err != nil {
		return token.PublicKey{}, fmt.Errorf("issuer: the stored token: %w", err)
	}
	v, err := u.Verify(agent.accepts(), token.Options{Now: i.config.Now(), Revoked: i.Revoked})
	if err != nil {
		return token.PublicKey{}, noTarget("the token of the capability does not verify any more: %v; end it instead", err)
	}
	return v.Holder(), nil
}

// ReplaceAsOperator ends a capability, with all that was narrowed from it, and puts one with
// some of its operations in its place: both in one commit, on record under the operator's
// name.
func (i *Issuer) ReplaceAsOperator(ctx context.Context, operator, id string, keep []string) (Narrower, error) {
	n, err := i.Narrowable(ctx, id, keep)
	if err != nil {
		return n, err
	}
	about := identity.Caller{Agent: operator, Principal: n.Old.Principal}
	ended, err := i.newRecord(n.Old.Agent, about, action.OperatorRevoke, evidence.Intent{Operation: OperationCapability, Details: details(map[string]any{"target": id, "replaced_by": n.New.ID})})
	if err != nil {
		return n, err
	}
	made, err := i.newRecord(n.Old.Agent, about, action.OperatorNarrow, evidence.Intent{Operation: OperationCapability, Details: details(map[string]any{"replaces": id, "holder": n.Old.Holder})})
	if err != nil {
		return n, err
	}
	ended.Details.Capability, ended.OutcomeStatus = id, evidence.Achieved
	made.Details.Capability, made.Details.Granted, made.OutcomeStatus = n.New.ID, n.New.Authority.Names(), evidence.Achieved
	r := Revocation{Kind: KindRevoke, Target: id, By: operator, At: i.config.Now(), Until: n.Old.Expires}
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		var err error
		if n.Revocation, err = write(tx, ended, r); err != nil {
			return err
		}
		if err := putCapability(tx, n.New); err != nil {
			return err
		}
		_, err = tx.Append(made)
		return err
	})
	if err != nil {
		return n, err
	}
	i.learn(n.Revocation)
	return n, nil
}

// KeepAsOperator has on record that an operator looked at a capability and keeps it.
func (i *Issuer) KeepAsOperator(ctx context.Context, operator, id, reason string) error {
	c, err := i.Capability(ctx, id)
	if err != nil {
		return err
	}
	if i.Dead(c) || !c.Expires.After(i.config.Now()) {
		return noTarget("the capability %s has ended; there is nothing to keep", id)
	}
	if reason = strings.TrimSpace(reason); reason == "" || len(reason) > maxReason {
		return noTarget("the reason has %d bytes; want why it is kept, in 1 to %d bytes", len(reason), maxReason)
	}
	record, err := i.newRecord(c.Agent, identity.Caller{Agent: operator, Principal: c.Principal}, action.OperatorKeep, evidence.Intent{Operation: OperationCapability, Purpose: reason})
	if err != nil {
		return err
	}
	record.Details.Capability, record.OutcomeStatus = id, evidence.Achieved
	return i.config.Store.Update(ctx, func(tx Tx) error {
		_, err := tx.Append(record)
		return err
	})
}
