package powerbox

import (
	"slices"
)

// MeetConstraints returns a constraint that admits exactly the values that
// both admit, in normal form: equal sets of clauses give equal results in
// whatever order they are met.
func MeetConstraints(a, b Constraint) Constraint { return normalise(All{[]Constraint{a, b}}) }

// nothing admits no value.
var nothing = OneOf{}

// normalise returns the normal form of c, which admits the same values: nested
// all and any are flattened, sets are sorted and without repeats, clauses of
// one type are merged where the type is closed under meet, and a finite set is
// filtered by everything beside it.
func normalise(c Constraint) Constraint {
	switch c := c.(type) {
	case ExactValue:
		return c
	case OneOf:
		return fromSet(c.Values)
	case NotOneOf:
		if len(c.Excluded) == 0 {
			return Wildcard{}
		}
		return NotOneOf{sortedSet(c.Excluded)}
	case Contains:
		return Contains{sortedSet(c.Required)}
	case Subset:
		return Subset{sortedSet(c.Allowed)}
	case Range:
		return normaliseRange(c)
	case All:
		return normaliseAll(c.Constraints)
	case AnyOf:
		return normaliseAny(c.Constraints)
	case Wildcard, PathUnder, URLMatch, CIDR, Glob:
	}
	return c
}

func fromSet(vs []Value) Constraint {
	set := sortedSet(vs)
	if len(set) == 1 && set[0].kind != KindList && set[0].kind != KindObject {
		return ExactValue{set[0]}
	}
	return OneOf{set}
}

func sortedSet(vs []Value) []Value {
	set := slices.Clone(vs)
	slices.SortFunc(set, Value.Compare)
	return slices.CompactFunc(set, Value.Equal)
}

func normaliseRange(r Range) Constraint {
	if r.Min == nil || r.Max == nil {
		return r
	}
	switch o := r.Min.Compare(*r.Max); {
	case o > 0, o == 0 && (r.MinExclusive || r.MaxExclusive):
		return nothing
	case o == 0:
		return ExactValue{Number(*r.Min)}
	}
	return r
}

func normaliseAll(cs []Constraint) Constraint {
	clauses := mergeClauses(flatten(cs))
	for i, c := range clauses {
		set, ok := finite(c)
		if !ok {
			continue
		}
		rest := All{slices.Concat(clauses[:i], clauses[i+1:])}
		return fromSet(slices.DeleteFunc(slices.Clone(set), func(v Value) bool { return !rest.Admits(v) }))
	}
	switch len(clauses) {
	case 0:
		return Wildcard{}
	case 1:
		return clauses[0]
	}
	return All{clauses}
}

// flatten returns the normal forms of cs with nested all dissolved.
func flatten(cs []Constraint) []Constraint {
	var out []Constraint
	for _, c := range cs {
		n := normalise(c)
		if all, ok := n.(All); ok {
			out = append(out, all.Constraints...)
			continue
		}
		out = append(out, n)
	}
	return out
}

// mergeClauses meets the clauses of every type that is closed under meet and
// returns what is left, sorted, without repeats and without wildcards.
func mergeClauses(cs []Constraint) []Constraint {
	var out []Constraint
	for _, c := range cs {
		if _, ok := c.(Wildcard); ok {
			continue
		}
		i := slices.IndexFunc(out, func(o Constraint) bool { return o.Type() == c.Type() && mergeable(c) })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i] = normalise(merge(out[i], c))
	}
	// Merging can turn a clause into one of another type that merges again: a
	// range of one number into exact.
	slices.SortFunc(out, compareConstraints)
	out = slices.CompactFunc(out, func(a, b Constraint) bool { return compareConstraints(a, b) == 0 })
	return out
}

func mergeable(c Constraint) bool {
	switch c.(type) {
	case Range, NotOneOf, Contains, Subset:
		return true
	case ExactValue, OneOf, Wildcard, All, AnyOf, PathUnder, URLMatch, CIDR, Glob:
	}
	return false
}

func merge(a, b Constraint) Constraint {
	switch a := a.(type) {
	case Range:
		return mergeRange(a, b.(Range))
	case NotOneOf:
		return NotOneOf{slices.Concat(a.Excluded, b.(NotOneOf).Excluded)}
	case Contains:
		return Contains{slices.Concat(a.Required, b.(Contains).Required)}
	case Subset:
		allowed := b.(Subset).Allowed
		return Subset{slices.DeleteFunc(slices.Clone(a.Allowed), func(v Value) bool { return !member(allowed, v) })}
	case ExactValue, OneOf, Wildcard, All, AnyOf, PathUnder, URLMatch, CIDR, Glob:
	}
	return nothing
}

func mergeRange(a, b Range) Range {
	if tighter(a.Min, b.Min, a.MinExclusive, b.MinExclusive, 1) && b.Min != nil {
		a.Min, a.MinExclusive = b.Min, b.MinExclusive
	}
	if tighter(a.Max, b.Max, a.MaxExclusive, b.MaxExclusive, -1) && b.Max != nil {
		a.Max, a.MaxExclusive = b.Max, b.MaxExclusive
	}
	return a
}

func normaliseAny(cs []Constraint) Constraint {
	var set []Value
	var out []Constraint
	for _, c := range cs {
		n := normalise(c)
		if values, ok := finite(n); ok {
			set = append(set, values...)
			continue
		}
		if inner, ok := n.(AnyOf); ok {
			for _, c := range inner.Constraints {
				if values, ok := finite(c); ok {
					set = append(set, values...)
				} else {
					out = append(out, c)
				}
			}
			continue
		}
		out = append(out, n)
	}
	if slices.ContainsFunc(out, func(c Constraint) bool { return c.Type() == "wildcard" }) {
		return Wildcard{}
	}
	if len(out) == 0 {
		return fromSet(set)
	}
	if len(set) > 0 {
		out = append(out, fromSet(set))
	}
	slices.SortFunc(out, compareConstraints)
	out = slices.CompactFunc(out, func(a, b Constraint) bool { return compareConstraints(a, b) == 0 })
	if len(out) == 1 {
		return out[0]
	}
	return AnyOf{out}
}

// compareConstraints orders constraints by their object form.
func compareConstraints(a, b Constraint) int { return a.JSON().Compare(b.JSON()) }
