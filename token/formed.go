package token

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// illFormed says why a constraint is not well-formed in the sense of the draft's section
// 3.4, or "". [powerbox.ParseConstraint] has seen to the members and their kinds. The
// algebra keeps forms that are refused here: a meet may be empty, a token may not say so.
func illFormed(c powerbox.Constraint) string {
	switch c := c.(type) {
	case powerbox.All:
		return illFormedClauses(c.Type(), c.Constraints)
	case powerbox.AnyOf:
		return illFormedClauses(c.Type(), c.Constraints)
	case powerbox.ExactValue:
		return roundedIn(c.Type(), c.Value)
	case powerbox.OneOf:
		if len(c.Values) == 0 {
			return "one_of without values"
		}
		return roundedIn(c.Type(), c.Values...)
	case powerbox.NotOneOf:
		return roundedIn(c.Type(), c.Excluded...)
	case powerbox.Contains:
		return roundedIn(c.Type(), c.Required...)
	case powerbox.Subset:
		return roundedIn(c.Type(), c.Allowed...)
	case powerbox.Range:
		return illFormedRange(c)
	case powerbox.Wildcard, powerbox.PathUnder, powerbox.URLMatch, powerbox.CIDR, powerbox.Glob:
	}
	return ""
}

func illFormedRange(c powerbox.Range) string {
	if c.Min != nil && c.Max != nil && c.Min.Compare(*c.Max) > 0 {
		return "range with min above max"
	}
	for _, bound := range []*powerbox.Decimal{c.Min, c.Max} {
		if bound != nil && bound.IsRounded() {
			return roundedText("range")
		}
	}
	return ""
}

func illFormedClauses(of string, clauses []powerbox.Constraint) string {
	if len(clauses) == 0 {
		return of + " without constraints"
	}
	for _, c := range clauses {
		if why := illFormed(c); why != "" {
			return of + ": " + why
		}
	}
	return ""
}

func roundedIn(of string, values ...powerbox.Value) string {
	if slices.ContainsFunc(values, powerbox.Value.IsRounded) {
		return roundedText(of)
	}
	return ""
}

func roundedText(of string) string {
	return of + " with a number that a 64-bit float does not keep; write it as a string"
}

// extension is one use of a constraint type that the draft does not define.
type extension struct{ operation, argument, constraintType string }

type extensions []extension

// extensionsIn returns the uses in clauses.
func extensionsIn(clauses []powerbox.Clause) extensions {
	var uses extensions
	for _, c := range clauses {
		for _, f := range c.Shape.Fields() {
			if t := extensionType(f.Constraint); t != "" {
				uses = append(uses, extension{c.Pattern.Name(), f.Name, t})
			}
		}
	}
	return uses
}

// extensionType returns the type that makes a constraint one beyond the draft, or "".
func extensionType(c powerbox.Constraint) string {
	var inside []powerbox.Constraint
	switch c := c.(type) {
	case powerbox.PathUnder, powerbox.URLMatch, powerbox.CIDR, powerbox.Glob:
		return c.Type()
	case powerbox.All:
		inside = c.Constraints
	case powerbox.AnyOf:
		inside = c.Constraints
	case powerbox.ExactValue, powerbox.Range, powerbox.OneOf, powerbox.NotOneOf, powerbox.Contains, powerbox.Subset, powerbox.Wildcard:
	}
	for _, c := range inside {
		if t := extensionType(c); t != "" {
			return t
		}
	}
	return ""
}

// String names every use.
func (e extensions) String() string {
	texts := make([]string, len(e))
	for i, u := range e {
		texts[i] = fmt.Sprintf("operation %q, argument %q has constraint_type %s, which the draft does not define", u.operation, u.argument, u.constraintType)
	}
	return strings.Join(texts, "; ")
}
