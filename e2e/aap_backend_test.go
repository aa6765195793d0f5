package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/token"
)

// importing is a bank whose capabilities are all in their own file.
func importing(t *testing.T, agents string) *bank {
	t.Helper()
	port := freePort(t)
	b := &bank{town: &town{t: t, dir: t.TempDir(), url: "http://127.0.0.1:" + port}}
	b.write("powerbox.yaml", fmt.Sprintf(`listen: 127.0.0.1:%s
issuer: {url: "%s"}
include: [imported.yaml]
identity: {dev: [{name: alice, token: %s}]}
`, port, b.url, aliceToken))
	b.write("imported.yaml", agents)
	b.boot()
	return b
}

func keepFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reached are the requests that came to a service.
type reached struct {
	mu   sync.Mutex
	all  []*http.Request
	body []string
}

func (r *reached) note(q *http.Request) string {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.body = append(r.all, q), append(r.body, string(body))
	return string(body)
}

func (r *reached) last() (*http.Request, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return nil, ""
	}
	return r.all[len(r.all)-1], r.body[len(r.body)-1]
}

func (r *reached) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

const petsDocument = `openapi: 3.0.3
info: {title: Pet Store, version: "1"}
servers: [{url: /v1}]
paths:
  /pets:
    get:
      operationId: listPets
      summary: List pets
      parameters:
        - {name: tag, in: query, schema: {type: array, items: {type: string}}}
        - {name: limit, in: query, schema: {type: integer, minimum: 0, exclusiveMinimum: true}}
        - {name: X-Shop, in: header, schema: {type: string}}
      responses: {200: {description: ok}}
    post:
      operationId: addPet
      summary: Add a pet
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/NewPet'}}}}
      responses: {200: {description: ok}}
  /pets/{petId}:
    parameters: [{name: petId, in: path, required: true, schema: {type: string}}]
    get: {operationId: getPet, summary: Show a pet, responses: {200: {description: ok}}}
    delete: {operationId: removePet, summary: Remove a pet, responses: {204: {description: gone}}}
    put:
      operationId: tagPet
      requestBody: {content: {application/json: {schema: {type: array, items: {type: string}}}}}
      responses: {200: {description: ok}}
  /photos:
    post: {operationId: addPhoto, requestBody: {required: true, content: {image/png: {}}}, responses: {200: {description: ok}}}
  /search:
    get: {operationId: search, parameters: [{name: filter, in: query, style: deepObject, schema: {type: object}}], responses: {200: {description: ok}}}
components:
  schemas:
    NewPet:
      type: object
      required: [name, price]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string}
        price: {type: number}
        friend: {$ref: '#/components/schemas/NewPet'}
        nick: {type: string, nullable: true}
`

// TestAAPE1_OpenAPI offers an interface as its OpenAPI document describes it, and has
// an agent use it (AAP-C9, AAP-E6).
func TestAAPE1_OpenAPI(t *testing.T) {
	asGiven(t)
	var got reached
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.note(r)
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "/v1/pets", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/unknown"):
			http.Error(w, `{"message":"no such pet"}`, http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":12345678901234567890}`)
		}
	}))
	t.Cleanup(shop.Close)
	h := newAgentHost(t)
	file := filepath.Join(t.TempDir(), "pets.yaml")
	keepFile(t, file, petsDocument)
	h.must(4, "agent", "import", "openapi", file) // where it is, the document does not say
	_, s := h.must(0, "agent", "import", "openapi", file, "--base", shop.URL+"/v1")
	for _, want := range []string{"POST /photos: its body is not JSON", "GET /search: parameter \"filter\" is written in a style of its own"} {
		if !strings.Contains(s.err, want) {
			t.Errorf("no %q in %s", want, s.err)
		}
	}
	if strings.Contains(s.out, "photo") || strings.Contains(s.out, "search") {
		t.Errorf("what cannot be sent is offered:\n%s", s.out)
	}
	b := importing(t, s.out)
	m := b.active("alice", "list_pets", "get_pet", "remove_pet", "tag_pet", within("add_pet", args("price", args("max", 50), "name", args("not_in", []string{"Rex"}))))

	b.want("a query", m.execute("list_pets", args("tag", []string{"a b", "c&d"}, "limit", 5, "X-Shop", "north")), http.StatusOK, "")
	if r, _ := got.last(); r.URL.RawQuery != "limit=5&tag=a+b&tag=c%26d" || r.Header.Get("X-Shop") != "north" || r.URL.Path != "/v1/pets" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	pet := b.want("a path", m.execute("get_pet", args("petId", "rex/../../admin?x=1#y")), http.StatusOK, "")
	if r, _ := got.last(); r.URL.EscapedPath() != "/v1/pets/rex%2F..%2F..%2Fadmin%3Fx=1%23y" {
		t.Errorf("%s", r.URL.EscapedPath())
	}
	if !strings.Contains(pet.Raw, "12345678901234567890") {
		t.Errorf("a number was changed: %s", pet.Raw)
	}
	b.want("a body", m.execute("add_pet", args("name", "Tom", "price", 50, "nick", nil)), http.StatusOK, "")
	r, body := got.last()
	if body != `{"name":"Tom","nick":null,"price":50}` || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", body, r.Header)
	}
	who, err := token.VerifyContext(r.Header.Get("Powerbox-Context"), token.NewKeySet(b.agentKey("pet-store").Public()), "pet-store", time.Now(), []byte(body))
	if err != nil || who.Principal != "user:alice" {
		t.Errorf("%+v, %v", who, err)
	}
	b.want("a whole body", m.execute("tag_pet", args("petId", "1", "body", []string{"x"})), http.StatusOK, "")
	if _, body := got.last(); body != `["x"]` {
		t.Errorf("%s", body)
	}
	b.want("nothing", m.execute("remove_pet", args("petId", "1")), http.StatusOK, "")
	if said := b.want("its own refusal", m.execute("get_pet", args("petId", "unknown")), http.StatusBadRequest, "invalid_request"); !strings.Contains(said.Raw, "no such pet") {
		t.Errorf("%s", said.Raw)
	}
	b.want("a redirect", m.execute("get_pet", args("petId", "moved")), http.StatusInternalServerError, "internal_error")

	before := got.count()
	b.want("AAP-E8 constraints, before the schema", m.execute("add_pet", args("name", "Tom", "price", "much")), http.StatusForbidden, "constraint_violated")
	b.want("AAP-E6", m.execute("add_pet", args("name", "Tom", "price", 51)), http.StatusForbidden, "constraint_violated")
	b.want("one that only answers have", m.execute("add_pet", args("name", "Tom", "price", 1, "id", 1)), http.StatusBadRequest, "invalid_request")
	b.want("another path", m.execute("get_pet", args("petId", "..")), http.StatusBadRequest, "invalid_request")
	b.want("a header of its own", m.execute("list_pets", args("X-Shop", "a\r\nAuthorization: x")), http.StatusBadRequest, "invalid_request")
	b.want("old bounds", m.execute("list_pets", args("limit", 0)), http.StatusBadRequest, "invalid_request")
	if got.count() != before {
		t.Error("something that was refused reached the service")
	}
}

// TestAAPE1_MCPTools offers the tools of an MCP server.
func TestAAPE1_MCPTools(t *testing.T) {
	asGiven(t)
	var got reached
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","required":["text"],"properties":{"text":{"type":"string"},"n":{"type":"integer"}}}`)
	no := false
	add := func(name, answer string, fails bool, a *mcp.ToolAnnotations) {
		server.AddTool(&mcp.Tool{Name: name, Description: "Does " + name + ".\n\nAnd then much more.", InputSchema: schema, Annotations: a},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if answer == "" {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
				}
				return &mcp.CallToolResult{IsError: fails, Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil
			})
	}
	add("findNote", "", false, &mcp.ToolAnnotations{ReadOnlyHint: true})
	add("dropNote", "gone", false, &mcp.ToolAnnotations{})
	add("breaks", "the note is locked", true, &mcp.ToolAnnotations{DestructiveHint: &no})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-service" {
			http.Error(w, "who is it?", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodPost {
			body := got.note(r)
			r.Body = io.NopCloser(strings.NewReader(body))
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	h := newAgentHost(t)
	secret := filepath.Join(t.TempDir(), "secret")
	keepFile(t, secret, "of-the-service\n")
	h.must(1, "agent", "import", "mcp", front.URL)
	_, s := h.must(0, "agent", "import", "mcp", front.URL, "--token-file", secret, "--id", "notes")
	for _, want := range []string{"name: \"find_note\"\n          description: \"Does findNote.\"\n          sensitivity: write # guess: the server says that it only reads"} {
		if !strings.Contains(s.out, want) {
			t.Errorf("no %q in\n%s", want, s.out)
		}
	}
	if _, trusting := h.must(0, "agent", "import", "mcp", front.URL, "--token-file", secret, "--trust-hints", "--only", "find_note"); !strings.Contains(trusting.out, "sensitivity: read") || strings.Contains(trusting.out, "drop_note") {
		t.Errorf("%s", trusting.out)
	}
	b := importing(t, s.out)
	m := b.active("alice", within("find_note", args("text", args("not_in", []string{"secret"}))), "breaks")
	out := b.want("a tool", m.execute("find_note", args("text", "plan", "n", json.RawMessage("9007199254740991"))), http.StatusOK, "")
	if !strings.Contains(out.Raw, `{"data":{"n":9007199254740991,"text":"plan"}}`) {
		t.Errorf("%s", out.Raw)
	}
	var calls int
	for i, r := range got.all {
		if !strings.Contains(got.body[i], `"tools/call"`) {
			continue
		}
		calls++
		who, err := token.VerifyContext(r.Header.Get("Powerbox-Context"), token.NewKeySet(b.agentKey("notes").Public()), "notes", time.Now(), []byte(got.body[i]))
		if err != nil || who.Principal != "user:alice" {
			t.Errorf("%+v, %v", who, err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
	if said := b.want("its own refusal", m.execute("breaks", args("text", "x")), http.StatusBadRequest, "invalid_request"); !strings.Contains(said.Raw, "the note is locked") {
		t.Errorf("%s", said.Raw)
	}
	before := got.count()
	b.want("AAP-E6", m.execute("find_note", args("text", "secret")), http.StatusForbidden, "constraint_violated")
	b.want("schema", m.execute("find_note", args("text", 5)), http.StatusBadRequest, "invalid_request")
	b.want("no grant", m.execute("drop_note", args("text", "x")), http.StatusForbidden, "capability_not_granted")
	if got.count() != before {
		t.Error("something that was refused reached the server")
	}
}

// TestAAPE3_A2AAgents offers skills of A2A agents of both versions: an answer at
// once, and a task that continues.
func TestAAPE3_A2AAgents(t *testing.T) {
	asGiven(t)
	step := make(chan struct{})
	close(step)
	stock := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(stepwise{step})))
	t.Cleanup(stock.Close)
	var got reached
	polls := 0
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := got.note(r)
		switch {
		case strings.Contains(body, "locked"):
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"it is locked"}}`)
		case strings.Contains(body, `"tasks/get"`) && polls > 0:
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t-1","status":{"state":"completed"},"artifacts":[{"parts":[{"kind":"data","data":{"pages":4}}]}]}}`)
		default:
			if strings.Contains(body, `"tasks/get"`) {
				polls++
			}
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t-1","status":{"state":"working"}}}`)
		}
	}))
	t.Cleanup(old.Close)
	b := importing(t, fmt.Sprintf(`agents:
  - id: desk
    upstream: %[1]s
    mode: require
    agent_auth:
      provider_name: desk
      capabilities:
        - {name: answer, description: Answer a question, sensitivity: read, a2a: {url: "%[1]s", skill: ask}}
        - {name: report, description: Write a report, sensitivity: read, a2a: {url: "%[2]s", skill: report, version: "0.3"}}
        - {name: inside, description: Somewhere that is never called, sensitivity: read, a2a: {url: "http://169.254.169.254/"}}
`, stock.URL, old.URL))
	m := b.active("alice", "answer", within("report", args("topic", args("not_in", []string{"salaries"}))), "inside")
	out := b.want("a message", m.execute("answer", args("question", "why")), http.StatusOK, "")
	if !strings.Contains(out.Raw, `heard: {\"arguments\":{\"question\":\"why\"},\"skill\":\"ask\"}`) {
		t.Errorf("%s", out.Raw)
	}
	begun := b.want("a task", m.execute("report", args("topic", "rent")), http.StatusAccepted, "")
	var last reply
	for range 3 {
		last = b.ask(http.MethodGet, begun.text("status_url"), m.token(b.url+"/capability/execute"), nil)
		if last.text("status") == "completed" {
			break
		}
	}
	if last.text("status") != "completed" || !strings.Contains(last.Raw, `{"pages":4}`) {
		t.Errorf("%s", last.Raw)
	}
	if r, body := got.last(); r.Header.Get("Powerbox-Context") == "" || !strings.Contains(body, `"tasks/get"`) {
		t.Errorf("%s", body)
	}
	if said := b.want("its own refusal", m.execute("report", args("topic", "locked")), http.StatusBadRequest, "invalid_request"); !strings.Contains(said.Raw, "it is locked") {
		t.Errorf("%s", said.Raw)
	}
	before := got.count()
	b.want("AAP-E6", m.execute("report", args("topic", "salaries")), http.StatusForbidden, "constraint_violated")
	if got.count() != before {
		t.Error("what was refused reached the agent")
	}
	// The address policy of upstreams holds for all of them.
	b.want("ATK-15", m.execute("inside", args()), http.StatusInternalServerError, "internal_error")
}
