package powerbox

import (
	"slices"
	"strings"
)

// ConstraintCovers reports whether every value that child admits is admitted
// by parent. It is sound for every pair. It is complete (a false answer means
// that a value exists which only child admits) where
//
//   - child admits a finite set that its form shows: exact, one_of, a range of
//     one number, any of these joined by any, or all with one of them in it;
//   - parent is wildcard, not_one_of, or all of parents for which it is
//     complete;
//   - both are range, contains, subset, path or cidr;
//   - child is any of constraints for which it is complete.
//
// Everywhere else it may refuse a pair that in truth holds.
func ConstraintCovers(parent, child Constraint) bool {
	return covers(normalise(parent), normalise(child))
}

// covers works on normal forms.
func covers(parent, child Constraint) bool {
	if set, ok := finite(child); ok {
		return !slices.ContainsFunc(set, func(v Value) bool { return !parent.Admits(v) })
	}
	if c, ok := child.(AnyOf); ok {
		return !slices.ContainsFunc(c.Constraints, func(c Constraint) bool { return !covers(parent, c) })
	}
	switch p := parent.(type) {
	case Wildcard:
		return true
	case NotOneOf:
		return !slices.ContainsFunc(p.Excluded, child.Admits)
	case All:
		return !slices.ContainsFunc(p.Constraints, func(p Constraint) bool { return !covers(p, child) })
	case AnyOf:
		if slices.ContainsFunc(p.Constraints, func(p Constraint) bool { return covers(p, child) }) {
			return true
		}
	case ExactValue, Range, OneOf, Contains, Subset, PathUnder, URLMatch, CIDR, Glob:
	}
	if c, ok := child.(All); ok {
		return slices.ContainsFunc(c.Constraints, func(c Constraint) bool { return covers(parent, c) })
	}
	return coversSameType(parent, child)
}

// coversSameType decides pairs of one type that admit an unbounded set; every
// other pair is not covered.
func coversSameType(parent, child Constraint) bool {
	switch p := parent.(type) {
	case Range:
		c, ok := child.(Range)
		return ok && coversRange(p, c)
	case Contains:
		c, ok := child.(Contains)
		return ok && within(p.Required, c.Required)
	case Subset:
		c, ok := child.(Subset)
		return ok && within(c.Allowed, p.Allowed)
	case PathUnder:
		c, ok := child.(PathUnder)
		return ok && pathUnder(c.Root, p.Root)
	case CIDR:
		c, ok := child.(CIDR)
		return ok && p.Prefix.Bits() <= c.Prefix.Bits() && p.Prefix.Contains(c.Prefix.Addr())
	case URLMatch:
		c, ok := child.(URLMatch)
		return ok && coversURL(p, c)
	case Glob:
		// A star of the child is a character that only a star of the parent
		// matches, so whatever stands in for it is matched as well.
		c, ok := child.(Glob)
		return ok && globMatches(p.Pattern, c.Pattern)
	case ExactValue, OneOf, NotOneOf, Wildcard, All, AnyOf:
	}
	return false
}

func coversRange(p, c Range) bool {
	return tighter(p.Min, c.Min, p.MinExclusive, c.MinExclusive, 1) &&
		tighter(p.Max, c.Max, p.MaxExclusive, c.MaxExclusive, -1)
}

// tighter reports whether bound c lies inside bound p; inside is 1 for lower
// bounds and -1 for upper ones.
func tighter(p, c *Decimal, pExclusive, cExclusive bool, inside int) bool {
	if p == nil {
		return true
	}
	if c == nil {
		return false
	}
	o := c.Compare(*p) * inside
	return o > 0 || o == 0 && (cExclusive || !pExclusive)
}

func coversURL(p, c URLMatch) bool {
	if !subset(c.Schemes, p.Schemes) || !subset(portsOf(c), portsOf(p)) {
		return false
	}
	for _, h := range c.Hosts {
		if !slices.ContainsFunc(p.Hosts, func(parent string) bool { return coversHost(parent, h) }) {
			return false
		}
	}
	return p.Prefix == "" || c.Prefix != "" && pathUnder(c.Prefix, p.Prefix)
}

// portsOf returns the ports as they stand in a URL, "" for the default.
func portsOf(c URLMatch) []string {
	if len(c.Ports) == 0 {
		return []string{""}
	}
	return c.Ports
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

func coversHost(parent, child string) bool {
	if parent == child {
		return true
	}
	return hostMatches(parent, strings.TrimPrefix(child, "*.")) && strings.HasPrefix(parent, "*.")
}

// finite returns the values that a constraint in normal form admits, where its
// form shows that they are finitely many.
func finite(c Constraint) ([]Value, bool) {
	switch c := c.(type) {
	case ExactValue:
		return []Value{c.Value}, true
	case OneOf:
		return c.Values, true
	case Range, NotOneOf, Contains, Subset, Wildcard, All, AnyOf, PathUnder, URLMatch, CIDR, Glob:
	}
	return nil, false
}

// impossible reports whether a constraint in normal form shows that it admits
// nothing.
func impossible(c Constraint) bool {
	set, ok := finite(c)
	return ok && len(set) == 0
}
