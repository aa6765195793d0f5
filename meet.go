package powerbox

import (
	"maps"
	"slices"
)

// MeetConstraints returns a constraint that admits exactly the values that
// both admit, in normal form: equal sets of clauses give equal results in
// whatever order they are met. The meet of two constraints near the limits of
// [ParseConstraint] can be beyond them: then nothing reads it back.
func MeetConstraints(a, b Constraint) Constraint { return normalise(All{[]Constraint{a, b}}) }

// nothing admits no value.
var nothing = OneOf{}

// normalise returns the normal form of c, which admits the same values: nested
// all and any are flattened, sets are sorted and without repeats, clauses of
// one type are merged where the type is closed under meet, and a finite set is
// filtered by everything beside it.
func normalise(c Constraint) Constraint {
	switch c := c.(type) {
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
	case URLMatch:
		return normaliseURL(c)
	default:
		return c
	}
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

// normaliseURL sorts the lists: their order and repeats mean nothing.
func normaliseURL(c URLMatch) URLMatch {
	for _, list := range []*[]string{&c.Schemes, &c.Hosts, &c.Ports} {
		*list = slices.Clone(*list)
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if c.Prefix == "/" {
		c.Prefix = ""
	}
	return c
}

func normaliseRange(r Range) Constraint {
	r.MinExclusive = r.MinExclusive && r.Min != nil
	r.MaxExclusive = r.MaxExclusive && r.Max != nil
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
// returns the rest, sorted, without repeats and without wildcards.
func mergeClauses(cs []Constraint) []Constraint {
	var out []Constraint
	for _, c := range cs {
		if _, ok := c.(Wildcard); ok {
			continue
		}
		i := slices.IndexFunc(out, func(o Constraint) bool { return merge(o, c) != nil })
		if i < 0 {
			out = append(out, c)
			continue
		}
		// The result may be of another type: two ranges can leave one number,
		// or none. Anyone who has a finite set filters it by all the rest.
		out[i] = normalise(merge(out[i], c))
	}
	return distinct(out)
}

// distinct sorts cs and drops repeats.
func distinct(cs []Constraint) []Constraint {
	if len(cs) == 1 {
		return cs // as nearly always, without its JSON
	}
	keys := make(map[string]Constraint, len(cs))
	for _, c := range cs {
		keys[c.JSON().String()] = c
	}
	out := make([]Constraint, 0, len(keys))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, keys[key])
	}
	return out
}

// merge returns the meet of two constraints of one type that is closed under
// meet, and nil for every other pair.
func merge(a, b Constraint) Constraint {
	switch a := a.(type) {
	case Range:
		if b, ok := b.(Range); ok {
			return mergeRange(a, b)
		}
	case NotOneOf:
		if b, ok := b.(NotOneOf); ok {
			return NotOneOf{slices.Concat(a.Excluded, b.Excluded)}
		}
	case Contains:
		if b, ok := b.(Contains); ok {
			return Contains{slices.Concat(a.Required, b.Required)}
		}
	case Subset:
		if b, ok := b.(Subset); ok {
			return Subset{slices.DeleteFunc(slices.Clone(a.Allowed), func(v Value) bool { return !member(b.Allowed, v) })}
		}
	default:
	}
	return nil
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
		parts := []Constraint{normalise(c)}
		if inner, ok := parts[0].(AnyOf); ok {
			parts = inner.Constraints
		}
		for _, part := range parts {
			if values, ok := finite(part); ok {
				set = append(set, values...)
			} else {
				out = append(out, part)
			}
		}
	}
	if slices.ContainsFunc(out, func(c Constraint) bool { _, wild := c.(Wildcard); return wild }) {
		return Wildcard{}
	}
	if len(out) == 0 {
		return fromSet(set)
	}
	if len(set) > 0 {
		out = append(out, fromSet(set))
	}
	if out = distinct(out); len(out) == 1 {
		return out[0]
	}
	return AnyOf{out}
}
