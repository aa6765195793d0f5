package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/powerbox-project/powerbox"
)

const tableHead = "| key | type | default | environment | meaning |\n| --- | --- | --- | --- | --- |\n"

const documentHead = `# Configuration

One file, ` + "`powerbox.yaml`" + `, has all settings. This page and
[powerbox.schema.json](powerbox.schema.json) are generated from the declarations
in internal/config. For editors that know YAML, begin the file with

    # yaml-language-server: $schema=powerbox.schema.json

The server rejects unknown keys and values, with file, line and the nearest known
name. It reports all problems at once. YAML anchors, aliases and tags are not
supported. Paths are relative to the file that contains them. ` + "`[]`" + ` stands for each
element of a list and NAME for any name. A variable in the environment takes
precedence over the file. A code such as SEP-8 or EXT-2 is a requirement
([conformance](../assurance/conformance.md)).
` + "`powerbox config print --effective`" + ` shows the settings in force, with secrets masked.

An operation is named ` + "`grant/operation`" + `, such as ` + "`documents:read/search`" + `. A
constraint is an object with a constraint_type, as in
the token draft: ` + "`{constraint_type: one_of, values: [a, b]}`" + `.

A whole file, for one agent with two skills:

` + "```yaml" + `
` + documentExample + "```" + `

`

// documentExample loads as it stands.
const documentExample = `listen: 127.0.0.1:8700
issuer:
  url: https://powerbox.example.org
identity:
  providers:
    - {issuer: https://login.example.org, audience: [https://powerbox.example.org]}
  callers:
    - {agent: orchestrator, client: orchestrator}
agents:
  - {id: documents, upstream: http://127.0.0.1:9001, mode: require, required: [documents:read/search]}
offers:
  documents:
    - {id: documents:read, description: Read reports, operations: [retrieve, search], maximum_lifetime: 30m}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
scopes:
  orchestrator: {documents: [documents:read/search]}
resources:
  documents: {file: catalogue.yaml}
policies: [policies/*.cedar]
`

// ownSection is how many settings a nested section has before it gets its own heading.
const ownSection = 12

// Document returns docs/reference/configuration.md: the tables of all settings, one for
// every member of the file and for every large section in it.
func Document() []byte {
	var b strings.Builder
	b.WriteString(documentHead)
	top, parts := partsOf(describe())
	headed := map[string]bool{}
	for _, p := range parts {
		headed[p.head.key] = true
	}
	b.WriteString("## Top level\n\n" + tableHead)
	writeRows(&b, top, true, headed)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n%s `%s`\n\n%s\n\n%s", p.level, p.head.key, p.head.doc, tableHead)
		writeRows(&b, p.rows, true, headed)
	}
	return []byte(b.String())
}

// part is a section with its settings.
type part struct {
	head  row
	level string
	rows  []row
}

// partsOf puts every setting into the innermost section that has a heading. Sections at
// the top level have one, and large ones below. The first part is the top level itself.
func partsOf(rows []row) (top []row, parts []part) {
	within := func(key, section string) bool {
		rest, ok := strings.CutPrefix(key, section)
		return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
	}
	counts := map[string]int{}
	for _, r := range rows {
		for _, s := range rows {
			if within(r.key, s.key) {
				counts[s.key]++
			}
		}
	}
	at := map[string]int{}
	for _, r := range rows {
		inner := ""
		for section := range at {
			if within(r.key, section) && len(section) > len(inner) {
				inner = section
			}
		}
		if inner == "" {
			top = append(top, r)
		} else {
			parts[at[inner]].rows = append(parts[at[inner]].rows, r)
		}
		if n := counts[r.key]; n > 0 && !strings.ContainsAny(r.key, ".[") || n >= ownSection {
			level := "##"
			if inner != "" {
				level = "###"
			}
			at[r.key] = len(parts)
			parts = append(parts, part{head: r, level: level})
		}
	}
	return top, parts
}

// writeRows writes the rows of a table of settings, with or without their
// variables. Keys that have a heading lead to it.
func writeRows(b *strings.Builder, rows []row, variables bool, headed map[string]bool) {
	for _, r := range rows {
		def, env := "", ""
		if r.required {
			def = "required"
		}
		if r.hasDef {
			def = "`" + r.def + "`"
		}
		if r.env != "" {
			env = "`" + r.env + "`"
		}
		meaning := r.doc
		if len(r.enum) > 0 {
			meaning += " One of: " + strings.Join(r.enum, ", ") + "."
		}
		if r.bounded {
			meaning += fmt.Sprintf(" From %d to %d.", r.low, r.high)
		}
		if variables {
			def += " | " + env
		}
		key := "`" + r.key + "`"
		if headed[r.key] {
			key = "[" + key + "](#" + strings.NewReplacer("[", "", "]", "", ".", "").Replace(strings.ToLower(r.key)) + ")"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", key, typeName(r.of), def, meaning)
	}
}

// Schema returns docs/reference/powerbox.schema.json: the JSON Schema (2020-12) of the
// file. It says the shape; what settings say about each other is checked when
// the file is loaded.
func Schema() []byte {
	members, _ := schemaOf(configType, field{}).Members()
	schema := powerbox.Object(append([]powerbox.Member{
		member("$schema", powerbox.String("https://json-schema.org/draft/2020-12/schema")),
		member("title", powerbox.String("powerbox.yaml")),
	}, members...)...)
	return append(indent(schema.AppendJSON(nil)), '\n')
}

func member(name string, v powerbox.Value) powerbox.Member {
	return powerbox.Member{Name: name, Value: v}
}

func ofType(name string) powerbox.Member { return member("type", powerbox.String(name)) }

// nullable is for sections, which may stand there empty.
func nullable(name string) powerbox.Member {
	return member("type", powerbox.List(powerbox.String(name), powerbox.String("null")))
}

func schemaOf(t reflect.Type, f field) powerbox.Value {
	if s, ok := schemaOfOurs(t); ok {
		return s
	}
	switch t.Kind() { //nolint:exhaustive // config.go declares no others
	case reflect.Slice:
		return powerbox.Object(nullable("array"), member("items", schemaOf(t.Elem(), field{})))
	case reflect.Map:
		return powerbox.Object(nullable("object"), member("additionalProperties", schemaOf(t.Elem(), field{})))
	case reflect.Struct:
		return schemaOfStruct(t)
	case reflect.Bool:
		return powerbox.Object(ofType("boolean"))
	case reflect.Int:
		ms := []powerbox.Member{ofType("integer")}
		if f.bounded {
			ms = append(ms, member("minimum", powerbox.Number(powerbox.Int(int64(f.low)))), member("maximum", powerbox.Number(powerbox.Int(int64(f.high)))))
		}
		return powerbox.Object(ms...)
	}
	if pattern, ok := patterns[f.format]; ok {
		return powerbox.Object(ofType("string"), member("pattern", powerbox.String(pattern)))
	}
	return powerbox.Object(ofType("string"))
}

// schemaOfOurs is for the types that are not what they are made of.
func schemaOfOurs(t reflect.Type) (powerbox.Value, bool) {
	switch t {
	case durationType:
		return powerbox.Object(ofType("string"), member("pattern", powerbox.String(`^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`))), true
	case sizeType:
		return powerbox.Object(member("type", powerbox.List(powerbox.String("string"), powerbox.String("integer"))),
			member("pattern", powerbox.String(`^[0-9]+(B|KiB|MiB|GiB)?$`))), true
	case secretType:
		return powerbox.Object(ofType("string")), true
	case valueType:
		return powerbox.Bool(true), true
	case constraintType:
		return powerbox.Object(ofType("object"),
			member("properties", powerbox.Object(member("constraint_type", powerbox.Object(ofType("string"))))),
			member("required", powerbox.List(powerbox.String("constraint_type")))), true
	}
	return powerbox.Value{}, false
}

func schemaOfStruct(t reflect.Type) powerbox.Value {
	var properties []powerbox.Member
	var required []powerbox.Value
	for _, f := range fieldsOf(t) {
		members, _ := schemaOf(f.of, f).Members()
		ms := append([]powerbox.Member{member("description", powerbox.String(f.doc))}, members...)
		if len(f.enum) > 0 {
			ms = append(ms, member("enum", scalarList(f.of, f.enum)))
		}
		if f.hasDef {
			ms = append(ms, member("default", scalarValue(f.of, f.def)))
		}
		properties = append(properties, member(f.key, powerbox.Object(ms...)))
		if f.required {
			required = append(required, powerbox.String(f.key))
		}
	}
	ms := []powerbox.Member{
		nullable("object"), member("additionalProperties", powerbox.Bool(false)),
		member("properties", powerbox.Object(properties...)),
	}
	if len(required) > 0 {
		ms = append(ms, ofType("object"), member("required", powerbox.List(required...)))
	}
	return powerbox.Object(ms...)
}

func scalarList(t reflect.Type, texts []string) powerbox.Value {
	values := make([]powerbox.Value, len(texts))
	for i, s := range texts {
		values[i] = scalarValue(t, s)
	}
	return powerbox.List(values...)
}

// scalarValue is the text of a default or a choice as in JSON.
func scalarValue(t reflect.Type, s string) powerbox.Value {
	if t.Kind() == reflect.Bool {
		return powerbox.Bool(s == "true")
	}
	if d, err := powerbox.ParseDecimal(s); err == nil && t.Kind() == reflect.Int {
		return powerbox.Number(d)
	}
	return powerbox.String(s)
}

func indent(data []byte) []byte {
	var out bytes.Buffer
	// The data is ours and valid: there is no error to have.
	_ = json.Indent(&out, data, "", "  ")
	return out.Bytes()
}
