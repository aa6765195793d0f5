package a2a

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/powerbox-project/powerbox"
)

const extensionDocs = "../../../docs/reference/extension/"

// schemas compiles every schema of the extension, by name.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	all := map[string]*jsonschema.Schema{}
	for _, name := range []string{"card", "members", "call", "result", "denial"} {
		raw, err := os.ReadFile(extensionDocs + name + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		if id, _ := value(t, raw).Get("$id"); !id.Equal(powerbox.String(ExtensionURI + "/" + name + ".schema.json")) {
			t.Errorf("%s has $id %s", name, id)
		}
		schema, err := compiler.Compile(extensionDocs + name + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		all[name] = schema
	}
	return all
}

func validate(t *testing.T, schema *jsonschema.Schema, raw []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return schema.Validate(v)
}

// Every sample of the specification is valid, and is read by this package.
func TestSEP24_Samples(t *testing.T) {
	all := schemas(t)
	text, err := os.ReadFile(extensionDocs + "capability-negotiation.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("\n    "+ExtensionURI+"\n")) {
		t.Error("the text does not name the URI")
	}
	count := map[string]int{}
	for _, sample := range regexp.MustCompile("(?s)```json (\\w+)\n(.*?)```").FindAllSubmatch(text, -1) {
		name, raw := string(sample[1]), sample[2]
		count[name]++
		if err := validate(t, all[name], raw); err != nil {
			t.Errorf("%s: %v\n%s", name, err, raw)
		}
		switch name {
		case "call":
			if _, err := Decode(raw, Header{}, testLimits); err != nil {
				t.Errorf("call is refused: %v\n%s", err, raw)
			}
		case "members":
			if _, err := parseMembers("members", value(t, raw)); err != nil {
				t.Errorf("members are refused: %v\n%s", err, raw)
			}
		}
	}
	want := map[string]int{"card": 1, "members": 1, "call": 6, "result": 3, "denial": 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// Schema and decoder refuse and accept the same calls and members.
func TestSEP24_SchemasAgree(t *testing.T) {
	all := schemas(t)
	compared := 0
	for _, c := range cases[decodeCase](t, "decode.json") {
		var request struct {
			Method string
			Params struct{ Metadata map[string]json.RawMessage }
		}
		if strings.HasPrefix(c.Name, "ATK-27") || json.Unmarshal(c.bytes(), &request) != nil {
			continue
		}
		name, raw := "call", c.bytes()
		if method, _ := ParseMethod(request.Method); !method.IsExtension() {
			if name, raw = "members", request.Params.Metadata[ExtensionURI]; raw == nil {
				continue
			}
		}
		// That an attenuation is of a listed capability is beyond a schema.
		if strings.HasPrefix(c.Error, "-32602 attenuation_not_listed") {
			continue
		}
		compared++
		if err := validate(t, all[name], raw); (err == nil) != (c.Error == "") {
			t.Errorf("%s: schema says %v, decoder %q", c.Name, err, c.Error)
		}
	}
	if compared < 25 {
		t.Errorf("only %d cases compared", compared)
	}
}

// What we write is valid: cards, results and denials.
func TestSEP24_Written(t *testing.T) {
	all := schemas(t)
	parts := sections(t, "testdata/card/v1_aware_one_skill.txtar")
	capabilities, _ := value(t, parts["want"]).Get("capabilities")
	extensions, _ := capabilities.Get("extensions")
	for _, e := range elements(extensions) {
		if uri, _ := e.Get("uri"); uri.Equal(powerbox.String(ExtensionURI)) {
			params, _ := e.Get("params")
			if err := validate(t, all["card"], params.AppendJSON(nil)); err != nil {
				t.Error(err)
			}
		}
	}
	type denialCase struct{ Want string }
	for _, c := range cases[denialCase](t, "denial.json") {
		if err := validate(t, all["denial"], []byte(c.Want)); err != nil {
			t.Error(err)
		}
	}
	for _, result := range []any{CapabilitiesResult{}, CapabilitiesResult{Pending: &Pending{ID: "a", ApprovalURL: "https://g.example/a"}}, RevokeResult{RevocationID: "r"}} {
		raw, err := Result([]byte("1"), result)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, all["result"], raw); err != nil {
			t.Error(err)
		}
	}
}

func elements(v powerbox.Value) []powerbox.Value {
	all, _ := v.Elements()
	return all
}
