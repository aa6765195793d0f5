package powerboxmcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox"
)

// Hold has a server run nothing that [Server.Handler] has not admitted: it goes
// before everything else that the server does with what it receives and sends.
// Lists are cut to what the capability names, outcomes are told, and what the
// server asks of its clients gets through where [Config.Requests] has it.
func (s *Server) Hold(server *mcp.Server) {
	server.AddReceivingMiddleware(s.receiving)
	server.AddSendingMiddleware(s.sending)
}

func (s *Server) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if strings.HasPrefix(method, "notifications/") {
			return next(ctx, method, req)
		}
		a := s.admittedBy(req, method)
		if a == nil {
			return nil, &jsonrpc.Error{Code: codeDenied, Message: "no decision of the gate came with this request; nothing runs without one"}
		}
		if a.needsOperation() {
			return s.run(ctx, a, next, method, req)
		}
		result, err := next(ctx, method, req)
		if err != nil || a.decision.Ambient {
			return result, err
		}
		return s.cut(a, result), nil
	}
}

// sending refuses in the client's place what the server may not ask of it, as text
// that someone else wrote would reach the client's model by.
func (s *Server) sending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if strings.HasPrefix(method, "notifications/") || slices.Contains(s.config.Requests, method) {
			return next(ctx, method, req)
		}
		return nil, notAsked(method)
	}
}

func notAsked(method string) error {
	return &jsonrpc.Error{Code: codeDenied, Message: "clients are not asked for " + method + " here; Config.Requests can list it"}
}

// admittedBy is the decision about a request, which is used up by what needs an
// operation.
func (s *Server) admittedBy(req mcp.Request, method string) *admitted {
	extra := req.GetExtra()
	if extra == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.admitted[extra.Header.Get(headerDecision)]
	if a == nil || a.method != method || a.told {
		return nil
	}
	a.told = a.needsOperation()
	return a
}

// run runs a tool, or a method that is ruled, if it is the one that was decided
// on, with the arguments that were.
func (s *Server) run(ctx context.Context, a *admitted, next mcp.MethodHandler, method string, req mcp.Request) (result mcp.Result, err error) {
	failed := errFailed
	defer func() {
		if wrong := s.config.Gate.Outcome(ctx, a.decision, failed); wrong != nil {
			s.config.Log.WarnContext(ctx, "the outcome of a request could not be told", "decision", a.decision.ID, "error", wrong)
		}
	}()
	if !a.decidedOn(req) {
		return nil, &jsonrpc.Error{Code: codeDenied, Message: "what is about to run is something else than was decided on"}
	}
	if result, err = next(ctx, method, req); err != nil {
		return nil, err
	}
	for _, asked := range asks(result) {
		if !slices.Contains(s.config.Requests, asked) {
			return nil, notAsked(asked)
		}
	}
	failed = nil
	if r, ok := result.(*mcp.CallToolResult); ok && r.IsError {
		failed = errors.New("the tool failed")
	}
	if a.decision.Ambient {
		return result, nil
	}
	return s.cut(a, result), nil
}

// asks are the methods that the server asks of its client by its answer, as
// clients have it from revision 2026-07-28 on.
func asks(result mcp.Result) []string {
	var wanted mcp.InputRequestMap
	switch r := result.(type) {
	case *mcp.CallToolResult:
		wanted = r.InputRequests
	case *mcp.GetPromptResult:
		wanted = r.InputRequests
	case *mcp.ReadResourceResult:
		wanted = r.InputRequests
	}
	if len(wanted) == 0 {
		return nil
	}
	var named map[string]struct{ Method string }
	raw, err := json.Marshal(wanted)
	if err == nil {
		err = json.Unmarshal(raw, &named)
	}
	if err != nil {
		return []string{"what nobody knows"}
	}
	var methods []string
	for _, w := range named {
		methods = append(methods, w.Method)
	}
	return methods
}

// decidedOn compares the message that the SDK has read with the one that was
// decided. A tool's arguments are compared exactly. If the SDK has a type for a
// parameter, an absent member equals its zero value.
func (a *admitted) decidedOn(req mcp.Request) bool {
	limits := powerbox.Limits{Bytes: maxBody, Depth: 64}
	if call, ok := req.(*mcp.CallToolRequest); ok {
		if call.Params == nil || call.Params.Name != a.tool {
			return false
		}
		if len(call.Params.Arguments) == 0 {
			return a.arguments.Equal(powerbox.Object())
		}
		v, err := powerbox.DecodeValue(call.Params.Arguments, limits)
		return err == nil && v.Equal(a.arguments)
	}
	raw, err := json.Marshal(req.GetParams())
	if err != nil {
		return false
	}
	got := message{method: a.method}
	v, err := powerbox.DecodeValue(raw, limits)
	return err == nil && got.read(v) == nil && got.rule == a.rule && sparse(got.arguments).Equal(sparse(a.arguments))
}

// sparse leaves out zero values.
func sparse(v powerbox.Value) powerbox.Value {
	members, ok := v.Members()
	if !ok {
		return v
	}
	var kept []powerbox.Member
	for _, m := range members {
		if m.Value = sparse(m.Value); !m.Value.Equal(powerbox.Object()) && !m.Value.Equal(powerbox.String("")) && m.Value.Kind() != powerbox.KindNull {
			kept = append(kept, m)
		}
	}
	return powerbox.Object(kept...)
}

// private lets only the caller keep a result (2026-07-28, caching): it was decided for
// the caller, and a cache would show it to others, or theirs to the caller.
const private = "private"

// cut leaves of a list what the capability lets be asked for, so that a model does
// not see what it cannot use. The list itself is the server's and stays whole. What may
// be kept is the caller's alone.
func (s *Server) cut(a *admitted, result mcp.Result) mcp.Result {
	switch list := result.(type) {
	case *mcp.ListToolsResult:
		own := *list
		own.CacheScope = private
		own.Tools = kept(list.Tools, func(t *mcp.Tool) bool { return slices.Contains(a.decision.Skills, s.skill(t.Name)) })
		return &own
	case *mcp.ListResourcesResult:
		own := *list
		own.CacheScope = private
		own.Resources = kept(list.Resources, func(r *mcp.Resource) bool {
			return s.permits(a, readResource, powerbox.Member{Name: "uri", Value: powerbox.String(r.URI)})
		})
		return &own
	case *mcp.ListResourceTemplatesResult:
		own := *list
		own.CacheScope = private
		own.ResourceTemplates = kept(list.ResourceTemplates, func(*mcp.ResourceTemplate) bool { return s.holds(a, readResource) })
		return &own
	case *mcp.ListPromptsResult:
		own := *list
		own.CacheScope = private
		own.Prompts = kept(list.Prompts, func(*mcp.Prompt) bool { return s.holds(a, getPrompt) })
		return &own
	case *mcp.DiscoverResult:
		own := *list
		own.CacheScope = private
		return &own
	case *mcp.ReadResourceResult:
		own := *list
		own.CacheScope = private
		return &own
	}
	return result
}

// kept is never nil, which would be no list in JSON.
func kept[T any](list []T, may func(T) bool) []T {
	out := []T{}
	for _, entry := range list {
		if may(entry) {
			out = append(out, entry)
		}
	}
	return out
}

// holds reports whether the capability names what a method needs.
func (s *Server) holds(a *admitted, method string) bool {
	op, ok := s.operations[method]
	if ok {
		_, ok = a.under.Shape(op)
	}
	return ok
}

// permits reports whether a method may be called with these parameters.
func (s *Server) permits(a *admitted, method string, params ...powerbox.Member) bool {
	op, ok := s.operations[method]
	if !ok {
		return false
	}
	arguments := powerbox.Object(params...)
	_, rounded := powerbox.RoundedArgument(arguments)
	attempt, err := powerbox.Invocation(op, arguments)
	return err == nil && !rounded && powerbox.Decide(attempt, a.under, s.config.Now()).Allowed
}
