package openapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// arguments collects the arguments of an operation.
type arguments struct {
	schemas
	properties []powerbox.Member
	required   []powerbox.Value
	inPath     []string
}

// add adds one argument, whose name nothing else may have.
func (a *arguments) add(name string, schema powerbox.Value, required bool) error {
	if name == "" || slices.ContainsFunc(a.properties, func(m powerbox.Member) bool { return m.Name == name }) {
		return fmt.Errorf("two of its arguments are called %q", clip(name))
	}
	converted, err := a.convert(schema, maxDepth)
	if err != nil {
		return err
	}
	a.properties = append(a.properties, powerbox.Member{Name: name, Value: converted})
	if required {
		a.required = append(a.required, powerbox.String(name))
	}
	return nil
}

// parameters reads those of an operation and of its path; its own go before.
func (a *arguments) parameters(o *Operation, item, op powerbox.Value) error {
	type key struct{ in, name string }
	seen := map[key]bool{}
	for _, of := range []powerbox.Value{op, item} {
		list, _ := of.Get("parameters")
		all, _ := list.Elements()
		for _, p := range all {
			p, err := a.followed(p)
			if err != nil {
				return err
			}
			in, _ := text(p, "in")
			name, _ := text(p, "name")
			if seen[key{in, name}] {
				continue
			}
			seen[key{in, name}] = true
			if err := a.parameter(o, p, in, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// ignored are headers that OpenAPI says are none of an operation's parameters.
var ignored = []string{"accept", "content-type", "authorization"}

func (a *arguments) parameter(o *Operation, p powerbox.Value, in, name string) error {
	r, _ := p.Get("required")
	required, _ := r.Truth()
	schema, ok := p.Get("schema")
	if !ok {
		return fmt.Errorf("parameter %q has no schema", clip(name))
	}
	list, object, err := a.shape(schema)
	if err != nil {
		return err
	}
	switch in {
	case "path":
		if list || object || !plainStyle(p, "simple") {
			return fmt.Errorf("parameter %q is a list or an object in the path, or is written in a style of its own", clip(name))
		}
		a.inPath = append(a.inPath, name)
		required = true
	case "query":
		explode, given := p.Get("explode")
		exploded, _ := explode.Truth()
		if object || !plainStyle(p, "form") || list && given && !exploded {
			return fmt.Errorf("parameter %q is written in a style of its own", clip(name))
		}
		o.Query = append(o.Query, name)
	case "header":
		if slices.Contains(ignored, strings.ToLower(name)) {
			return nil
		}
		if list || object || !plainStyle(p, "simple") {
			return fmt.Errorf("header %q is a list or an object", clip(name))
		}
		o.Header = append(o.Header, name)
	case "cookie":
		if required {
			return fmt.Errorf("it needs the cookie %q", clip(name))
		}
		return nil
	default:
		return fmt.Errorf("parameter %q is in %q", clip(name), clip(in))
	}
	if said, ok := text(p, "description"); ok {
		schema = described(schema, said)
	}
	return a.add(name, schema, required)
}

// described gives a schema the description of its parameter, where it has none.
func described(schema powerbox.Value, says string) powerbox.Value {
	members, ok := schema.Members()
	if !ok || slices.ContainsFunc(members, func(m powerbox.Member) bool { return m.Name == "description" || m.Name == "$ref" }) {
		return schema
	}
	return powerbox.Object(append(slices.Clone(members), powerbox.Member{Name: "description", Value: powerbox.String(Sentence(says))})...)
}

func plainStyle(p powerbox.Value, usual string) bool {
	style, ok := text(p, "style")
	return !ok || style == usual
}

// shape says whether a schema is one of lists or of objects.
func (a *arguments) shape(schema powerbox.Value) (list, object bool, err error) {
	if schema, err = a.followed(schema); err != nil {
		return false, false, err
	}
	kind, _ := text(schema, "type")
	_, properties := schema.Get("properties")
	return kind == "array", kind == "object" || properties, nil
}

// body reads the body of a request. The members of a plain object are arguments of
// their own, so that they can be constrained; any other body is one argument.
func (a *arguments) body(o *Operation, op powerbox.Value) error {
	given, ok := op.Get("requestBody")
	if !ok {
		return nil
	}
	b, err := a.followed(given)
	if err != nil {
		return err
	}
	r, _ := b.Get("required")
	required, _ := r.Truth()
	content, _ := b.Get("content")
	media, ok := content.Get("application/json")
	if !ok && required {
		return errors.New("its body is not JSON")
	}
	if !ok {
		return nil
	}
	if o.Method == "GET" {
		return errors.New("a GET with a body")
	}
	schema, ok := media.Get("schema")
	if !ok {
		schema = powerbox.Object()
	}
	plain, err := a.followed(schema)
	if err != nil {
		return err
	}
	if required && a.spreads(plain) {
		return a.spread(o, plain)
	}
	o.Whole = "body"
	return a.add("body", schema, required)
}

// spreads reports whether a body is an object of named members and nothing else,
// whose names are free.
func (a *arguments) spreads(schema powerbox.Value) bool {
	properties, _ := schema.Get("properties")
	members, _ := properties.Members()
	if len(members) == 0 {
		return false
	}
	for _, beyond := range []string{"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "nullable", "minProperties", "maxProperties"} {
		if _, has := schema.Get(beyond); has {
			return false
		}
	}
	return !slices.ContainsFunc(members, func(m powerbox.Member) bool {
		return slices.ContainsFunc(a.properties, func(have powerbox.Member) bool { return have.Name == m.Name })
	})
}

func (a *arguments) spread(o *Operation, schema powerbox.Value) error {
	need, _ := schema.Get("required")
	list, _ := need.Elements()
	properties, _ := schema.Get("properties")
	members, _ := properties.Members()
	for _, m := range members {
		only, _ := a.followed(m.Value)
		answer, _ := only.Get("readOnly")
		if yes, _ := answer.Truth(); yes {
			continue // it is in answers alone
		}
		required := slices.ContainsFunc(list, func(v powerbox.Value) bool { name, _ := v.Text(); return name == m.Name })
		if err := a.add(m.Name, m.Value, required); err != nil {
			return err
		}
		o.Body = append(o.Body, m.Name)
	}
	return nil
}

// input is the schema of all arguments. There are no others.
func (a *arguments) input() powerbox.Value {
	out := []powerbox.Member{
		{Name: "type", Value: powerbox.String("object")},
		{Name: "additionalProperties", Value: powerbox.Bool(false)},
		{Name: "properties", Value: powerbox.Object(a.properties...)},
	}
	if len(a.required) > 0 {
		out = append(out, powerbox.Member{Name: "required", Value: powerbox.List(a.required...)})
	}
	if len(a.defs) > 0 {
		var defs []powerbox.Member
		for name, schema := range a.defs {
			defs = append(defs, powerbox.Member{Name: name, Value: schema})
		}
		out = append(out, powerbox.Member{Name: "$defs", Value: powerbox.Object(defs...)})
	}
	return powerbox.Object(out...)
}
