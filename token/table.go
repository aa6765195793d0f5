package token

import (
	"slices"

	"github.com/powerbox-project/powerbox"
)

// maxSteps bounds the work of comparing one token with its parent, so that a
// hostile pair costs no more than an honest one of the same size (ATK-55).
const maxSteps = 1 << 18

// excess returns every respect in which the tools of a derived token go beyond
// those of its parent, by the rules of the draft's section 4.5 (I4) over the
// constraints as they are written. It reports false where the comparison would
// take more than maxSteps.
func excess(parent, child []powerbox.Clause) (wider []powerbox.Excess, ok bool) {
	t := table{steps: maxSteps}
	for _, c := range child {
		name := c.Pattern.Name()
		i, found := findTool(parent, name)
		if !found {
			wider = append(wider, powerbox.Excess{Code: powerbox.CodeOperation, Operation: name})
			continue
		}
		wider = append(wider, t.shape(name, parent[i].Shape, c.Shape)...)
	}
	return wider, t.steps >= 0
}

// findTool returns the place of a tool among tools in order of their names.
func findTool(tools []powerbox.Clause, name string) (int, bool) {
	return slices.BinarySearchFunc(tools, name, func(c powerbox.Clause, name string) int {
		return compareNames(c.Pattern.Name(), name)
	})
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// table is the subsumption relation of section 4.5 with the work that is left.
type table struct{ steps int }

// shape applies the rules for keys, then the table to every argument (steps 4p2 to
// 4p4). What a parent does not name and leaves open, a wildcard covers.
func (t *table) shape(op string, parent, child powerbox.Shape) (wider []powerbox.Excess) {
	open := child.Rest() == powerbox.RestAny
	for _, p := range parent.Fields() {
		c, named := child.Field(p.Name)
		switch {
		case !named && !p.Required && !open: // left out, and so forbidden
		case !named || p.Required && !c.Required:
			wider = append(wider, powerbox.Excess{Code: powerbox.CodeArgumentMissing, Operation: op, Argument: p.Name, ConstraintType: p.Constraint.Type()})
		case !t.covers(p.Constraint, c.Constraint):
			wider = append(wider, powerbox.Excess{Code: powerbox.CodeArgumentConstraint, Operation: op, Argument: p.Name, ConstraintType: p.Constraint.Type()})
		}
	}
	if parent.Rest() == powerbox.RestAny {
		return wider
	}
	if open {
		wider = append(wider, powerbox.Excess{Code: powerbox.CodeArgumentUnknown, Operation: op, Argument: unnamed})
	}
	for _, c := range child.Fields() {
		if _, ok := parent.Field(c.Name); !ok {
			wider = append(wider, powerbox.Excess{Code: powerbox.CodeArgumentUnknown, Operation: op, Argument: c.Name})
		}
	}
	return wider
}

// covers reports whether child is valid attenuation of parent. Every pair of
// types that it does not name is refused. Extension constraints cover the same
// type by [powerbox.ConstraintCovers] and an exact value that they admit.
func (t *table) covers(parent, child powerbox.Constraint) bool {
	if t.steps--; t.steps < 0 {
		return false
	}
	if c, ok := child.(powerbox.ExactValue); ok {
		return coversExact(parent, c.Value)
	}
	switch p := parent.(type) {
	case powerbox.Wildcard:
		return true
	case powerbox.ExactValue:
		return false
	case powerbox.Range:
		c, ok := child.(powerbox.Range)
		return ok && tighter(p.Min, c.Min, p.MinExclusive, c.MinExclusive, 1) &&
			tighter(p.Max, c.Max, p.MaxExclusive, c.MaxExclusive, -1)
	case powerbox.OneOf:
		c, ok := child.(powerbox.OneOf)
		return ok && t.subset(c.Values, p.Values)
	case powerbox.NotOneOf:
		c, ok := child.(powerbox.NotOneOf)
		return ok && t.subset(p.Excluded, c.Excluded)
	case powerbox.Contains:
		c, ok := child.(powerbox.Contains)
		return ok && t.subset(p.Required, c.Required)
	case powerbox.Subset:
		c, ok := child.(powerbox.Subset)
		return ok && t.subset(c.Allowed, p.Allowed)
	case powerbox.All:
		c, ok := child.(powerbox.All)
		return ok && t.all(p.Constraints, c.Constraints)
	case powerbox.AnyOf:
		c, ok := child.(powerbox.AnyOf)
		return ok && t.any(p.Constraints, c.Constraints)
	case powerbox.PathUnder, powerbox.URLMatch, powerbox.CIDR, powerbox.Glob:
	}
	// The remaining types are path, url, cidr and glob.
	return parent.Type() == child.Type() && powerbox.ConstraintCovers(parent, child)
}

// coversExact is the row of the table for a derived exact value: not_one_of,
// contains, subset, all and any are no targets for it, whatever they admit.
func coversExact(parent powerbox.Constraint, value powerbox.Value) bool {
	switch parent.(type) {
	case powerbox.Wildcard, powerbox.ExactValue, powerbox.Range, powerbox.OneOf,
		powerbox.PathUnder, powerbox.URLMatch, powerbox.CIDR, powerbox.Glob:
		return parent.Admits(value)
	case powerbox.NotOneOf, powerbox.Contains, powerbox.Subset, powerbox.All, powerbox.AnyOf:
	}
	return false
}

// tighter reports whether the bound c is at least as restrictive as p; inside
// is 1 for lower bounds and -1 for upper ones. A bound may be missing only
// where the parent's is.
func tighter(p, c *powerbox.Decimal, pExclusive, cExclusive bool, inside int) bool {
	if p == nil || c == nil {
		return p == nil
	}
	o := c.Compare(*p) * inside
	return o > 0 || o == 0 && (cExclusive || !pExclusive)
}

// subset reports whether every value of a is in b. Large sets are sorted first.
func (t *table) subset(a, b []powerbox.Value) bool {
	if t.steps -= len(a) + len(b); t.steps < 0 {
		return false
	}
	if len(a)*len(b) <= 256 {
		return !slices.ContainsFunc(a, func(v powerbox.Value) bool { return !slices.ContainsFunc(b, v.Equal) })
	}
	sorted := slices.SortedFunc(slices.Values(b), powerbox.Value.Compare)
	return !slices.ContainsFunc(a, func(v powerbox.Value) bool {
		_, ok := slices.BinarySearchFunc(sorted, v, powerbox.Value.Compare)
		return !ok
	})
}

// any reports whether every clause of child is covered by some clause of
// parent. A child without a clause is ill-formed, so that it does not come here.
func (t *table) any(parent, child []powerbox.Constraint) bool {
	return !slices.ContainsFunc(child, func(c powerbox.Constraint) bool {
		return !slices.ContainsFunc(parent, func(p powerbox.Constraint) bool { return t.covers(p, c) })
	})
}

// all reports whether every clause of parent covers some clause of child. One clause
// may serve several: it is sound, and -02 says so (section 4.5). Draft -01 asks for
// one each, which refuses chains that do not widen; this accepts them there too.
func (t *table) all(parent, child []powerbox.Constraint) bool {
	return !slices.ContainsFunc(parent, func(p powerbox.Constraint) bool {
		return !slices.ContainsFunc(child, func(c powerbox.Constraint) bool { return t.covers(p, c) })
	})
}
