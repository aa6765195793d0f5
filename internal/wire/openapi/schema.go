package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// schemas are the schemas of a document that those of one operation refer to.
type schemas struct {
	document
	defs map[string]powerbox.Value // converted, by name
}

const schemaRef = "#/components/schemas/"

// dropped are members of a schema that say nothing about arguments.
var dropped = []string{"example", "examples", "xml", "externalDocs", "discriminator", "deprecated"}

// asIs are members of a schema whose values are no schemas.
var asIs = []string{"enum", "const", "default", "required", "type", "pattern", "format", "title", "description"}

// convert makes a schema one of JSON Schema 2020-12. References go to the schema's own
// definitions, and forms that only OpenAPI 3.0 has (nullable, boolean exclusive bounds)
// become those of JSON Schema.
func (s *schemas) convert(v powerbox.Value, depth int) (powerbox.Value, error) {
	if depth < 0 {
		return v, fmt.Errorf("a schema deeper than %d", maxDepth)
	}
	if list, ok := v.Elements(); ok {
		out := make([]powerbox.Value, len(list))
		for i, one := range list {
			var err error
			if out[i], err = s.convert(one, depth-1); err != nil {
				return v, err
			}
		}
		return powerbox.List(out...), nil
	}
	members, ok := v.Members()
	if !ok {
		return v, nil
	}
	if ref, ok := text(v, "$ref"); ok {
		return s.reference(ref, depth)
	}
	var out []powerbox.Member
	for _, m := range members {
		switch {
		case slices.Contains(dropped, m.Name), strings.HasPrefix(m.Name, "x-"), m.Name == "nullable":
			continue
		case slices.Contains(asIs, m.Name):
		case m.Name == "properties", m.Name == "patternProperties":
			var err error
			if m.Value, err = s.each(m.Value, depth); err != nil {
				return v, err
			}
		case m.Name == "exclusiveMinimum" || m.Name == "exclusiveMaximum":
			exclusive, old := m.Value.Truth()
			if bound, has := v.Get(map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[m.Name]); old && exclusive && has {
				m.Value = bound
			} else if old {
				continue
			}
		default:
			var err error
			if m.Value, err = s.convert(m.Value, depth-1); err != nil {
				return v, err
			}
		}
		out = append(out, m)
	}
	return nullable(v, powerbox.Object(out...)), nil
}

// each converts every schema of a mapping of names to schemas.
func (s *schemas) each(v powerbox.Value, depth int) (powerbox.Value, error) {
	members, _ := v.Members()
	out := make([]powerbox.Member, len(members))
	for i, m := range members {
		schema, err := s.convert(m.Value, depth-1)
		if err != nil {
			return v, err
		}
		out[i] = powerbox.Member{Name: m.Name, Value: schema}
	}
	return powerbox.Object(out...), nil
}

// nullable adds null to the values that a schema admits, where OpenAPI 3.0 says so.
func nullable(was, now powerbox.Value) powerbox.Value {
	n, _ := was.Get("nullable")
	if yes, _ := n.Truth(); !yes {
		return now
	}
	null := powerbox.Object(powerbox.Member{Name: "type", Value: powerbox.String("null")})
	return powerbox.Object(powerbox.Member{Name: "anyOf", Value: powerbox.List(now, null)})
}

// reference takes a schema of the document up into the definitions, once.
func (s *schemas) reference(ref string, depth int) (powerbox.Value, error) {
	name, ok := strings.CutPrefix(ref, schemaRef)
	if !ok || strings.Contains(name, "/") {
		return powerbox.Value{}, fmt.Errorf("a reference to %q; only %sNAME is followed", clip(ref), schemaRef)
	}
	to := powerbox.Object(powerbox.Member{Name: "$ref", Value: powerbox.String("#/$defs/" + name)})
	key := unescaped(name)
	if _, have := s.defs[key]; have {
		return to, nil
	}
	found, err := s.resolve(ref)
	if err != nil {
		return to, err
	}
	s.defs[key] = powerbox.Value{} // a schema that refers to itself finds it
	converted, err := s.convert(found, depth-1)
	s.defs[key] = converted
	return to, err
}

func unescaped(name string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

func text(v powerbox.Value, name string) (string, bool) {
	m, _ := v.Get(name)
	return m.Text()
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
