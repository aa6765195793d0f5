package doors_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/token"
)

// doorToken is what the proxy of the door "far" shows, and guardToken what a program shows.
const (
	doorToken  = "token-of-the-proxy-0123456789abcdef"
	guardToken = "token-of-the-program-0123456789abcdef"
)

const configuration = `
listen: @LISTEN
issuer: {url: "@URL", directory: "@DIR/data"}
identity:
  callers: [{agent: assistant, key: @KEY}, {agent: assistant, client: "@URL#inspector"}, {agent: robot, spiffe: "spiffe://example.org/robot"}]
  guards: [{name: program, token_file: "@DIR/guard.token", agents: [assistant], users: true}, {name: other, token_file: "@DIR/other.token", agents: [robot]}]
  dev: [{name: alice, token: session-of-alice}, {name: bob, token: session-of-bob, roles: [admin]}]
agents:
  - {id: notes, upstream: "@NOTES", mode: @MODE, required: [notes/read, notes/delete], push: {private: true, relay: true}}
  - {id: tools, upstream: "@TOOLS", protocol: mcp, mode: @MODE}
  - {id: records, protocol: local, mode: @MODE}
offers:
  notes: [{id: notes, operations: [read, delete, archive]}]
  tools: [{id: files, operations: [read, delete, archive]}]
  records: [{id: records, operations: [read, write, delete]}]
skills:
  notes:
    - {skill: read_note, grant: notes, operation: read, effect: read}
    - {skill: delete_note, grant: notes, operation: delete}
    - {skill: archive_note, grant: notes, operation: archive, approval: true}
  tools:
    - {skill: read_file, grant: files, operation: read, effect: read}
    - {skill: delete_file, grant: files, operation: delete}
    - {skill: archive_file, grant: files, operation: archive, approval: true}
  records:
    - {skill: read, grant: records, operation: read, effect: read}
    - {skill: write, grant: records, operation: write}
    - {skill: delete, grant: records, operation: delete, arguments: {soft: {constraint_type: exact, value: true}}}
resources:
  records:
    items:
      - {collection: record, id: record-1, name: One, attributes: {status: active}}
      - {collection: record, id: record-2, name: Two, attributes: {status: archived}}
policies: ["@DIR/policies.cedar"]
scopes:
  assistant: {notes: [notes/read, notes/archive], tools: [files/read, files/archive]}
  robot: {notes: [notes/delete]}
approvals: {rules: [{approvers: ["user:alice"]}]}
limits: {denials: 0}
defaults: {request_rate: 0}
doors:
  - name: edge
    listen: 127.0.0.1:0
    routes: [{path: /agents/notes, agent: notes}, {path: /agents/tools, agent: tools}, {path: /lf.a2a.v1.A2AService, agent: notes}, {host: notes.example.com, agent: notes}]
  - {name: far, listen: 0.0.0.0:0, token_file: "@DIR/door.token", peer_certificates: true, routes: [{path: /agents/notes, agent: notes}]}
  - {name: fast, listen: 0.0.0.0:0, grpc_only: true, token_file: "@DIR/door.token", routes: [{path: /agents/notes, agent: notes}, {path: /lf.a2a.v1.A2AService, agent: notes}]}
`

// policies are those of the certification scenario of AuthZEN.
const policies = `
permit(principal == User::"user:alice", action == Action::"records/records/read", resource in Collection::"records/record");
permit(principal == User::"user:alice", action == Action::"records/records/delete", resource in Collection::"records/record");
permit(principal == User::"user:alice", action == Action::"records/records/write", resource in Collection::"records/record") unless { resource.attributes.status == "archived" };
permit(principal == User::"user:bob", action == Action::"records/records/read", resource in Collection::"records/record");
permit(principal == User::"user:bob", action in Action::"notes/notes", resource in Agent::"notes");
permit(principal == User::"user:bob", action in Action::"tools/files", resource in Agent::"tools");
permit(principal in Role::"admin", action == Action::"records/records/write", resource in Collection::"records/record") when { resource.attributes.status == "archived" };
`

// town is a server with two doors in this process, an agent of A2A and an MCP server.
type town struct {
	t        *testing.T
	url      string
	instance *app.Instance
	key      *token.PrivateKey
	notes    *behind
	tools    *behind
	edge     string // host:port of the doors
	far      string
	fast     string           // that takes gRPC alone
	conn     *grpc.ClientConn // to the door "edge", kept open as Envoy does
	notesAt  string           // host:port of the agent and of the MCP server
	toolsAt  string
}

// behind is an agent or MCP server that keeps what reached it.
type behind struct {
	mu     sync.Mutex
	got    []string // method, path and body
	header http.Header
	answer string
	begun  string // the answer to a question about a task, "" for answer
	grpc   string // host:port of its gRPC
}

func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/agent-card.json") {
		fmt.Fprintf(w, `{"name":"Notes","description":"Keeps notes","version":"1.0.0","capabilities":{"streaming":true},
		"supportedInterfaces":[{"url":"http://%[1]s/invoke","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"http://%[1]s/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},
		{"url":"%[2]s","protocolBinding":"GRPC","protocolVersion":"1.0"}],
		"defaultInputModes":["text"],"defaultOutputModes":["text"],
		"skills":[{"id":"read_note","name":"r","description":"r","tags":[]},{"id":"delete_note","name":"d","description":"d","tags":[]},{"id":"archive_note","name":"a","description":"a","tags":[]}]}`, r.Host, b.grpc)
		return
	}
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.got, b.header = append(b.got, r.Method+" "+r.URL.RequestURI()+" "+string(body)), r.Header.Clone()
	answer := b.answer
	if b.begun != "" && (r.Method == http.MethodGet || strings.Contains(string(body), "Task")) {
		answer = b.begun
	}
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answer)
}

// took returns what reached the agent since the last time, and the last headers.
func (b *behind) took() ([]string, http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	return got, b.header
}

func newTown(t testing.TB, mode string) *town { t.Helper(); return newTownWith(t, mode, "") }

// newTownWith is newTown with further lines of its configuration.
func newTownWith(t testing.TB, mode, more string) *town {
	t.Helper()
	w := &town{
		notes: &behind{answer: `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"task-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"}}}}`},
		tools: &behind{answer: `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	}
	w.t, _ = t.(*testing.T)
	w.notes.grpc, w.tools.grpc = speaksGRPC(t), "127.0.0.1:1"
	notes, tools := httptest.NewServer(w.notes), httptest.NewServer(w.tools)
	t.Cleanup(notes.Close)
	t.Cleanup(tools.Close)
	front := httptest.NewUnstartedServer(nil)
	w.notesAt, w.toolsAt = notes.Listener.Addr().String(), tools.Listener.Addr().String()
	w.url = "http://" + front.Listener.Addr().String()
	var err error
	if w.key, err = token.GenerateKey(token.Ed25519, rand.Reader); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.NewReplacer("@LISTEN", front.Listener.Addr().String(), "@URL", w.url, "@DIR", dir, "@KEY", w.key.Public().Thumbprint(), "@NOTES", notes.URL, "@TOOLS", tools.URL+"/mcp", "@MODE", mode).Replace(configuration + more)
	for name, content := range map[string]string{"powerbox.yaml": text, "guard.token": guardToken + "\n", "door.token": doorToken + "\n", "other.token": strings.ToUpper(guardToken), "policies.cedar": policies} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "powerbox.yaml"), os.ReadFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, stop := context.WithCancel(t.Context())
	if w.instance, err = app.Assemble(ctx, app.Assembly{Config: c, Dev: true, Now: now, Log: log, Notes: io.Discard}); err != nil {
		t.Fatal(err)
	}
	front.Config.Handler = w.instance.Handler
	front.Start()
	for n, at := range []*string{&w.edge, &w.far} {
		*at = serve(t, w.instance.Doors[n].Handler)
	}
	w.fast = serveGRPC(t, w.instance.Doors[2])
	w.conn = dial(t, w.edge)
	t.Cleanup(func() {
		stop()
		front.Close()
		if err := w.instance.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// serve serves a door with HTTP/1.1 and HTTP/2 without TLS, as the server does.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: protocols}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// serveGRPC serves a door that takes gRPC alone, as the server does.
func serveGRPC(t testing.TB, d app.DoorFront) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := d.GRPC((&peer.Proxies{}).Handler(d.Handler))
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// dial connects to a door as Envoy does.
func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// call is a call of a client.
type call struct {
	method, path, query, body string
	header                    http.Header
}

var proofs atomic.Int64

// now is the time of the town, by which its connections have deadlines too.
var now = time.Now //nolint:forbidigo // as above

// signs adds the assistant's proof of who calls.
func (w *town) signs(t testing.TB, c call) call {
	t.Helper()
	below := ""
	if c.header.Get("Content-Type") == typeGRPC {
		below = "/agents/notes" // the address says no more than a port
	}
	p, err := token.SignDPoP(w.key, token.DPoPRequest{Method: c.method, URL: w.url + below + c.path, Now: now()}, fmt.Sprintf("proof-%d-%d", proofs.Add(1), now().UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	c.header = c.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set("Dpop", p)
	return c
}

// post is a call of JSON-RPC.
func post(agent, body string) call {
	return call{method: http.MethodPost, path: "/agents/" + agent, body: body, header: http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}}
}

// skill is a message that names a skill.
func skill(name string, n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m%d","role":"ROLE_USER","parts":[{"data":{"skill":%q,"arguments":{"title":"a"}}}]}}}`, n, name)
}

// tool is a call of a tool of the MCP server.
func tool(name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"path":"a"}}}`, name)
}

// checkRequest is what Envoy sends of a call.
func (c call) checkRequest(change ...func(*auth.AttributeContext_HttpRequest)) *auth.CheckRequest {
	h := &auth.AttributeContext_HttpRequest{Method: c.method, Host: "edge.example.com", Path: c.path, RawBody: []byte(c.body), Headers: map[string]string{":method": c.method, ":path": c.path, "x-request-id": "1", "x-forwarded-for": "192.0.2.7"}}
	if c.query != "" {
		h.Path += "?" + c.query
	}
	for name, values := range c.header {
		h.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	if c.body != "" {
		if c.header.Get("Content-Type") != typeGRPC {
			h.Headers["content-length"] = fmt.Sprint(len(c.body))
		}
		h.Headers["x-envoy-auth-partial-body"] = "false"
	}
	for _, f := range change {
		f(h)
	}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: h}}}
}

// check asks over gRPC.
func (w *town) check(t testing.TB, r *auth.CheckRequest) *auth.CheckResponse {
	t.Helper()
	a, err := auth.NewAuthorizationClient(w.conn).Check(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// reason is the code of a denial.
func reason(body string) string {
	type why struct{ Metadata struct{ Code string } }
	var told struct {
		Error struct{ Data, Details []why } // of JSON-RPC, and of HTTP+JSON
	}
	_ = json.Unmarshal([]byte(body), &told) // a text that is not JSON has no code
	for _, one := range append(told.Error.Data, told.Error.Details...) {
		return one.Metadata.Code
	}
	return ""
}

// record is what the server has on record.
type record struct {
	Decision string
	Status   string `json:"outcome_status"`
	Details  struct {
		Requester string
		Reasons   []struct{ Code, Operation string }
		Gate      struct {
			Origin   string
			Required []string
			Missing  []string
		}
	} `json:"powerbox"`
}

// onRecord reads a record as an operator.
func (w *town) onRecord(t testing.TB, id string) record {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/records/"+id, nil)
	r.Header.Set("Authorization", "Bearer "+w.instance.Admin.Operators.Token)
	answer := httptest.NewRecorder()
	w.instance.Handler.ServeHTTP(answer, r)
	var out record
	if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil || out.Decision == "" {
		t.Fatalf("record %s: %d %v %s", id, answer.Code, err, answer.Body)
	}
	return out
}

// outcomes are the states of the records that follow a decision.
func (w *town) outcomes(t testing.TB, decision string) (all []string) {
	t.Helper()
	for _, r := range w.records(t) {
		if r.Details.Of == decision {
			all = append(all, r.Status)
		}
	}
	return all
}

// approve answers the question behind a page as alice.
func (w *town) approve(t testing.TB, page string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/approvals/"+page[strings.LastIndexByte(page, '/')+1:], strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Powerbox-Dev-User", "alice")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if body, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusOK {
		t.Fatalf("approve %s: %d %s", page, a.StatusCode, body)
	}
}

// listed is one record of a list.
type listed struct {
	Status  string `json:"outcome_status"`
	Details struct {
		Of string `json:"outcome_of"`
	} `json:"powerbox"`
}

// records are the newest records.
func (w *town) records(t testing.TB) (all []listed) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/records", nil)
	r.Header.Set("Authorization", "Bearer "+w.instance.Admin.Operators.Token)
	answer := httptest.NewRecorder()
	w.instance.Handler.ServeHTTP(answer, r)
	if err := json.Unmarshal(answer.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}
