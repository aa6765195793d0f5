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
//   - both are range, both contains, both subset, both path, or both cidr
//     (except for ::fffe:0:0/95, the upper half of which is mapped IPv4);
//   - child is any of constraints for which it is complete.
//
// Everywhere else it may refuse a pair that in truth holds.
func ConstraintCovers(parent, child Constraint) bool {
	p, c := normalise(parent), normalise(child)
	if inside(p) == nil && inside(c) == nil {
		return coversLeaf(p, c)
	}
	places := [2]Constraint{p, c}
	return prover{}.covers(&places[0], &places[1])
}

// A prover remembers the pairs of composite constraints that it has answered,
// by their places in the two normal forms. There are many ways down to a pair
// through alternating all and any, so that without memory the work would be
// exponential in the depth (ATK-55).
type prover map[[2]*Constraint]bool

// covers works on normal forms.
func (m prover) covers(parent, child *Constraint) bool {
	if inside(*parent) == nil && inside(*child) == nil {
		return m.prove(parent, child)
	}
	pair := [2]*Constraint{parent, child}
	answer, found := m[pair]
	if !found {
		answer = m.prove(parent, child)
		m[pair] = answer
	}
	return answer
}

func (m prover) prove(parent, child *Constraint) bool {
	if _, ok := finite(*child); ok {
		return coversLeaf(*parent, *child)
	}
	if c, ok := (*child).(AnyOf); ok {
		return all(c.Constraints, func(c *Constraint) bool { return m.covers(parent, c) })
	}
	switch p := (*parent).(type) {
	case Wildcard, NotOneOf:
		return coversLeaf(p, *child)
	case All:
		return all(p.Constraints, func(p *Constraint) bool { return m.covers(p, child) })
	case AnyOf:
		if some(p.Constraints, func(p *Constraint) bool { return m.covers(p, child) }) {
			return true
		}
	default:
	}
	if c, ok := (*child).(All); ok {
		return some(c.Constraints, func(c *Constraint) bool { return m.covers(parent, c) })
	}
	return coversLeaf(*parent, *child)
}

// coversLeaf is prove where neither constraint has others inside.
func coversLeaf(parent, child Constraint) bool {
	if set, ok := finite(child); ok {
		return !slices.ContainsFunc(set, func(v Value) bool { return !parent.Admits(v) })
	}
	switch p := parent.(type) {
	case Wildcard:
		return true
	case NotOneOf:
		return !slices.ContainsFunc(p.Excluded, child.Admits)
	default:
		return coversSameType(parent, child)
	}
}

// all and some hand out places, not copies: a place is what a prover remembers.
func all(cs []Constraint, f func(*Constraint) bool) bool {
	return !some(cs, func(c *Constraint) bool { return !f(c) })
}

func some(cs []Constraint, f func(*Constraint) bool) bool {
	for i := range cs {
		if f(&cs[i]) {
			return true
		}
	}
	return false
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
	default:
		return false
	}
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
	default:
		return nil, false
	}
}

// impossible reports whether a constraint in normal form shows that it admits
// nothing.
func impossible(c Constraint) bool {
	set, ok := finite(c)
	return ok && len(set) == 0
}
