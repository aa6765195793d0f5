package powerboxa2a_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/token"
)

// now is the machine's clock, which the gateway under test reads, too.
var now = time.Now //nolint:forbidigo // a program that runs beside us takes no clock as a parameter

// earlier is a clock by which an Inbound began before the calls of a test.
func earlier() func() time.Time {
	read := false
	return func() time.Time {
		if !read {
			read = true
			return now().Add(-2 * time.Second)
		}
		return now()
	}
}

// binary is the gateway, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(programtest.Main("../..", func(program string) int {
		binary = program
		return m.Run()
	}))
}

func newKey(t *testing.T) *token.PrivateKey {
	t.Helper()
	k, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const aliceToken = "alice-session-token"

// newClient is the holder's client of an agent that works for Alice.
func newClient(t *testing.T, session string) *holder.Client {
	return &holder.Client{
		Key: newKey(t), HTTP: &http.Client{Timeout: 20 * time.Second}, Now: now, Random: rand.Reader,
		Session: func(context.Context, string) (string, error) { return session, nil },
	}
}

// request is what reached an agent.
type request struct {
	method, path string
	header       http.Header
	body         []byte
}

// agent is one that is written on a2a-go and has an Inbound in front.
type agent struct {
	id  string
	url string // where it listens, past the gateway
	in  *powerboxa2a.Inbound
	key *token.PrivateKey

	grpcAt string // where it takes gRPC, past the gateway

	mu   sync.Mutex
	got  []request
	does func(ctx context.Context, task *powerboxa2a.Task, x *a2asrv.ExecutorContext, skill string, args map[string]any) (string, error)
}

func (g *agent) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.got = nil
}

// last is what reached the agent last.
func (g *agent) last(t *testing.T) request {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.got) == 0 {
		t.Fatalf("nothing reached %s", g.id)
	}
	return g.got[len(g.got)-1]
}

func (g *agent) noting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.mu.Lock()
		g.got = append(g.got, request{r.Method, r.URL.RequestURI(), r.Header.Clone(), body})
		g.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// Execute implements a2asrv.AgentExecutor.
func (g *agent) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		task, ok := powerboxa2a.TaskFrom(ctx)
		if !ok {
			yield(nil, errors.New("executed without a task"))
			return
		}
		skill, args := "", map[string]any{}
		for _, p := range x.Message.Parts {
			if data, ok := p.Data().(map[string]any); ok {
				skill, _ = data["skill"].(string)
				args, _ = data["arguments"].(map[string]any)
			}
		}
		if args["query"] == "task" {
			if yield(a2a.NewSubmittedTask(x, x.Message), nil) {
				yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateInputRequired, nil), nil)
			}
			return
		}
		text, err := g.does(ctx, task, x, skill, args)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(text)), nil)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (*agent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}

// reads answers with the ids of the resources that a task may touch.
func reads(_ context.Context, task *powerboxa2a.Task, x *a2asrv.ExecutorContext, skill string, args map[string]any) (string, error) {
	ids, _ := task.Handles()
	handle, _ := args["resourceHandle"].(string)
	words := ""
	for _, p := range x.Message.Parts {
		words += p.Text()
	}
	return fmt.Sprintf("%s of %q%s", skill, ids[handle], words), nil
}

// newAgent serves an agent by JSON-RPC, HTTP+JSON and gRPC.
func newAgent(t *testing.T, id, gateway string, config func(*powerboxa2a.Config), interceptors []a2asrv.CallInterceptor, skills ...string) *agent {
	t.Helper()
	g := &agent{id: id, key: newKey(t), does: reads}
	c := powerboxa2a.Config{
		URL: gateway + "/agents/" + id, ID: id, Now: earlier(), HTTP: http.DefaultClient, Holder: g.key.Public(),
	}
	if config != nil {
		config(&c)
	}
	var err error
	if g.in, err = powerboxa2a.NewInbound(c); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	g.url = srv.URL
	params, err := holder.CardParams(g.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	grpcAt := strings.TrimPrefix(srv.URL, "http://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if id == "summariser" { // whose gRPC is a server of its own
		grpcAt = l.Addr().String()
	}
	g.grpcAt = grpcAt
	card := &a2a.AgentCard{
		Name: id, Description: id, Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface(srv.URL+"/invoke", a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface(srv.URL+"/rest", a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface(grpcAt, a2a.TransportProtocolGRPC),
		},
		DefaultInputModes: []string{"text"}, DefaultOutputModes: []string{"text"},
		Capabilities: a2a.AgentCapabilities{Streaming: true, ExtendedAgentCard: true, Extensions: []a2a.AgentExtension{
			{URI: holder.ExtensionURI, Description: "Takes capabilities that are bound to this key.", Params: params},
		}},
	}
	for _, name := range skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: name, Name: name, Description: name, Tags: []string{"test"}})
	}
	handler := a2asrv.NewHandler(g.in.Guard(g), a2asrv.WithExtendedAgentCard(card),
		a2asrv.WithCallInterceptors(append([]a2asrv.CallInterceptor{g.in.Interceptor()}, interceptors...)...))
	services := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(services)
	listening := grpc.NewServer(g.in.ServerOptions()...)
	a2agrpc.NewHandler(handler).RegisterWith(listening)
	go func() { _ = listening.Serve(l) }() // until it is stopped
	t.Cleanup(listening.Stop)
	mux.Handle("/invoke", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/lf.a2a.v1.A2AService/", services)
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	srv.Config.Handler = g.noting(g.in.Handler(mux))
	return g
}

// town is a gateway with two agents behind it.
type town struct {
	t                     *testing.T
	dir, url              string
	documents, summariser *agent
	process               *os.Process // of the gateway
}

var insecurely = grpc.WithTransportCredentials(insecure.NewCredentials())

// options change a town.
type options struct {
	mode         string // require where empty
	documents    func(*powerboxa2a.Config)
	interceptors []a2asrv.CallInterceptor // of the summariser, behind ours
}

func newTown(t *testing.T, o options) *town {
	t.Helper()
	address := freeport.Address(t)
	w := &town{t: t, dir: t.TempDir(), url: "http://" + address}
	w.documents = newAgent(t, "documents", w.url, o.documents, nil,
		"retrieve_document", "search_documents", "delete_document", "archive_document", "unmapped_skill")
	w.summariser = newAgent(t, "summariser", w.url, nil, o.interceptors, "summarize")
	if o.mode == "" {
		o.mode = "require"
	}
	w.write("policies.cedar", `permit(principal == User::"user:alice", action, resource);`)
	w.write("powerbox.yaml", fmt.Sprintf(configuration, address, w.url, aliceToken, w.summariser.key.Public().Thumbprint(), w.documents.url, o.mode, freeport.Address(t), w.summariser.url, freeport.Address(t)))
	w.boot()
	return w
}

const configuration = `listen: %s
issuer: {url: "%s"}
identity: {dev: [{name: alice, token: %s}], callers: [{agent: summariser, key: "%s"}]}
agents:
  - id: documents
    upstream: %s
    mode: %s
    required: [documents:read/retrieve]
    grpc: {listen: "%s"}
  - id: summariser
    upstream: %s
    mode: require
    required: [work/summarize]
    grpc: {listen: "%s"}
offers:
  documents:
    - {id: documents:read, description: Read documents, operations: [retrieve, search], maximum_depth: 3}
    - {id: documents:write, description: Change documents, operations: [delete], requires: [documents:read]}
    - {id: documents:admin, description: Full access (legacy wrapper), operations: ["*"], attenuable: false, legacy: true}
  summariser:
    - {id: work, operations: [summarize]}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
    - {skill: delete_document, grant: documents:write, operation: delete, handle: resourceHandle}
    - {skill: archive_document, grant: documents:admin, operation: archive}
  summariser:
    - {skill: summarize, grant: work, operation: summarize, effect: read}
resources:
  documents:
    items:
      - {collection: reports, id: /vault/q1-financial.pdf, name: Q1 Financial Summary, attributes: {quarter: 2025-Q1}}
      - {collection: reports, id: /vault/q1-sales.pdf, name: Q1 Sales Report, attributes: {quarter: 2025-Q1}}
      - {collection: reports, id: /vault/q2-financial.pdf, name: Q2 Financial Summary, attributes: {quarter: 2025-Q2}}
policies: [policies.cedar]
`

func (w *town) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// boot starts the gateway and waits until it is ready.
func (w *town) boot() {
	w.t.Helper()
	w.process = programtest.Serve(w.t, binary, w.dir, w.url)
}

func (w *town) agentURL(id string) string { return w.url + "/agents/" + id }

// issuingKey is the key under which the gateway signs for an agent.
func (w *town) issuingKey(id string) *token.PrivateKey {
	w.t.Helper()
	jwk, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "agent-"+id+".jwk"))
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := token.ParsePrivateKey(bytes.TrimSpace(jwk))
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// caller is an agent of Alice's with an Outbound.
type caller struct {
	w      *town
	out    *powerboxa2a.Outbound
	wallet *holder.Wallet
	ctx    context.Context
}

func (w *town) caller() *caller {
	c := &caller{w: w, out: &powerboxa2a.Outbound{Client: newClient(w.t, aliceToken)}}
	c.wallet = holder.NewWallet(c.out.Client.Key.Public())
	c.ctx = powerboxa2a.WithWallet(w.t.Context(), c.wallet)
	return c
}

func (c *caller) peer(id string) *powerboxa2a.Peer {
	c.w.t.Helper()
	p, err := c.out.Peer(c.ctx, c.w.agentURL(id))
	if err != nil {
		c.w.t.Fatal(err)
	}
	return p
}

// reports asks for the reading of the reports of 2025-Q1.
func (c *caller) reports() holder.Capability {
	c.w.t.Helper()
	got, err := c.out.Client.Request(c.ctx, c.peer("documents").Agent, holder.RequestParams{
		Grants: []string{"documents:read"}, Purpose: "Summarize quarterly reports", Query: value(c.w.t, map[string]any{
			"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"},
		}),
	})
	if err != nil {
		c.w.t.Fatal(err)
	}
	if err := c.wallet.Add(got...); err != nil {
		c.w.t.Fatal(err)
	}
	return got[0]
}

func value(t *testing.T, v any) powerbox.Value {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := powerbox.ParseValue(raw)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// over makes a client that speaks one binding.
func (c *caller) over(id string, binding a2a.TransportProtocol) *a2aclient.Client {
	c.w.t.Helper()
	p := c.peer(id)
	client, err := p.NewClient(c.ctx, p.GRPC(insecurely), a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{binding}}))
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.w.t.Cleanup(func() { _ = client.Destroy() })
	return client
}

func skillCall(skill string, args map[string]any) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(map[string]any{"skill": skill, "arguments": args}))}
}

func words(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

// said is the text of an answer.
func said(t *testing.T, result a2a.SendMessageResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := result.(*a2a.Message)
	if !ok {
		t.Fatalf("the answer is a %T", result)
	}
	text := ""
	for _, p := range m.Parts {
		text += p.Text()
	}
	return text
}

// reason returns the stable code of an error, and the missing permissions.
func reason(t *testing.T, err error) (code, missing string) {
	t.Helper()
	var wrong *a2a.Error
	if !errors.As(err, &wrong) {
		t.Fatalf("no error of A2A: %v", err)
	}
	meta := wrong.ErrorInfo().Value["metadata"]
	raw, _ := json.Marshal(meta)
	var texts map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return texts["code"], texts["missing"]
}
