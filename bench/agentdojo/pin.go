package main

import (
	"slices"

	"github.com/powerbox-project/powerbox"
)

// pin is what the prompt says about one argument of a tool.
type pin struct {
	Argument   argument
	Constraint powerbox.Constraint
}

// authority is what one task is granted: tools, each with the arguments that are
// pinned; a tool without pins may be called with any.
type authority struct {
	tools []tool
	pins  map[string][]pin // by tool
}

// derive pins arguments of tools that change something: one that takes an address or an
// account takes only those that the prompt names, if it names some. It sees the prompt, the
// schemas and the annotations, and knows no words.
func derive(text string, tools []tool) authority {
	named := literals(text)
	a := authority{tools: tools, pins: map[string][]pin{}}
	for _, t := range tools {
		for _, arg := range t.arguments {
			if c := constraintOf(arg, named[arg.Kind]); c != nil && !t.reads() {
				a.pins[t.Name] = append(a.pins[t.Name], pin{arg, c})
			}
		}
	}
	return a
}

// deciding are the arguments of a tool that say whom or what a call is about, and how much: by
// their kind, or all if none has such a kind.
func (t tool) deciding() []string {
	var some, all []string
	for _, a := range t.arguments {
		if slices.Contains([]kind{kindEmail, kindParty, kindURL, kindFile, kindID, kindNumber}, a.Kind) && a.Required {
			some = append(some, a.Name)
		}
		all = append(all, a.Name)
	}
	if some == nil {
		return all
	}
	return some
}

// constraintOf admits those values, and null where the schema does; nil where
// there are none.
func constraintOf(a argument, values []string) powerbox.Constraint {
	if len(values) == 0 {
		return nil
	}
	var exact []powerbox.Value
	for _, v := range values {
		exact = append(exact, powerbox.String(v))
	}
	null := powerbox.ExactValue{}
	switch {
	case a.List && a.Nullable:
		return powerbox.AnyOf{Constraints: []powerbox.Constraint{powerbox.Subset{Allowed: exact}, null}}
	case a.List:
		return powerbox.Subset{Allowed: exact}
	case a.Nullable:
		exact = append(exact, null.Value)
	}
	return powerbox.OneOf{Values: exact}
}
