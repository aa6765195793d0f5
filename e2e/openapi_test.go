package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestV1AnswersAsDescribed asks for everything that can be read without a name, and holds
// the answers against the served OpenAPI document.
func TestV1AnswersAsDescribed(t *testing.T) {
	w := directory(t)
	w.operator(http.MethodPost, "/v1/freezes", map[string]any{"target": "agent:mail", "reason": "answers strangely"})
	read := func(path string) []byte { return w.operator(http.MethodGet, path, map[string]any{}) }
	raw := read("/v1/openapi.json")
	parsed, err := libopenapi.NewDocument(raw)
	if err != nil {
		t.Fatalf("the OpenAPI document: %v", err)
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		t.Fatalf("the OpenAPI document: %v", err)
	}
	named := map[string]bool{}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			if op.Summary == "" || named[op.OperationId] || op.Responses.Codes.GetOrZero("200") == nil {
				t.Errorf("%s %s has no summary, no answer, or the id of another operation: %q", method, path, op.OperationId)
			}
			named[op.OperationId] = true
		}
	}
	if len(named) < 43 {
		t.Errorf("%d operations are described; want at least 43", len(named))
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("https://powerbox.example/openapi.json", document); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, methods := range document.(map[string]any)["paths"].(map[string]any) {
		get, ok := methods.(map[string]any)["get"].(map[string]any)
		if _, json := content(get, "application/json"); !ok || !json || strings.Contains(path, "{") || path == "/v1/capabilities" {
			continue
		}
		pointer := "#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/get/responses/200/content/application~1json/schema"
		schema, err := c.Compile("https://powerbox.example/openapi.json" + pointer)
		if err != nil {
			t.Errorf("the schema of %s: %v", path, err)
			continue
		}
		var answer any
		if err := json.Unmarshal(read(path), &answer); err != nil {
			t.Errorf("GET %s: %v", path, err)
		} else if err := schema.Validate(answer); err != nil {
			t.Errorf("GET %s is not as described: %v", path, err)
		}
		checked++
	}
	if checked < 12 {
		t.Errorf("%d operations were checked; want at least 12", checked)
	}
}

// content is the description of an answer of a media type.
func content(operation map[string]any, media string) (any, bool) {
	answers, _ := operation["responses"].(map[string]any)
	done, _ := answers["200"].(map[string]any)
	all, _ := done["content"].(map[string]any)
	one, ok := all[media]
	return one, ok
}
