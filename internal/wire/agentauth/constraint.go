package agentauth

import (
	"fmt"
	"slices"

	"github.com/powerbox-project/powerbox"
)

// The operators of constraints (section 2.13).
const (
	opMax   = "max"
	opMin   = "min"
	opIn    = "in"
	opNotIn = "not_in"
	opEq    = "eq" // of other documents than the specification (AAP-G6)
)

// Options are an operator's choices about constraints.
type Options struct {
	// Eq takes {"eq": value} for an exact value, as some clients write it. Off, it
	// is an unknown operator.
	Eq bool
}

// The bounds of the constraints of one grant (ATK-55): as many input fields as a token
// may have arguments, and values in a list that a person can still be shown.
const (
	maxFields = 64
	maxValues = 1000
)

// ParseConstraints reads the constraints of a grant as a shape: every field is
// required, but one that has only not_in; other arguments are free (design,
// section 1). The zero Value and an object without members constrain nothing.
// Errors are [*Error].
func (o Options) ParseConstraints(v powerbox.Value) (powerbox.Shape, error) {
	if v.Kind() == powerbox.KindNull {
		return powerbox.AnyArguments(), nil
	}
	members, ok := v.Members()
	if !ok {
		return powerbox.Shape{}, Errorf(CodeInvalidRequest, "constraints are JSON %s; want an object of input fields", v.Kind())
	}
	if len(members) > maxFields {
		return powerbox.Shape{}, Errorf(CodeInvalidRequest, "constraints name %d input fields; want at most %d", len(members), maxFields)
	}
	if unknown := o.unknown(members); len(unknown) > 0 {
		e := Errorf(CodeUnknownOperator, "constraint operators %q are not known; want max, min, in, not_in, or an exact value", unknown)
		e.UnknownOperators = unknown
		return powerbox.Shape{}, e
	}
	fields := make([]powerbox.Field, 0, len(members))
	for _, m := range members {
		f, err := o.field(m)
		if err != nil {
			return powerbox.Shape{}, err
		}
		fields = append(fields, f)
	}
	shape, err := powerbox.NewShape(powerbox.RestAny, fields...)
	if err != nil {
		return powerbox.Shape{}, Errorf(CodeInvalidRequest, "constraints: %v", err)
	}
	return shape, nil
}

// unknown returns the operators that are none, of all fields.
func (o Options) unknown(fields []powerbox.Member) []string {
	var out []string
	for _, f := range fields {
		operators, _ := f.Value.Members()
		for _, op := range operators {
			switch op.Name {
			case opMax, opMin, opIn, opNotIn:
			default:
				if op.Name != opEq || !o.Eq {
					out = append(out, op.Name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (o Options) field(m powerbox.Member) (powerbox.Field, error) {
	bad := func(format string, args ...any) (powerbox.Field, error) {
		return powerbox.Field{}, Errorf(CodeInvalidRequest, "constraints: field %q: %s", m.Name, fmt.Sprintf(format, args...))
	}
	operators, isObject := m.Value.Members()
	switch {
	case m.Name == "":
		return bad("has no name")
	case !isObject && m.Value.Kind() == powerbox.KindNull:
		return bad("null is no value to hold an argument to")
	case !isObject:
		return powerbox.Field{Name: m.Name, Constraint: powerbox.ExactValue{Value: m.Value}, Required: true}, nil
	case len(operators) == 0:
		return bad("an operator object without operators; leave the field out to admit anything")
	}
	f := powerbox.Field{Name: m.Name}
	var all []powerbox.Constraint
	var bounds powerbox.Range
	for _, op := range operators {
		switch op.Name {
		case opMax, opMin:
			n, ok := op.Value.Decimal()
			if !ok {
				return bad("%s is JSON %s; want a number", op.Name, op.Value.Kind())
			}
			if f.Required = true; op.Name == opMax {
				bounds.Max = &n
			} else {
				bounds.Min = &n
			}
		case opIn, opNotIn:
			vs, ok := op.Value.Elements()
			if len(vs) > maxValues {
				return bad("%s has %d values; want at most %d", op.Name, len(vs), maxValues)
			}
			if !ok || len(vs) == 0 {
				return bad("%s is JSON %s; want an array with at least one value", op.Name, op.Value.Kind())
			}
			if op.Name == opNotIn {
				all = append(all, powerbox.NotOneOf{Excluded: vs})
				continue
			}
			f.Required = true
			all = append(all, powerbox.OneOf{Values: vs})
		case opEq:
			if len(operators) > 1 {
				return bad("an exact value and operators on one field; want one or the other")
			}
			f.Required = true
			all = append(all, powerbox.ExactValue{Value: op.Value})
		}
	}
	if bounds.Min != nil || bounds.Max != nil {
		all = append(all, bounds)
	}
	f.Constraint = powerbox.MeetConstraints(powerbox.Wildcard{}, powerbox.All{Constraints: all})
	return f, nil
}

// Constraints returns a shape in the protocol's form, null for one that constrains
// nothing. The shape is one that [Options.ParseConstraints] reads, met with others of
// its kind. It returns false for a shape that the form cannot say.
func Constraints(s powerbox.Shape) (powerbox.Value, bool) {
	if s.Rest() != powerbox.RestAny {
		return powerbox.Value{}, false
	}
	if len(s.Fields()) == 0 {
		return powerbox.Value{}, true
	}
	var out []powerbox.Member
	for _, f := range s.Fields() {
		v, ok := constraint(f.Constraint)
		if !ok {
			return powerbox.Value{}, false
		}
		out = append(out, powerbox.Member{Name: f.Name, Value: v})
	}
	return powerbox.Object(out...), true
}

// constraint returns one constraint as an exact value or an object of operators.
func constraint(c powerbox.Constraint) (powerbox.Value, bool) {
	if exact, ok := c.(powerbox.ExactValue); ok && exact.Value.Kind() != powerbox.KindObject {
		return exact.Value, true
	}
	parts := []powerbox.Constraint{c}
	if all, ok := c.(powerbox.All); ok {
		parts = all.Constraints
	}
	var ms []powerbox.Member
	for _, p := range parts {
		switch p := p.(type) {
		case powerbox.ExactValue:
			ms = append(ms, powerbox.Member{Name: opIn, Value: powerbox.List(p.Value)})
		case powerbox.OneOf:
			ms = append(ms, powerbox.Member{Name: opIn, Value: powerbox.List(p.Values...)})
		case powerbox.NotOneOf:
			ms = append(ms, powerbox.Member{Name: opNotIn, Value: powerbox.List(p.Excluded...)})
		case powerbox.Range:
			if p.MinExclusive || p.MaxExclusive {
				return powerbox.Value{}, false
			}
			if p.Min != nil {
				ms = append(ms, powerbox.Member{Name: opMin, Value: powerbox.Number(*p.Min)})
			}
			if p.Max != nil {
				ms = append(ms, powerbox.Member{Name: opMax, Value: powerbox.Number(*p.Max)})
			}
		default:
			return powerbox.Value{}, false
		}
	}
	v := powerbox.Object(ms...)
	members, _ := v.Members()
	return v, len(members) == len(ms) // each operator once
}

// Violations returns the arguments that a shape does not admit, each with the values
// that it admits. A missing one is null.
func Violations(s powerbox.Shape, arguments powerbox.Value) []Violation {
	var out []Violation
	for _, f := range s.Fields() {
		v, ok := arguments.Get(f.Name)
		if ok && f.Constraint.Admits(v) || !ok && !f.Required {
			continue
		}
		c, _ := constraint(f.Constraint)
		if exact, isExact := f.Constraint.(powerbox.ExactValue); isExact {
			c = powerbox.Object(powerbox.Member{Name: opIn, Value: powerbox.List(exact.Value)})
		}
		out = append(out, Violation{Field: f.Name, Constraint: c, Actual: v})
	}
	return out
}
