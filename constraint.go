package powerbox

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of what one authority may hold, so that a hostile one costs no more
// than an honest one (ATK-55).
const (
	MaxConstraintDepth   = 32      // nesting of all and any
	MaxConstraintBytes   = 4 << 10 // one string inside a constraint, in bytes
	MaxConstraintNodes   = 4096    // values of one constraint, at every level
	maxConstraintClauses = 256     // constraints inside one constraint, itself included
	MaxArguments         = 64      // constrained arguments of one operation
	MaxOperations        = 256     // clauses of one authority
)

// Constraint is a predicate on the value of one argument. The set of types is
// closed: the nine of the token draft (section 3.4) and four extensions whose
// matcher parses like the target that the value is meant for. A constraint is
// immutable: what its slices and pointers hold must not be changed.
//
//sumtype:decl
type Constraint interface {
	// Admits reports whether the argument may have that value.
	Admits(Value) bool
	// Type returns the constraint_type, which reasons to a caller may name.
	Type() string
	// JSON returns the object form, which [ParseConstraint] reads back.
	JSON() Value

	sealed()
}

// ExactValue admits one scalar; the zero ExactValue admits null.
type ExactValue struct{ Value Value }

// Range admits numbers between bounds; a nil bound is open. Bounds belong to
// the range unless they are exclusive.
type Range struct {
	Min, Max                   *Decimal
	MinExclusive, MaxExclusive bool
}

// OneOf admits its values. Without values it admits nothing.
type OneOf struct{ Values []Value }

// NotOneOf admits everything but its values.
type NotOneOf struct{ Excluded []Value }

// Contains admits arrays that hold every required element.
type Contains struct{ Required []Value }

// Subset admits arrays that hold no element but the allowed ones.
type Subset struct{ Allowed []Value }

// Wildcard admits any value.
type Wildcard struct{}

// All admits what every one of its constraints admits.
type All struct{ Constraints []Constraint }

// AnyOf admits what at least one of its constraints admits.
type AnyOf struct{ Constraints []Constraint }

func (ExactValue) sealed() {}
func (Range) sealed()      {}
func (OneOf) sealed()      {}
func (NotOneOf) sealed()   {}
func (Contains) sealed()   {}
func (Subset) sealed()     {}
func (Wildcard) sealed()   {}
func (All) sealed()        {}
func (AnyOf) sealed()      {}

// Admits implements [Constraint].
func (c ExactValue) Admits(v Value) bool { return c.Value.Equal(v) }

// Admits implements [Constraint]. Anything that is not a number is refused.
func (c Range) Admits(v Value) bool {
	d, ok := v.Decimal()
	if !ok {
		return false
	}
	if c.Min != nil {
		if o := d.Compare(*c.Min); o < 0 || o == 0 && c.MinExclusive {
			return false
		}
	}
	if c.Max != nil {
		if o := d.Compare(*c.Max); o > 0 || o == 0 && c.MaxExclusive {
			return false
		}
	}
	return true
}

// Admits implements [Constraint].
func (c OneOf) Admits(v Value) bool { return member(c.Values, v) }

// Admits implements [Constraint].
func (c NotOneOf) Admits(v Value) bool { return !member(c.Excluded, v) }

// Admits implements [Constraint]. Anything that is not an array is refused.
func (c Contains) Admits(v Value) bool {
	elements, ok := v.Elements()
	return ok && holdsAll(elements, c.Required)
}

// Admits implements [Constraint]. Anything that is not an array is refused.
func (c Subset) Admits(v Value) bool {
	elements, ok := v.Elements()
	return ok && within(elements, c.Allowed)
}

// Admits implements [Constraint].
func (Wildcard) Admits(Value) bool { return true }

// Admits implements [Constraint]. Without constraints it admits everything.
func (c All) Admits(v Value) bool {
	return !slices.ContainsFunc(c.Constraints, func(c Constraint) bool { return !c.Admits(v) })
}

// Admits implements [Constraint]. Without constraints it admits nothing.
func (c AnyOf) Admits(v Value) bool {
	return slices.ContainsFunc(c.Constraints, func(c Constraint) bool { return c.Admits(v) })
}

func member(set []Value, v Value) bool {
	for i := range set {
		if set[i].Equal(v) {
			return true
		}
	}
	return false
}

// Below this product of two lengths, comparing each with each is cheaper than
// sorting; above it, a long argument against a long list must not cost their
// product (ATK-55).
const sortAbove = 1 << 10

// within reports whether every element of list is one of set.
func within(list, set []Value) bool {
	if len(list)*len(set) <= sortAbove {
		return !slices.ContainsFunc(list, func(v Value) bool { return !member(set, v) })
	}
	sorted := sortedSet(set)
	return !slices.ContainsFunc(list, func(v Value) bool {
		_, ok := slices.BinarySearchFunc(sorted, v, Value.Compare)
		return !ok
	})
}

// holdsAll reports whether every value of set is an element of list.
func holdsAll(list, set []Value) bool {
	if len(list)*len(set) <= sortAbove {
		return !slices.ContainsFunc(set, func(v Value) bool { return !member(list, v) })
	}
	sorted := sortedSet(set)
	seen, missing := make([]bool, len(sorted)), len(sorted)
	for _, v := range list {
		if i, ok := slices.BinarySearchFunc(sorted, v, Value.Compare); ok && !seen[i] {
			seen[i] = true
			missing--
		}
	}
	return missing == 0
}

// Type implements [Constraint].
func (ExactValue) Type() string { return "exact" }

// Type implements [Constraint].
func (Range) Type() string { return "range" }

// Type implements [Constraint].
func (OneOf) Type() string { return "one_of" }

// Type implements [Constraint].
func (NotOneOf) Type() string { return "not_one_of" }

// Type implements [Constraint].
func (Contains) Type() string { return "contains" }

// Type implements [Constraint].
func (Subset) Type() string { return "subset" }

// Type implements [Constraint].
func (Wildcard) Type() string { return "wildcard" }

// Type implements [Constraint].
func (All) Type() string { return "all" }

// Type implements [Constraint].
func (AnyOf) Type() string { return "any" }

// typed returns the object form of a constraint.
func typed(constraintType string, members ...Member) Value {
	// First, where it stands in the order of most names.
	all := append(make([]Member, 0, 5), Member{"constraint_type", String(constraintType)})
	return Object(append(all, members...)...)
}

// JSON implements [Constraint].
func (c ExactValue) JSON() Value { return typed(c.Type(), Member{"value", c.Value}) }

// JSON implements [Constraint].
func (c Range) JSON() Value {
	var ms []Member
	if c.Min != nil {
		ms = append(ms, Member{"min", Number(*c.Min)})
	}
	if c.Max != nil {
		ms = append(ms, Member{"max", Number(*c.Max)})
	}
	if c.MinExclusive {
		ms = append(ms, Member{"min_inclusive", Bool(false)})
	}
	if c.MaxExclusive {
		ms = append(ms, Member{"max_inclusive", Bool(false)})
	}
	return typed(c.Type(), ms...)
}

// JSON implements [Constraint].
func (c OneOf) JSON() Value { return typed(c.Type(), Member{"values", List(c.Values...)}) }

// JSON implements [Constraint].
func (c NotOneOf) JSON() Value { return typed(c.Type(), Member{"excluded", List(c.Excluded...)}) }

// JSON implements [Constraint].
func (c Contains) JSON() Value { return typed(c.Type(), Member{"required", List(c.Required...)}) }

// JSON implements [Constraint].
func (c Subset) JSON() Value { return typed(c.Type(), Member{"allowed", List(c.Allowed...)}) }

// JSON implements [Constraint].
func (c Wildcard) JSON() Value { return typed(c.Type()) }

// JSON implements [Constraint].
func (c All) JSON() Value {
	return typed(c.Type(), Member{"constraints", constraintList(c.Constraints)})
}

// JSON implements [Constraint].
func (c AnyOf) JSON() Value {
	return typed(c.Type(), Member{"constraints", constraintList(c.Constraints)})
}

func constraintList(cs []Constraint) Value {
	vs := make([]Value, len(cs))
	for i, c := range cs {
		vs[i] = c.JSON()
	}
	return listOf(vs)
}

// inside returns the constraints that c is made of; none except for all and any.
func inside(c Constraint) []Constraint {
	switch c := c.(type) {
	case All:
		return c.Constraints
	case AnyOf:
		return c.Constraints
	default:
		return nil
	}
}

// known reports whether c and all that it is made of are the constraint types
// of this package: not nil, not pointers to them, and nothing that borrows
// their methods by embedding.
func known(c Constraint) bool {
	switch c.(type) {
	case ExactValue, Range, OneOf, NotOneOf, Contains, Subset, Wildcard, All, AnyOf, PathUnder, URLMatch, CIDR, Glob:
		return !slices.ContainsFunc(inside(c), func(c Constraint) bool { return !known(c) })
	default:
		return false
	}
}

// ParseConstraint reads the object form of a constraint: constraint_type and
// the members of that type. Unknown types and unknown members are refused: a
// restriction that this program does not understand must not be skipped.
func ParseConstraint(v Value) (Constraint, error) {
	p := constraintParser{nodes: MaxConstraintNodes, clauses: maxConstraintClauses}
	return p.constraint(v, MaxConstraintDepth)
}

// constraintParser counts what one constraint may still hold.
type constraintParser struct{ nodes, clauses int }

func (p *constraintParser) constraint(v Value, depth int) (Constraint, error) {
	if depth == 0 {
		return nil, fmt.Errorf("constraint nests deeper than %d", MaxConstraintDepth)
	}
	if p.clauses--; p.clauses < 0 {
		return nil, fmt.Errorf("constraint holds more than %d constraints", maxConstraintClauses)
	}
	if v.kind != KindObject {
		return nil, fmt.Errorf("constraint is %s; want an object with constraint_type", aKind(v.kind))
	}
	name, _ := v.Get("constraint_type")
	constraintType, ok := name.Text()
	if !ok {
		return nil, fmt.Errorf("constraint has no constraint_type; want one of %s", strings.Join(constraintTypes, ", "))
	}
	o := objectReader{of: reading{"constraint", constraintType}, members: v.fields()}
	o.take("constraint_type")
	c, err := p.typed(constraintType, &o, depth)
	if err != nil {
		return nil, err
	}
	return c, o.finish()
}

var constraintTypes = []string{
	"exact", "range", "one_of", "not_one_of", "contains", "subset", "wildcard", "all", "any",
	"path", "url", "cidr", "glob",
}

func (p *constraintParser) typed(constraintType string, o *objectReader, depth int) (Constraint, error) {
	switch constraintType {
	case "exact":
		return p.exact(o)
	case "range":
		return parseRange(o)
	case "one_of":
		vs, err := p.values(o, "values")
		return OneOf{vs}, err
	case "not_one_of":
		vs, err := p.values(o, "excluded")
		return NotOneOf{vs}, err
	case "contains":
		vs, err := p.values(o, "required")
		return Contains{vs}, err
	case "subset":
		vs, err := p.values(o, "allowed")
		return Subset{vs}, err
	case "wildcard":
		return Wildcard{}, nil
	case "all":
		cs, err := p.nested(o, depth)
		return All{cs}, err
	case "any":
		cs, err := p.nested(o, depth)
		return AnyOf{cs}, err
	case "path":
		return parsePath(o)
	case "url":
		return p.url(o)
	case "cidr":
		return parseCIDR(o)
	case "glob":
		return parseGlob(o)
	}
	return nil, fmt.Errorf("constraint_type %.64q is unknown; want one of %s", constraintType, strings.Join(constraintTypes, ", "))
}

func (p *constraintParser) exact(o *objectReader) (Constraint, error) {
	v, ok := o.take("value")
	if !ok {
		return nil, o.missing("value")
	}
	if v.kind == KindList || v.kind == KindObject {
		return nil, fmt.Errorf("%s: value is %s; want a scalar", o.of, aKind(v.kind))
	}
	return ExactValue{v}, p.count(o.of, v)
}

// count takes v and all that it is made of from the budget, and refuses
// strings that are too long.
func (p *constraintParser) count(of reading, v Value) error {
	if n := len(v.text); n > MaxConstraintBytes {
		return fmt.Errorf("%s: a string has %d bytes; want at most %d", of, n, MaxConstraintBytes)
	}
	if p.nodes--; p.nodes < 0 {
		return fmt.Errorf("%s: more than %d values", of, MaxConstraintNodes)
	}
	for _, e := range v.elements() {
		if err := p.count(of, e); err != nil {
			return err
		}
	}
	for _, m := range v.fields() {
		if err := p.count(of, String(m.Name)); err != nil {
			return err
		}
		if err := p.count(of, m.Value); err != nil {
			return err
		}
	}
	return nil
}

func (p *constraintParser) values(o *objectReader, name string) ([]Value, error) {
	v, ok := o.take(name)
	if !ok {
		return nil, o.missing(name)
	}
	elements, ok := v.Elements()
	if !ok {
		return nil, fmt.Errorf("%s: %s is %s; want an array", o.of, name, aKind(v.kind))
	}
	for _, e := range elements {
		if err := p.count(o.of, e); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

func (p *constraintParser) nested(o *objectReader, depth int) ([]Constraint, error) {
	v, ok := o.take("constraints")
	if !ok {
		return nil, o.missing("constraints")
	}
	elements, ok := v.Elements()
	if !ok {
		return nil, fmt.Errorf("%s: constraints is %s; want an array", o.of, aKind(v.kind))
	}
	var cs []Constraint
	for i, e := range elements {
		c, err := p.constraint(e, depth-1)
		if err != nil {
			return nil, fmt.Errorf("%s, constraint %d: %w", o.of, i+1, err)
		}
		cs = append(cs, c)
	}
	return cs, nil
}

func parseRange(o *objectReader) (Constraint, error) {
	var r Range
	for _, b := range []struct {
		bound, inclusive string
		value            **Decimal
		exclusive        *bool
	}{{"min", "min_inclusive", &r.Min, &r.MinExclusive}, {"max", "max_inclusive", &r.Max, &r.MaxExclusive}} {
		if v, ok := o.take(b.bound); ok {
			d, ok := v.Decimal()
			if !ok {
				return nil, fmt.Errorf("%s: %s is %s; want a number", o.of, b.bound, aKind(v.kind))
			}
			*b.value = &d
		}
		if v, ok := o.take(b.inclusive); ok {
			inclusive, ok := v.Truth()
			if !ok {
				return nil, fmt.Errorf("%s: %s is %s; want true or false", o.of, b.inclusive, aKind(v.kind))
			}
			if *b.value == nil {
				return nil, fmt.Errorf("%s has %s without %s; write both or neither", o.of, b.inclusive, b.bound)
			}
			*b.exclusive = !inclusive
		}
	}
	return r, nil
}

// objectReader takes members out of an object and refuses the others.
type objectReader struct {
	of      reading
	members []Member
	// taken has a bit for each of the first 64 members. No object that is read
	// here has that many, so that one with more has some left in any case.
	taken uint64
}

// reading is what an objectReader reads, for errors, which are rarer than
// objects: it is worded for them alone.
type reading struct{ kind, name string }

func (r reading) String() string {
	if r.name == "" {
		return r.kind
	}
	return fmt.Sprintf("%s %.64q", r.kind, r.name)
}

func (o *objectReader) take(name string) (Value, bool) {
	for i := range o.members {
		if o.members[i].Name == name && o.taken>>i&1 == 0 {
			o.taken |= 1 << i
			return o.members[i].Value, true
		}
	}
	return Value{}, false
}

func (o *objectReader) missing(name string) error {
	return fmt.Errorf("%s has no %s", o.of, name)
}

func (o *objectReader) finish() error {
	for i := range o.members {
		if o.taken>>i&1 == 0 {
			return fmt.Errorf("%s: member %.64q is unknown", o.of, o.members[i].Name)
		}
	}
	return nil
}

func aKind(k Kind) string {
	switch k {
	case KindNull:
		return "null"
	case KindList, KindObject:
		return "an " + k.String()
	default:
		return "a " + k.String()
	}
}
