package handoff_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox/internal/handoff"
)

// skills stands for cards.
func skills(card string) ([]string, error) {
	if strings.HasSuffix(card, "reports.json") {
		return []string{"write_report", "read_report"}, nil
	}
	return nil, errors.New("no such card")
}

// TestGATE13_Schema: the schema and the reader accept the same declarations,
// and the example of the docs is one.
func TestGATE13_Schema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/reference/delegation.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/how-to/graph.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml declarations\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/how-to/graph.md has no example")
	}
	cases := map[string]bool{
		string(example[1]): true, "version: 1": true, "version: 2": false, "{}": false, "version: 1\nx: 1": false,
		"version: 1\nagents: {a: }": true, "version: 1\nagents: {a: {operations: [x, y.z]}}": true, "version: 1\nagents: {a: {operations: [x, x]}}": false,
		"version: 1\nagents: {a: {operations: ['x.*']}}": false, "version: 1\nagents: {a: {skills: {s: x}}}": false, "version: 1\nagents: {a: {card: reports.json, operations: [x]}}": false,
		"version: 1\nagents: {a: {card: reports.json}}": true, "version: 1\nagents: {a: {card: reports.json, skills: {read_report: 1}}}": false, "version: 1\nagents: [a]": false,
		"version: 1\nscopes: {a: {b: ['x.*', y]}}": true, "version: 1\nscopes: {a: {b: ['*']}}": false, "version: 1\nscopes: {a: {b: ['x.*.y']}}": false, "version: 1\nscopes: {a: [x]}": false,
		"version: 1\nwiring: [{from: a, to: b}]": true, "version: 1\nwiring: [{from: a}]": false, "version: 1\nwiring: [{from: a, to: b, gate: maybe}]": false,
		"version: 1\nwiring: [{from: a, to: b, requires: [x], on_violation: raise}]": true, "version: 1\nwiring: {from: a, to: b}": false,
	}
	for text, good := range cases {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != good {
			t.Errorf("GATE-13 the schema says %v of %s; want good: %t", err, text, good)
		}
		d := handoff.New()
		if err := d.Read("file.yaml", []byte(text), skills); (err == nil) != good {
			t.Errorf("GATE-13 the reader says %v of %s; want good: %t", err, text, good)
		} else if good {
			if _, err := d.Graph(); err != nil {
				t.Errorf("GATE-13 %v: %s", err, text)
			}
		}
	}
}

// TestGATE13_JSONIsYAML: the reader of JSON says the same as that of YAML, with the
// same lines.
func TestGATE13_JSONIsYAML(t *testing.T) {
	text := "{\"version\": 1,\n \"agents\": {\"a\": null, \"b\": {\"operations\": [\"x\"]}},\n \"scopes\": {\"a\":\n  {\"b\": [\"x\"]}},\n \"wiring\": [\n  {\"from\": \"a\",\n   \"to\": \"b\", \"requires\": [\"x\"]}]}"
	read := func(name string) *handoff.Declarations {
		d := handoff.New()
		if err := d.Read(name, []byte(text), skills); err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := read("file.json"), read("file.yaml")
	if a.Wires[0].Place.Line != b.Wires[0].Place.Line || a.Scopes[0].Place.Line != b.Scopes[0].Place.Line || a.Wires[0].Place.Line != 6 {
		t.Errorf("GATE-13 JSON %+v %+v, YAML %+v %+v", a.Wires[0].Place, a.Scopes[0].Place, b.Wires[0].Place, b.Scopes[0].Place)
	}
	for _, bad := range []string{`{"version":1,"version":1}`, `{"version":1} {}`, `{"version":1,"agents":{"a":null,"a":null}}`, strings.Repeat("[", 40), `{"version":true}`, ``} {
		if err := handoff.New().Read("file.json", []byte(bad), skills); err == nil {
			t.Errorf("GATE-13 %s is read", bad)
		}
	}
}

// FuzzRead reads anything: nothing panics, and an accepted declaration makes a
// graph or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("version: 1\nagents: {a: {operations: [x]}}\nscopes: {a: {a: ['x.*']}}\nwiring: [{from: a, to: a, requires: [x]}]"), false)
	f.Add([]byte(`{"version":1,"wiring":[{"from":"a","to":"b"}]}`), true)
	f.Add([]byte("version: 1\nagents: &x {a: *x}"), false)
	f.Fuzz(func(t *testing.T, data []byte, asJSON bool) {
		name := "file.yaml"
		if asJSON {
			name = "file.json"
		}
		d := handoff.New()
		if d.Read(name, data, skills) != nil {
			return
		}
		first, err := handoff.Check(d)
		again, errAgain := handoff.Check(d)
		if (err == nil) != (errAgain == nil) || len(first) != len(again) {
			t.Errorf("GATE-11 two answers: %v, %v", first, again)
		}
	})
}
