package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/internal/freeport"
)

// The agents behind the gateway, by id.
const (
	overA2A = "stock"
	overMCP = "tools"
)

// town is the built powerbox in front of two stock agents. It can be started anew
// with the same state.
type town struct {
	dir, powerbox string
	listen, grpc  string            // addresses of the gateway
	token, forged string            // of the caller, and the same under an unknown key
	capability    map[string]string // on record, by agent
	program       built.Program
	closers       []func() error
}

// patience is how long the program may take to be ready.
const patience = 30 * time.Second

const configuration = `listen: %[1]s
issuer: {url: "http://%[1]s", maximum_lifetime: 24h}
identity:
  providers:
    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}
policies: [policies.cedar]
defaults: {request_rate: 0}
limits: {denials: 1}
agents:
  - {id: stock, upstream: "http://%[2]s", mode: require, grpc: {listen: "%[3]s"}, required: ["data:use/export"]}
  - {id: tools, upstream: "http://%[4]s/mcp", mode: require, protocol: mcp}
offers:
  stock: [{id: "data:use", operations: [export], maximum_lifetime: 24h}]
  tools: [{id: "data:use", operations: [export], maximum_lifetime: 24h}]
skills:
  stock: [{skill: export, grant: "data:use", operation: export}]
  tools: [{skill: export, grant: "data:use", operation: export}]
`

func newTown(ctx context.Context, dir, powerbox string) (*town, error) {
	t := &town{dir: dir, powerbox: powerbox, capability: map[string]string{}}
	err := t.begin(ctx)
	if err != nil {
		err = errors.Join(err, t.close())
	}
	return t, err
}

func (t *town) begin(ctx context.Context) error {
	var addresses [4]string
	for n := range addresses {
		var err error
		if addresses[n], err = freeport.Lasting(); err != nil {
			return err
		}
	}
	t.listen, t.grpc = addresses[0], addresses[2]
	if err := errors.Join(t.login(), t.agent(addresses[1], stockA2A(addresses[1])), t.agent(addresses[3], stockMCP())); err != nil {
		return err
	}
	text := fmt.Sprintf(configuration, addresses[0], addresses[1], addresses[2], addresses[3])
	for name, text := range map[string]string{"powerbox.yaml": text, "policies.cedar": "permit(principal, action, resource);\n"} {
		if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return t.serve(ctx)
}

// serve runs powerbox, and asks for the caller's capabilities where there are none.
func (t *town) serve(ctx context.Context) error {
	if err := t.program.Serve(ctx, t.powerbox, t.dir, t.listen, patience); err != nil {
		return err
	}
	return t.settle(ctx)
}

// settle asks for a capability at each agent.
func (t *town) settle(ctx context.Context) error {
	for _, agent := range []string{overA2A, overMCP} {
		body := `{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["data:use"],"purpose":"measure"}}`
		_, raw := t.call(ctx, http.MethodPost, "/agents/"+agent, body)
		var answer struct {
			Result struct{ Capabilities []struct{ ID string } }
		}
		if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Result.Capabilities) != 1 {
			return fmt.Errorf("no capability at %s: %s", agent, raw)
		}
		t.capability[agent] = answer.Result.Capabilities[0].ID
	}
	return nil
}

func (t *town) call(ctx context.Context, method, path, body string) (int, []byte) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+t.listen+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, []byte(err.Error())
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Authorization": {"Bearer " + t.token}}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	out, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, []byte(err.Error())
	}
	return res.StatusCode, out
}

// again ends the program and starts it anew, so that it has the memory of a fresh one.
func (t *town) again(ctx context.Context) error {
	return errors.Join(t.program.End(), t.serve(ctx))
}

func (t *town) close() error {
	err := t.program.End()
	for _, c := range t.closers {
		err = errors.Join(err, c())
	}
	return err
}

// login makes the key of the login server, a token of the caller, and a forged one.
func (t *town) login() error {
	var keys [2]*ecdsa.PrivateKey
	for n := range keys {
		var err error
		if keys[n], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: keys[0].Public(), KeyID: "one", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.dir, "keys.json"), set, 0o600); err != nil {
		return err
	}
	for n, into := range []*string{&t.token, &t.forged} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: keys[n]}, &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "one", "typ": "at+jwt"}})
		if err != nil {
			return err
		}
		now := time.Now()
		signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":"https://login.example.org","aud":"https://agents.example.org","sub":"main","client_id":"main","iat":%d,"exp":%d}`,
			now.Unix(), now.Add(23*time.Hour).Unix()))
		if err != nil {
			return err
		}
		if *into, err = signed.CompactSerialize(); err != nil {
			return err
		}
	}
	return nil
}

// agent serves one of the agents in this process. The bench does not measure the
// CPU time and memory of this process.
func (t *town) agent(listen string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols), Handler: h}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC
	t.closers = append(t.closers, server.Close)
	go func() { _ = server.Serve(l) }() // how it ends is of no interest
	return nil
}

// answering is an agent that answers every message.
type answering struct{}

// Execute implements a2asrv.AgentExecutor.
func (answering) Execute(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("done")), nil)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (answering) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}

// stockA2A is an agent on a2a-go, in every binding.
func stockA2A(listen string) http.Handler {
	base := "http://" + listen
	at := func(url string, binding a2a.TransportProtocol) *a2a.AgentInterface {
		return &a2a.AgentInterface{URL: url, ProtocolBinding: binding, ProtocolVersion: a2a.Version}
	}
	card := &a2a.AgentCard{
		Name: "Exports", Description: "Exports collections", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{at(base+"/rpc", a2a.TransportProtocolJSONRPC), at(base+"/rest", a2a.TransportProtocolHTTPJSON), at(listen, a2a.TransportProtocolGRPC)},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"}, Capabilities: a2a.AgentCapabilities{Streaming: true},
		Skills: []a2a.AgentSkill{{ID: "export", Name: "export", Description: "export", Tags: []string{"test"}}},
	}
	handler := a2asrv.NewHandler(answering{}, a2asrv.WithLogger(slog.New(slog.DiscardHandler)))
	services := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(services)
	mux := http.NewServeMux()
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/lf.a2a.v1.A2AService/", services)
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	return mux
}

// stockMCP is a server on the MCP Go SDK.
func stockMCP() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "exports", Version: "1.0.0"}, nil)
	server.AddTool(&mcp.Tool{Name: "export", Description: "export", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: slog.New(slog.DiscardHandler)})
}
