package powerbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rest says whether a call may have arguments that its shape does not name.
type Rest uint8

// The two answers. The zero Rest is RestNone: anything that is not named is refused.
const (
	RestNone Rest = iota
	RestAny
)

// String returns "none" or "any".
func (r Rest) String() string {
	if r == RestAny {
		return "any"
	}
	return "none"
}

// Field is a constraint on one argument of an operation.
type Field struct {
	Name       string
	Constraint Constraint
	Required   bool
}

// Shape says which arguments an operation may be called with. The zero Shape
// admits only a call without arguments.
type Shape struct {
	fields []Field // sorted by name, names unique
	rest   Rest
}

// AnyArguments returns the shape that admits every call.
func AnyArguments() Shape { return Shape{rest: RestAny} }

// NewShape returns the shape of those fields. It refuses a name that occurs
// twice, a missing constraint and more than [MaxArguments] fields. An optional
// field that no value satisfies is dropped where it says no more than rest.
func NewShape(rest Rest, fields ...Field) (Shape, error) {
	if len(fields) > MaxArguments {
		return Shape{}, fmt.Errorf("shape has %d arguments; want at most %d", len(fields), MaxArguments)
	}
	s := Shape{slices.Clone(fields), rest}
	slices.SortFunc(s.fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range s.fields {
		if !known(f.Constraint) {
			return Shape{}, fmt.Errorf("argument %q has no constraint of this package's types; want one, a wildcard to admit any value", f.Name)
		}
		if i > 0 && s.fields[i-1].Name == f.Name {
			return Shape{}, fmt.Errorf("argument %q occurs twice", f.Name)
		}
	}
	s.fields = slices.DeleteFunc(s.fields, func(f Field) bool { return rest == RestNone && f.absent() })
	return s, nil
}

// absent reports whether f shows that its argument must stay away: with rest
// none it does so without a field.
func (f Field) absent() bool { return !f.Required && impossible(normalise(f.Constraint)) }

// Fields returns the fields in order of their names; the caller must not
// change them.
func (s Shape) Fields() []Field { return s.fields }

// Rest returns whether arguments without a field are admitted.
func (s Shape) Rest() Rest { return s.rest }

// Field returns the field of that name.
func (s Shape) Field(name string) (Field, bool) {
	i, ok := slices.BinarySearchFunc(s.fields, name, func(f Field, name string) int {
		return strings.Compare(f.Name, name)
	})
	if !ok {
		return Field{}, false
	}
	return s.fields[i], true
}

// prohibits returns every reason why args, the members of an object, are not
// admitted.
func (s Shape) prohibits(op Operation, args Value) []Reason {
	var reasons []Reason
	for _, f := range s.fields {
		v, ok := args.Get(f.Name)
		switch {
		case ok && !f.Constraint.Admits(v):
			reasons = append(reasons, Reason{CodeArgumentConstraint, op.name, f.Name, f.Constraint.Type()})
		case !ok && f.Required:
			reasons = append(reasons, Reason{CodeArgumentMissing, op.name, f.Name, f.Constraint.Type()})
		}
	}
	if s.rest == RestAny {
		return reasons
	}
	for _, m := range args.fields() {
		if _, ok := s.Field(m.Name); !ok {
			reasons = append(reasons, Reason{Code: CodeArgumentUnknown, Operation: op.name, Argument: m.Name})
		}
	}
	return reasons
}

// Empty reports whether s shows that it admits no call at all: a required
// argument that no value satisfies.
func (s Shape) Empty() bool {
	return slices.ContainsFunc(s.fields, func(f Field) bool { return f.Required && impossible(normalise(f.Constraint)) })
}

// Covers reports whether every call that t admits is admitted by s. It is
// sound, and complete where [ConstraintCovers] is for each of the fields.
func (s Shape) Covers(t Shape) bool { return len(s.excess("", t)) == 0 }

// excess returns what t admits beyond s, as far as it can be told.
func (s Shape) excess(op string, t Shape) []Excess {
	if t.Empty() {
		return nil
	}
	var out []Excess
	for _, f := range s.fields {
		g, ok := t.Field(f.Name)
		if !ok {
			g = t.implied(f.Name)
		}
		if f.Required && !g.Required {
			out = append(out, Excess{CodeArgumentMissing, op, f.Name, f.Constraint.Type()})
		}
		if !ConstraintCovers(f.Constraint, g.Constraint) {
			out = append(out, Excess{CodeArgumentConstraint, op, f.Name, f.Constraint.Type()})
		}
	}
	if s.rest == RestAny {
		return out
	}
	if t.rest == RestAny {
		out = append(out, Excess{Code: CodeArgumentUnknown, Operation: op, Argument: "*"})
	}
	for _, g := range t.fields {
		if _, ok := s.Field(g.Name); !ok && !impossible(normalise(g.Constraint)) {
			out = append(out, Excess{Code: CodeArgumentUnknown, Operation: op, Argument: g.Name})
		}
	}
	return out
}

// implied returns the field that s implies for a name it does not have.
func (s Shape) implied(name string) Field {
	if s.rest == RestAny {
		return Field{Name: name, Constraint: Wildcard{}}
	}
	return Field{Name: name, Constraint: nothing}
}

// Meet returns the shape that admits exactly the calls that both admit, and
// false where that is none, as far as the form shows.
func (s Shape) Meet(t Shape) (Shape, bool) {
	m := Shape{rest: RestAny}
	if s.rest == RestNone || t.rest == RestNone {
		m.rest = RestNone
	}
	for _, name := range fieldNames(s, t) {
		f, inS := s.Field(name)
		if !inS {
			f = s.implied(name)
		}
		g, inT := t.Field(name)
		if !inT {
			g = t.implied(name)
		}
		met := Field{name, MeetConstraints(f.Constraint, g.Constraint), f.Required || g.Required}
		switch {
		case met.Required && impossible(met.Constraint):
			return Shape{}, false
		case m.rest == RestAny || !met.absent():
			m.fields = append(m.fields, met)
		}
	}
	return m, true
}

func fieldNames(s, t Shape) []string {
	names := make([]string, 0, len(s.fields)+len(t.fields))
	for _, f := range slices.Concat(s.fields, t.fields) {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Equal reports whether s and t are the same shape, field for field, after
// the constraints of both have been brought to normal form.
func (s Shape) Equal(t Shape) bool { return s.JSON().Equal(t.JSON()) }

// JSON returns the object form: fields and rest.
func (s Shape) JSON() Value {
	fields := make([]Member, len(s.fields))
	for i, f := range s.fields {
		fields[i] = Member{f.Name, Object(
			Member{"constraint", normalise(f.Constraint).JSON()},
			Member{"required", Bool(f.Required)},
		)}
	}
	return Object(Member{"fields", Object(fields...)}, Member{"rest", String(s.rest.String())})
}

// appendJSON appends the text of [Shape.JSON] to b.
func (s Shape) appendJSON(b []byte) []byte {
	b = append(b, `{"fields":{`...)
	for i, f := range s.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, f.Name), `:{"constraint":`...)
		b = normalise(f.Constraint).JSON().AppendJSON(b)
		b = append(strconv.AppendBool(append(b, `,"required":`...), f.Required), '}')
	}
	return append(appendQuoted(append(b, `},"rest":`...), s.rest.String()), '}')
}

// ParseShape reads the object form.
func ParseShape(v Value) (Shape, error) {
	o, err := readObject(reading{kind: "shape"}, v)
	if err != nil {
		return Shape{}, err
	}
	rest, err := o.choice("rest", "none", "any")
	if err != nil {
		return Shape{}, err
	}
	members, ok := o.object("fields")
	if !ok {
		return Shape{}, o.missing("fields, an object")
	}
	if len(members) > MaxArguments {
		return Shape{}, fmt.Errorf("shape has %d arguments; want at most %d", len(members), MaxArguments)
	}
	var fields []Field
	for _, m := range members {
		f, err := parseField(m)
		if err != nil {
			return Shape{}, err
		}
		fields = append(fields, f)
	}
	if err := o.finish(); err != nil {
		return Shape{}, err
	}
	return NewShape(Rest(rest), fields...)
}

func parseField(m Member) (Field, error) {
	o, err := readObject(reading{"argument", m.Name}, m.Value)
	if err != nil {
		return Field{}, err
	}
	v, ok := o.take("constraint")
	if !ok {
		return Field{}, o.missing("constraint")
	}
	c, err := ParseConstraint(v)
	if err != nil {
		return Field{}, fmt.Errorf("%s: %w", o.of, err)
	}
	required, _ := o.take("required")
	truth, ok := required.Truth()
	if !ok {
		return Field{}, o.missing("required, true or false")
	}
	return Field{m.Name, c, truth}, o.finish()
}

func readObject(of reading, v Value) (objectReader, error) {
	if v.kind != KindObject {
		return objectReader{}, fmt.Errorf("%s is %s; want an object", of, aKind(v.kind))
	}
	return objectReader{of: of, members: v.fields()}, nil
}

func (o *objectReader) object(name string) ([]Member, bool) {
	v, _ := o.take(name)
	return v.Members()
}

// choice takes a member that is one of the given strings and returns which.
func (o *objectReader) choice(name string, among ...string) (int, error) {
	v, _ := o.take(name)
	s, ok := v.Text()
	if !ok {
		return 0, fmt.Errorf("%s has no %s; want one of %s", o.of, name, strings.Join(among, ", "))
	}
	i := slices.Index(among, s)
	if i < 0 {
		return 0, fmt.Errorf("%s: %s is %.64q; want one of %s", o.of, name, s, strings.Join(among, ", "))
	}
	return i, nil
}
