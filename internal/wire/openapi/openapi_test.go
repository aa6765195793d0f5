package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/internal/wire/openapi"
)

// described is what a document of one path describes.
func described(t *testing.T, path string, more ...string) openapi.Interface {
	t.Helper()
	root, err := openapi.Read([]byte("openapi: 3.1.0\ninfo: {title: T}\nservers: [{url: 'https://{where}.example/', variables: {where: {default: eu}}}]\npaths:\n" + path + strings.Join(more, "")))
	if err != nil {
		t.Fatal(err)
	}
	out, err := openapi.Describe(root, "")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAAPC9_LeftOut: what cannot be sent exactly is not offered.
func TestAAPC9_LeftOut(t *testing.T) {
	for path, why := range map[string]string{
		"  /a/{id}: {get: {}}\n": "no parameter",
		"  /a: {get: {parameters: [{name: id, in: path, schema: {type: string}}]}}\n":                                                              "not in its path",
		"  /a: {get: {parameters: [{name: s, in: cookie, required: true, schema: {}}]}}\n":                                                         "cookie",
		"  /a: {get: {parameters: [{name: f, in: query, explode: false, schema: {type: array}}]}}\n":                                               "style of its own",
		"  /a: {get: {parameters: [{name: f, in: query, content: {}}]}}\n":                                                                         "no schema",
		"  /a: {get: {parameters: [{name: f, in: query, schema: {$ref: 'https://evil.example/s'}}]}}\n":                                            "outside of the document",
		"  /a: {get: {parameters: [{name: f, in: query, schema: {allOf: [{$ref: '#/info'}]}}]}}\n":                                                 "only #/components/schemas/",
		"  /a: {get: {parameters: [{$ref: '#/gone'}]}}\n":                                                                                          "not there",
		"  /a: {get: {parameters: [{name: f, in: query, schema: {}}, {name: f, in: header, schema: {}}]}}\n":                                       "two of its arguments",
		"  /a: {post: {requestBody: {required: true, content: {text/plain: {}}}}}\n":                                                               "not JSON",
		"  /a: {get: {requestBody: {required: true, content: {application/json: {}}}}}\n":                                                          "GET with a body",
		"  /a: {get: {operationId: x}, post: {operationId: x}}\n":                                                                                  "another operation",
		"  /a: {post: {parameters: [{name: body, in: query, schema: {}}], requestBody: {content: {application/json: {schema: {type: array}}}}}}\n": "two of its arguments",
	} {
		out := described(t, path)
		if len(out.Left) != 1 || !strings.Contains(out.Left[0].Why, why) {
			t.Errorf("%s: %+v; want %q", path, out.Left, why)
		}
	}
}

// TestAAPC9_Arguments: names, places and schemas of the offered arguments.
func TestAAPC9_Arguments(t *testing.T) {
	out := described(t, "  /pets/{petId}:\n    post:\n      operationId: HTTPGetPet2Now\n      parameters: [{name: petId, in: path, schema: {$ref: '#/components/schemas/Id'}, description: Which}]\n"+
		"      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}\n",
		"components: {schemas: {Id: {type: string, example: x}, Pet: {type: object, required: [age], properties: {age: {type: integer, nullable: true}, mother: {$ref: '#/components/schemas/Pet'}}}}}\n")
	if len(out.Operations) != 1 {
		t.Fatalf("%+v", out)
	}
	o := out.Operations[0]
	if o.Name != "httpget_pet2_now" || o.URL != "https://eu.example/pets/{petId}" || o.Method != "POST" || strings.Join(o.Body, ",") != "age,mother" {
		t.Errorf("%+v", o)
	}
	want := `{"$defs":{"Id":{"type":"string"},"Pet":{"properties":{"age":{"anyOf":[{"type":"integer"},{"type":"null"}]},"mother":{"$ref":"#/$defs/Pet"}},"required":["age"],"type":"object"}},` +
		`"additionalProperties":false,"properties":{"age":{"anyOf":[{"type":"integer"},{"type":"null"}]},"mother":{"$ref":"#/$defs/Pet"},"petId":{"$ref":"#/$defs/Id"}},"required":["petId","age"],"type":"object"}`
	if got := o.Input.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestATK27_DocumentsThatUnfold: a document is no larger than it looks.
func TestATK27_DocumentsThatUnfold(t *testing.T) {
	// A million nodes, so that who takes the bound away still has a machine.
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 5 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d, *a%[3]d]\n", i+1, i+1, i)
	}
	for _, text := range []string{bomb, "a: 1\na: 2\n", "<<: {a: 1}\n", "- ? [a]\n  : b\n", "", "a: &a [*a]\n"} {
		if v, err := openapi.Read([]byte(text)); err == nil {
			t.Errorf("%.40q: %v", text, v)
		}
	}
	for _, text := range []string{`{"swagger":"2.0"}`, `{"openapi":"3.0.0"}`, `{"openapi":"3.0.0","servers":[{"url":"/v1"}]}`, `{"openapi":"3.0.0","servers":[{"url":"file:///etc"}]}`} {
		root, err := openapi.Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := openapi.Describe(root, ""); err == nil {
			t.Errorf("%s: %+v", text, out)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add("openapi: 3.0.0\npaths: {/a/{b}: {get: {parameters: [{name: b, in: path, schema: {type: string}}]}}}\n")
	f.Add(`{"openapi":"3.1.0","paths":{"/a":{"post":{"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}}},"components":{"schemas":{"A":{"properties":{"a":{"$ref":"#/components/schemas/A"}}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		root, err := openapi.Read([]byte(text))
		if err != nil {
			return
		}
		out, err := openapi.Describe(root, "https://x.example")
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, o := range out.Operations {
			if !agentauth.ValidName(o.Name) || seen[o.Name] || !strings.HasPrefix(o.URL, "https://x.example/") {
				t.Fatalf("%+v", o)
			}
			seen[o.Name] = true
		}
	})
}
