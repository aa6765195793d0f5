package policy

import (
	"slices"

	cedar "github.com/cedar-policy/cedar-go"
)

// head is what the scope of a policy names: for each part the entities of
// which the request's must be one or be in one; nil is anything.
type head struct{ principal, action, resource []cedar.EntityUID }

// symbol stands for an entity that some head names. 0 stands for anything.
type symbol = uint32

// index finds the policies whose heads can match a request. A policy that it
// leaves out has a scope that is false for the request and so can neither
// apply nor fail.
type index struct {
	symbols    map[cedar.EntityUID]symbol
	byHead     map[[3]symbol][]int // positions in statements, ascending
	statements []*statement
}

func newIndex(statements []*statement) *index {
	x := &index{symbols: map[cedar.EntityUID]symbol{}, byHead: map[[3]symbol][]int{}, statements: statements}
	for i, s := range statements {
		for _, p := range x.intern(s.head.principal) {
			for _, a := range x.intern(s.head.action) {
				for _, r := range x.intern(s.head.resource) {
					key := [3]symbol{p, a, r}
					x.byHead[key] = append(x.byHead[key], i)
				}
			}
		}
	}
	return x
}

func (x *index) intern(entities []cedar.EntityUID) []symbol {
	if entities == nil {
		return []symbol{0}
	}
	symbols := make([]symbol, len(entities))
	for i, e := range entities {
		s, ok := x.symbols[e]
		if !ok {
			s = symbol(len(x.symbols) + 1)
			x.symbols[e] = s
		}
		symbols[i] = s
	}
	return symbols
}

// closure returns the symbols of the entities that some head names, and 0.
func (x *index) closure(entities []cedar.EntityUID) []symbol {
	return x.extend(make([]symbol, 1, len(entities)+1), entities...)
}

// extend appends the symbols of more entities to a closure.
func (x *index) extend(closure []symbol, entities ...cedar.EntityUID) []symbol {
	for _, e := range entities {
		if s, ok := x.symbols[e]; ok {
			closure = append(closure, s)
		}
	}
	return closure
}

// candidates returns the policies whose heads fit, in their order. The arguments
// are the closures of the request's three parts.
func (x *index) candidates(principal, action, resource []symbol) []*statement {
	if len(principal)*len(action)*len(resource) > len(x.statements) {
		return x.scan(principal, action, resource) // looking at each is less work
	}
	var room [8]int
	found := room[:0]
	for _, p := range principal {
		for _, a := range action {
			for _, r := range resource {
				found = append(found, x.byHead[[3]symbol{p, a, r}]...)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	statements := make([]*statement, len(found))
	for i, at := range found {
		statements[i] = x.statements[at]
	}
	return statements
}

// scan is candidates by looking at each policy.
func (x *index) scan(principal, action, resource []symbol) []*statement {
	var statements []*statement
	for _, s := range x.statements {
		if x.fits(s.head.principal, principal) && x.fits(s.head.action, action) && x.fits(s.head.resource, resource) {
			statements = append(statements, s)
		}
	}
	return statements
}

// fits reports whether one of the entities is in a closure. Without entities anything fits.
func (x *index) fits(entities []cedar.EntityUID, closure []symbol) bool {
	return entities == nil || slices.ContainsFunc(entities, func(e cedar.EntityUID) bool {
		return slices.Contains(closure, x.symbols[e])
	})
}
