package powerboxmcp

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox"
)

// Middleware goes into the server with AddReceivingMiddleware. It lets nothing run
// that the handler has not admitted, cuts tools/list to what the capability names,
// and tells what became of tools.
func (s *Server) Middleware() mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if strings.HasPrefix(method, "notifications/") {
				return next(ctx, method, req)
			}
			a := s.admittedBy(req, method)
			if a == nil {
				return nil, &jsonrpc.Error{Code: codeDenied, Message: "no decision of the gate came with this request; nothing runs without one"}
			}
			switch method {
			case "tools/call":
				return s.call(ctx, a, next, req)
			case "tools/list":
				result, err := next(ctx, method, req)
				return s.cut(a, result), err
			}
			return next(ctx, method, req)
		}
	}
}

// admittedBy is the decision about a request, which is used up by a tool.
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
	a.told = method == "tools/call"
	return a
}

// call runs a tool if it is the one that was decided on, with the arguments that
// were.
func (s *Server) call(ctx context.Context, a *admitted, next mcp.MethodHandler, req mcp.Request) (result mcp.Result, err error) {
	failed := errFailed
	defer func() {
		if wrong := s.config.Gate.Outcome(ctx, a.decision, failed); wrong != nil {
			s.config.Log.WarnContext(ctx, "the outcome of a tool could not be told", "decision", a.decision.ID, "error", wrong)
		}
	}()
	call, ok := req.(*mcp.CallToolRequest)
	if !ok || call.Params == nil || call.Params.Name != a.tool || !a.decidedOn(call.Params.Arguments) {
		return nil, &jsonrpc.Error{Code: codeDenied, Message: "the tool that is about to run is another one than was decided on"}
	}
	if result, err = next(ctx, "tools/call", req); err == nil {
		failed = nil
		if r, ok := result.(*mcp.CallToolResult); ok && r.IsError {
			failed = errors.New("the tool failed")
		}
	}
	return result, err
}

func (m message) decidedOn(arguments []byte) bool {
	if len(arguments) == 0 {
		return m.arguments.Equal(powerbox.Object())
	}
	v, err := powerbox.DecodeValue(arguments, powerbox.Limits{Bytes: maxBody, Depth: 64})
	return err == nil && v.Equal(m.arguments)
}

// cut leaves of a list what the capability names, so that a model does not see
// what it cannot use. The list itself is the server's and stays whole.
func (s *Server) cut(a *admitted, result mcp.Result) mcp.Result {
	list, ok := result.(*mcp.ListToolsResult)
	if !ok || list == nil {
		return result
	}
	own := *list
	own.Tools = []*mcp.Tool{}
	for _, tool := range list.Tools {
		skill := tool.Name
		if mapped, ok := s.config.Skills[tool.Name]; ok {
			skill = mapped
		}
		if slices.Contains(a.decision.Skills, skill) {
			own.Tools = append(own.Tools, tool)
		}
	}
	return &own
}
