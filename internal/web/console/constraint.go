package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// field is one argument of a capability, as a person can hold it to less.
type field struct {
	Name    string
	Title   string   // the server's name of it for people
	Says    string   // the server's description of it
	Limits  []string // in words; none for any value
	Number  bool     // it takes bounds
	Min     string   // that is in force, "" for none
	Max     string
	Choices []string // that are in force, as JSON
	Text    bool     // it can be held to one text
	Key     string   // of its inputs
	Wider   string   // what the agent has of it, where it asks for more
	said    bool     // an amount says it already, as its currency
	held    powerbox.Value
	// currency of an amount, "" if the server does not know one.
	currency string
	language *lang.Language // of the words
	typed    url.Values     // what the person had typed when an answer was refused
}

// Typed is what an input of the field shows: what the person typed, or else the value in
// force.
func (f field) Typed(side string) string {
	if f.typed.Has(side + "." + f.Key) {
		return f.typed.Get(side + "." + f.Key)
	}
	return map[string]string{"max": f.Max, "min": f.Min}[side]
}

// Left reports whether a value is still among those that the person would allow.
func (f field) Left(choice string) bool {
	return f.typed == nil || slices.Contains(f.typed["in."+f.Key], choice)
}

// fields are the arguments of a grant's capability that the server declares: in the
// capability's schema, or by constraints of its own. An agent that names others has
// [theirs]: whether a backend takes them for anything, the server does not know.
func fields(l *lang.Language, g provider.Grant, c *provider.Capability) []field {
	var out []field
	var schema powerbox.Value
	if c != nil {
		properties, _ := c.Input.Get("properties")
		schema = properties
	}
	at := func(name string) *field {
		i := slices.IndexFunc(out, func(f field) bool { return f.Name == name })
		if i < 0 {
			out = append(out, field{Name: name, Title: named(name), Key: g.ID + "." + name, language: l})
			i = len(out) - 1
		}
		return &out[i]
	}
	properties, _ := schema.Members()
	for _, p := range properties {
		at(p.Name).declared(p.Value)
	}
	if c != nil {
		for _, f := range c.Constraints.Fields() {
			at(f.Name)
		}
	}
	constraints, _ := g.ShownConstraints().Members()
	for _, m := range constraints {
		if slices.ContainsFunc(out, func(f field) bool { return f.Name == m.Name }) {
			at(m.Name).limit(m.Value)
		}
	}
	money(out, schema)
	for i := range out {
		out[i].spell()
	}
	return out
}

// declared reads what a schema says of an argument.
func (f *field) declared(property powerbox.Value) {
	f.Says = text(property, "description")
	if title := text(property, "title"); title != "" {
		f.Title = visible(title)
	}
	switch enum, _ := property.Get("enum"); {
	case enum.Kind() == powerbox.KindList:
		values, _ := enum.Elements()
		f.Choices = written(values)
	case text(property, "type") == "number", text(property, "type") == "integer":
		f.Number = true
	case text(property, "type") == "string":
		f.Text = true
	}
}

// How much of an agent's own words is shown.
const (
	maxTheirs     = 8
	maxTheirsText = 120
)

// theirs are constraints on arguments that the server does not declare: an agent's own
// words, which limit nothing that the server knows. They are quoted, and cut.
func theirs(l *lang.Language, g provider.Grant, c *provider.Capability) (out []string) {
	known := fields(l, g, c)
	constraints, _ := g.ShownConstraints().Members()
	for _, m := range constraints {
		if slices.ContainsFunc(known, func(f field) bool { return f.Name == m.Name }) {
			continue
		}
		if len(out) == maxTheirs {
			return append(out, l.T("and more"))
		}
		out = append(out, quoted(l, m.Name+" "+m.Value.String(), maxTheirsText))
	}
	return out
}

// words is a foreign text, to stand between quotation marks: characters that could end
// them, or cannot be seen, are spelled out.
func words(s string) string { return agentauth.Quotable(visible(s)) }

// limit has a field held to a constraint as it is on the wire.
func (f *field) limit(v powerbox.Value) {
	f.held = v
	operators, ok := v.Members()
	if !ok {
		f.Number, f.Text, f.Choices = false, false, nil
		return
	}
	for _, op := range operators {
		switch values, _ := op.Value.Elements(); op.Name {
		case "max":
			f.Max, f.Number = op.Value.String(), true
		case "min":
			f.Min, f.Number = op.Value.String(), true
		case "in":
			f.Choices, f.Text, f.Number = written(values), false, false
		case "eq":
			f.Number, f.Text, f.Choices = false, false, nil
		}
	}
}

// spell writes what a field is held to, as people read it.
func (f *field) spell() {
	operators, ok := f.held.Members()
	if !ok {
		if f.held.Kind() != powerbox.KindNull {
			f.Limits = append(f.Limits, f.language.T("exactly %s", f.amount(f.held.String())))
		}
		return
	}
	for _, op := range operators {
		switch values, _ := op.Value.Elements(); op.Name {
		case "max":
			f.Limits = append(f.Limits, f.language.T("at most %s", f.amount(op.Value.String())))
		case "min":
			f.Limits = append(f.Limits, f.language.T("at least %s", f.amount(op.Value.String())))
		case "in":
			f.Limits = append(f.Limits, f.language.T([]string{lang.Mark("only %s"), lang.Mark("one of %s")}[min(1, max(0, len(values)-1))], f.listed(values)))
		case "not_in":
			f.Limits = append(f.Limits, f.language.T("none of %s", f.listed(values)))
		case "eq":
			f.Limits = append(f.Limits, f.language.T("exactly %s", f.amount(op.Value.String())))
		}
	}
}

// listed writes values, with amounts as such.
func (f *field) listed(values []powerbox.Value) string {
	out := written(values)
	for i := range out {
		out[i] = f.amount(out[i])
	}
	return strings.Join(out, ", ")
}

// single is the one text that a field is held to, "" for none.
func (f *field) single() string {
	one := f.held
	if in, _ := f.held.Get("in"); in.Kind() == powerbox.KindList {
		one = in
	}
	if values, ok := one.Elements(); ok && len(values) == 1 {
		one = values[0]
	}
	if one.Kind() == powerbox.KindNull && len(f.Choices) == 1 {
		one, _ = powerbox.ParseValue([]byte(f.Choices[0]))
	}
	s, _ := one.Text()
	return s
}

// Words says what a field is held to.
func (f field) Words() string {
	if len(f.Limits) == 0 {
		return f.language.T("any value")
	}
	return visible(strings.Join(f.Limits, ", "))
}

// Short is [field.Words], cut for one line; the table of limits has the whole.
func (f field) Short() string { return clippedRunes(f.Words(), maxTheirsText) }

func written(values []powerbox.Value) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.String()
	}
	return out
}

func text(v powerbox.Value, name string) string {
	m, _ := v.Get(name)
	s, _ := m.Text()
	return s
}

// narrower reads from a form the constraints that a person adds to those of a grant;
// null for none. A wider one is refused, and not just cut: the person meant something
// else (AAP-G3).
func narrower(fs []field, form url.Values) (powerbox.Value, error) {
	var out []powerbox.Member
	for _, f := range fs {
		var ops []powerbox.Member
		switch {
		case f.Number:
			for _, side := range []string{"max", "min"} {
				op, err := f.bound(side, form.Get(side+"."+f.Key))
				if err != nil {
					return powerbox.Value{}, err
				}
				ops = append(ops, op...)
			}
		case f.Choices != nil:
			chosen, err := f.chosen(form["in."+f.Key])
			if err != nil {
				return powerbox.Value{}, err
			}
			if len(chosen) == 0 {
				return powerbox.Value{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", f.language.T("%s: nothing is left of it; deny the capability instead", f.Name))
			}
			if len(chosen) < len(f.Choices) {
				ops = append(ops, powerbox.Member{Name: "in", Value: powerbox.List(chosen...)})
			}
		case f.Text:
			if only := strings.TrimSpace(form.Get("only." + f.Key)); only != "" {
				ops = append(ops, powerbox.Member{Name: "in", Value: powerbox.List(powerbox.String(only))})
			}
		}
		if len(ops) > 0 {
			out = append(out, powerbox.Member{Name: f.Name, Value: powerbox.Object(ops...)})
		}
	}
	if len(out) == 0 {
		return powerbox.Value{}, nil
	}
	return powerbox.Object(out...), nil
}

// bound reads one bound of a number.
func (f field) bound(side, given string) ([]powerbox.Member, error) {
	given = strings.TrimSpace(given)
	now := map[string]string{"max": f.Max, "min": f.Min}[side]
	if given == "" || given == now {
		return nil, nil
	}
	v, err := powerbox.ParseValue([]byte(given))
	n, ok := v.Decimal()
	if err != nil || !ok {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", f.language.T("%s: %q is no number", f.Name, given))
	}
	if now != "" {
		limit, err := powerbox.ParseValue([]byte(now))
		if err != nil {
			return nil, err
		}
		bound, _ := limit.Decimal()
		if order := n.Compare(bound); side == "max" && order > 0 || side == "min" && order < 0 {
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", f.language.T("%s: %s is wider than the %s of %s that is asked for; it can only be narrowed", f.Name, given, side, now))
		}
	}
	return []powerbox.Member{{Name: side, Value: v}}, nil
}

// chosen reads the values that were left ticked.
func (f field) chosen(given []string) ([]powerbox.Value, error) {
	var out []powerbox.Value
	for _, one := range given {
		v, err := powerbox.ParseValue([]byte(one))
		if err != nil || !slices.Contains(f.Choices, one) {
			return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", f.language.T("%s: %q is not among what is asked for; it can only be narrowed", f.Name, one))
		}
		out = append(out, v)
	}
	return out, nil
}
