package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// PathOpenAPI has the description of the operators' interface, an OpenAPI 3.1 document.
const PathOpenAPI = "/v1/openapi.json"

// described serves the description. It says nothing about this server but what its version
// can do, and is the same for every reader.
func (a *Admin) described(w http.ResponseWriter, r *http.Request) {
	document, err := describe(a.table())
	reply(w, r, a.Log, document, err)
}

// object is a JSON object.
type object = map[string]any

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// describe makes the document.
func describe(table []route) (object, error) {
	paths := object{}
	for _, r := range table {
		method, path, _ := strings.Cut(r.pattern, " ")
		operation, err := r.describe(method, path)
		if err != nil {
			return nil, err
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = operation //nolint:forcetypeassert // it was put there
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Powerbox operators' interface", "version": "1",
			"description": "Everything that the command line and the console show and change. Errors are application/problem+json (RFC 9457) with a detail that says what is wrong.",
		},
		"security": []object{{"operator": []string{}}, {"person": []string{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{
				"operator": object{"type": "http", "scheme": "bearer", "description": "the operator's token, in keys/operator.secret of the server's issuer.directory"},
				"person":   object{"type": "http", "scheme": "bearer", "description": "the session of a person, which powerbox login gets; each operation names the permission that it needs"},
			},
			"schemas": object{"Problem": object{
				"type": "object", "required": []string{"status", "detail"},
				"properties": object{"status": object{"type": "integer"}, "detail": object{"type": "string"}},
			}},
		},
	}, nil
}

// describe describes one operation.
func (r route) describe(method, path string) (object, error) {
	parameters := []object{}
	for _, name := range pathParameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, object{"name": name[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, q := range r.query {
		parameters = append(parameters, object{"name": q.name, "in": "query", "description": q.says, "schema": object{"type": "string"}})
	}
	media := r.media
	content := object{}
	if media == "" {
		media = "application/json"
		schema, err := schemaOf(r.out, opened)
		if err != nil {
			return nil, err
		}
		content["schema"] = schema
	}
	out := object{
		"operationId": operationID(method, path), "summary": r.says, "description": "Needs " + cmp.Or(r.needs.String(), "a login") + r.keeps.says() + ".",
		"responses": object{
			"200":     object{"description": "done", "content": object{media: content}},
			"default": object{"description": "refused, or failed", "content": object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}},
		},
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if r.in != nil {
		schema, err := schemaOf(r.in, nil)
		if err != nil {
			return nil, err
		}
		out["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": schema}}}
	}
	return out, nil
}

// operationID names an operation, as in getAgents.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, part := range strings.FieldsFunc(strings.TrimPrefix(path, "/v1/"), func(r rune) bool { return strings.ContainsRune("/{}-_.", r) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

// anyJSON are the types whose values are any JSON.
var anyJSON = map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}

// schemaOf is the JSON schema of a value's type; of nil it is any JSON. Unknown members of
// requests are refused. Answers may gain members in a later version.
func schemaOf(v any, change func(any) any) (any, error) {
	if v == nil {
		return object{}, nil
	}
	schema, err := jsonschema.ForType(reflect.TypeOf(v), &jsonschema.ForOptions{IgnoreInvalidTypes: true, TypeSchemas: anyJSON})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var out any
	if err = json.Unmarshal(data, &out); change != nil {
		out = change(out)
	}
	return out, err
}

// opened lets objects have members beside the described ones.
func opened(v any) any {
	switch v := v.(type) {
	case object:
		if open, closed := v["additionalProperties"].(object); closed && len(open) == 1 && open["not"] != nil {
			delete(v, "additionalProperties")
		}
		for name, member := range v {
			v[name] = opened(member)
		}
		return v
	case []any:
		for i := range v {
			v[i] = opened(v[i])
		}
	}
	return v
}
