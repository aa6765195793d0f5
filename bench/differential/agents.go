package main

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
)

// seen is one call as the handler of a stock SDK saw it.
type seen struct {
	Ready    bool     `json:"ready,omitempty"` // no call: the server takes calls
	Agent    string   `json:"agent"`
	Method   string   `json:"method"`
	Contexts []string `json:"contexts"` // every value of the header Powerbox-Context
	Message  string   `json:"message,omitempty"`
	Task     string   `json:"task,omitempty"` // as the caller named it
	Stored   string   `json:"stored,omitempty"`
	Context  string   `json:"context,omitempty"`
	Tenant   string   `json:"tenant,omitempty"`
	Calls    []called `json:"calls,omitempty"`
	Text     int      `json:"text,omitempty"` // parts by what they are; data is data that calls no skill
	File     int      `json:"file,omitempty"`
	Data     int      `json:"data,omitempty"`
	Other    int      `json:"other,omitempty"`
}

// called is one call of a skill or tool.
type called struct {
	Skill     string          `json:"skill"`
	Arguments json.RawMessage `json:"arguments"`
	// Read are the arguments that a handler takes by their names, as its language
	// does that: with what a prototype lends in JavaScript, in any letter case in Go.
	Read map[string]json.RawMessage `json:"read,omitempty"`
}

const headerContext = "powerbox-context"

// typed is a call as a handler in Go takes it into a struct.
type typed struct {
	Skill     string `json:"skill"`
	Arguments struct {
		DryRun     json.RawMessage `json:"dry_run"`
		Collection json.RawMessage `json:"collection"`
		Query      json.RawMessage `json:"query"`
		Limit      json.RawMessage `json:"limit"`
	} `json:"arguments"`
}

func (t *typed) read() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, v := range map[string]json.RawMessage{"dry_run": t.Arguments.DryRun, "collection": t.Arguments.Collection, "query": t.Arguments.Query, "limit": t.Arguments.Limit} {
		if v != nil {
			out[name] = v
		}
	}
	return out
}

// executor is an agent as its author would write it on a2a-go.
type executor struct{ tell func(seen) }

func headersOf(p *a2asrv.ServiceParams) []string {
	values, _ := p.Get(headerContext)
	return values
}

// Execute implements a2asrv.AgentExecutor.
func (e executor) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		s := seen{
			Agent: agentGo, Method: "message", Contexts: headersOf(x.ServiceParams), Message: x.Message.ID, Task: string(x.Message.TaskID),
			Context: x.Message.ContextID, Tenant: x.Tenant,
		}
		if x.StoredTask != nil {
			s.Stored = string(x.StoredTask.ID)
		}
		for _, p := range x.Message.Parts {
			s.add(p)
		}
		e.tell(s)
		if strings.HasPrefix(x.Message.ID, "own") && x.StoredTask == nil {
			_ = yield(a2a.NewSubmittedTask(x, x.Message), nil) && yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateInputRequired, nil), nil)
			return
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("done")), nil)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (executor) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateInputRequired, nil), nil)
	}
}

// add takes one part in.
func (s *seen) add(p *a2a.Part) {
	switch content := p.Content.(type) {
	case a2a.Text:
		s.Text++
	case a2a.Raw, a2a.URL:
		s.File++
	case a2a.Data:
		if c, ok := callOf(content.Value); ok {
			s.Calls = append(s.Calls, c...)
		} else {
			s.Data++
		}
	default:
		s.Other++
	}
}

// callOf returns the call that data is to a handler that looks for its members
// by name, and to one that reads it into a struct.
func callOf(data any) ([]called, bool) {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, false
	}
	var into typed
	_ = json.Unmarshal(raw, &into)
	object, _ := data.(map[string]any)
	skill, ok := object["skill"].(string)
	if !ok && into.Skill == "" {
		return nil, false
	}
	c := called{Skill: skill, Arguments: json.RawMessage(`{}`), Read: into.read()}
	if !ok {
		c.Skill = into.Skill
	}
	if arguments, ok := object["arguments"]; ok && arguments != nil {
		c.Arguments, _ = json.Marshal(arguments)
	}
	calls := []called{c}
	if ok && into.Skill != skill && into.Skill != "" {
		c.Skill = into.Skill
		calls = append(calls, c)
	}
	return calls, true
}

// reporting reports calls that reach no executor.
type reporting struct {
	a2asrv.RequestHandler
	tell func(seen)
}

func (r reporting) say(ctx context.Context, method, task, conversation, tenant string) {
	s := seen{Agent: agentGo, Method: method, Task: task, Context: conversation, Tenant: tenant}
	if c, ok := a2asrv.CallContextFrom(ctx); ok {
		s.Contexts = headersOf(c.ServiceParams())
	}
	r.tell(s)
}

// GetTask implements a2asrv.RequestHandler.
func (r reporting) GetTask(ctx context.Context, q *a2a.GetTaskRequest) (*a2a.Task, error) {
	r.say(ctx, "getTask", string(q.ID), "", q.Tenant)
	return r.RequestHandler.GetTask(ctx, q)
}

// CancelTask implements a2asrv.RequestHandler.
func (r reporting) CancelTask(ctx context.Context, q *a2a.CancelTaskRequest) (*a2a.Task, error) {
	r.say(ctx, "cancelTask", string(q.ID), "", q.Tenant)
	return r.RequestHandler.CancelTask(ctx, q)
}

// ListTasks implements a2asrv.RequestHandler.
func (r reporting) ListTasks(ctx context.Context, q *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	r.say(ctx, "listTasks", "", q.ContextID, q.Tenant)
	return r.RequestHandler.ListTasks(ctx, q)
}

// goAgent is an agent on a2a-go, in every binding and both versions.
func goAgent(listen string, tell func(seen)) http.Handler {
	base := "http://" + listen
	at := func(url string, binding a2a.TransportProtocol, version a2a.ProtocolVersion) *a2a.AgentInterface {
		return &a2a.AgentInterface{URL: url, ProtocolBinding: binding, ProtocolVersion: version}
	}
	card := &a2a.AgentCard{
		Name: "Exports", Description: "Exports collections", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			at(base+"/rpc", a2a.TransportProtocolJSONRPC, a2a.Version), at(base+"/rest", a2a.TransportProtocolHTTPJSON, a2a.Version), at(listen, a2a.TransportProtocolGRPC, a2a.Version),
			at(base+"/old", a2a.TransportProtocolJSONRPC, a2av0.Version), at(base+"/oldrest", a2a.TransportProtocolHTTPJSON, a2av0.Version), at(listen, a2a.TransportProtocolGRPC, a2av0.Version),
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"}, Capabilities: a2a.AgentCapabilities{Streaming: true},
		Skills: []a2a.AgentSkill{
			{ID: "export", Name: "export", Description: "export", Tags: []string{"test"}}, {ID: "search", Name: "search", Description: "search", Tags: []string{"test"}},
		},
	}
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "anybody", nil }})
	silent := slog.New(slog.DiscardHandler)
	handler := reporting{a2asrv.NewHandler(executor{tell}, a2asrv.WithTaskStore(store), a2asrv.WithLogger(silent)), tell}
	services := grpc.NewServer()
	a2agrpcv1.NewHandler(handler).RegisterWith(services)
	a2agrpcv0.NewHandler(handler).RegisterWith(services)
	mux := http.NewServeMux()
	for path, h := range map[string]http.Handler{
		"/rpc": a2asrv.NewJSONRPCHandler(handler), "/old": a2av0.NewJSONRPCHandler(handler),
		"/oldrest/":              http.StripPrefix("/oldrest", a2av0.NewRESTHandler(handler)),
		"/lf.a2a.v1.A2AService/": services, "/a2a.v1.A2AService/": services,
		a2asrv.WellKnownAgentCardPath: a2asrv.NewStaticAgentCardHandler(card),
	} {
		mux.Handle(path, h)
	}
	// With a tenant in the path and without, as the SDK has a handler for each.
	plain := http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler))
	tenants := http.StripPrefix("/rest", a2asrv.NewTenantRESTHandler("/{*}", handler))
	mux.HandleFunc("/rest/", func(w http.ResponseWriter, r *http.Request) {
		rest := strings.TrimPrefix(r.URL.Path, "/rest")
		if strings.HasPrefix(rest, "/message:") || rest == "/tasks" || strings.HasPrefix(rest, "/tasks/") {
			plain.ServeHTTP(w, r)
			return
		}
		tenants.ServeHTTP(w, r)
	})
	return mux
}

// goMCP is a server on the MCP Go SDK.
func goMCP(tell func(seen)) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "exports", Version: "1.0.0"}, nil)
	say := func(method string, extra *mcp.RequestExtra, c called) {
		s := seen{Agent: agentMCPGo, Method: method, Calls: []called{c}}
		if extra != nil {
			s.Contexts = extra.Header.Values(headerContext)
		}
		tell(s)
	}
	for _, name := range []string{"export", "search"} {
		server.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var into typed
			arguments := r.Params.Arguments
			if len(arguments) == 0 || string(arguments) == "null" {
				arguments = json.RawMessage(`{}`)
			}
			_ = json.Unmarshal(arguments, &into.Arguments)
			say("tools/call", r.Extra, called{Skill: r.Params.Name, Arguments: arguments, Read: into.read()})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "file", URITemplate: "file:///{+path}"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		arguments, _ := json.Marshal(map[string]string{"uri": r.Params.URI})
		say("resources/read", r.Extra, called{Skill: "resources/read", Arguments: arguments})
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "done"}}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "brief"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		all := map[string]any{"name": r.Params.Name}
		if r.Params.Arguments != nil {
			all["arguments"] = r.Params.Arguments
		}
		arguments, _ := json.Marshal(all)
		say("prompts/get", r.Extra, called{Skill: "prompts/get", Arguments: arguments})
		return &mcp.GetPromptResult{}, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: slog.New(slog.DiscardHandler)})
}
