package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// binding is a way in which calls and answers travel, as the stages use it.
type binding interface {
	carrier
	meaning
	custom
	addressing
}

// carrier takes a call from the caller to the agent, and an answer or a denial back.
type carrier interface {
	// decode makes the call of the body, while the stage is made.
	decode(x *decoded, limits powerbox.Limits)
	// attempts adds what the call tries.
	attempts(g *Gateway, x *decoded, tried *attempted, c *gate.Call) error
	// compose makes the forwarded body, of the call that was decided on.
	compose(x *decoded) ([]byte, error)
	// answer looks at an answer before it goes to the caller.
	answer(g *Gateway, r *http.Response, x *forwardable) error
	// say writes a denial in the form that the clients read.
	say(g *Gateway, w http.ResponseWriter, x *decoded, d a2a.Denial)
}

// meaning is what a call that was decoded is about.
type meaning interface {
	// method is the call's method as it is counted, and action as it is on record.
	method(x *decoded) string
	action(x *decoded) action.Type
	// changes reports whether a call that tries something may change something.
	changes(x *decoded, tried *attempted) bool
	// wholly is the grant that the whole call is about, "" where it may be about more.
	wholly(x *decoded) string
	// passes reports whether a method that is in no table of A2A's is decided on.
	passes(x *decoded) bool
}

// custom is what callers of a binding are told and held to beside that.
type custom interface {
	// unspoken refuses what the agent behind does not speak: its own servers do not
	// look, and would read the call in another way than it was checked.
	unspoken(x *decoded) *a2a.Error
	// bound is the digest of everything that the call is.
	bound(x *decoded, digest string) string
	// planned reports whether a call can hand work over along a plan.
	planned() bool
	// waits answers a call that waits for a person as clients of the binding can wait,
	// or adds to the denial that they cannot. It reports whether either was done.
	waits(g *Gateway, w http.ResponseWriter, x *decided, d *a2a.Denial) bool
	// noTask is the sentence that there is no such task, "" for that of the method, and
	// resume how a stream that ended is taken up, "" for not at all.
	gone() (noTask, resume string)
}

// addressing is where the parts of a call are.
type addressing interface {
	// below is what the binding has below the agent's URL, for proofs.
	below(x *decoded) string
	// behind is the URL of the call at an interface that the agent's card names.
	behind(x *decoded, at a2a.Interface) (*url.URL, error)
	// unnamed reports whether a method that only configuration knows has no parameters
	// with names, so that its tenant cannot be told.
	unnamed(x *decoded) bool
	// hasID reports whether the id of a request is in its body.
	hasID() bool
	// mirrors reports whether a header repeats a part of the body.
	mirrors(x *decoded, header string) bool
}

// bindingOf returns the type that a binding is here.
func bindingOf(b a2a.Binding) binding {
	switch b {
	case a2a.HTTPJSON:
		return httpJSON{}
	case a2a.GRPC:
		return overGRPC{}
	case a2a.MCP:
		return overMCP{}
	default:
		return jsonRPC{}
	}
}

// by is the binding of the call.
func (x *decoded) by() binding { return bindingOf(x.call.Binding) }

// ofA2A is what the three bindings of A2A have in common.
type ofA2A struct{}

func (ofA2A) attempts(g *Gateway, x *decoded, tried *attempted, c *gate.Call) error {
	return g.a2aAttempts(x, tried, c)
}

func (ofA2A) compose(x *decoded) ([]byte, error) { return x.call.Body(), nil } //nolint:unparam // the others can fail

func (ofA2A) answer(g *Gateway, r *http.Response, x *forwardable) error {
	g.activate(r.Header, x.decoded)
	return g.a2aAnswer(r, x)
}

func (ofA2A) method(x *decoded) string { return x.call.Method.String() }

func (ofA2A) action(x *decoded) action.Type { return action.OfA2A(x.call.Method.String()) }

func (ofA2A) passes(x *decoded) bool { return slices.Contains(x.Methods, x.call.Wire) }

func (ofA2A) bound(x *decoded, digest string) string { return x.boundWhole(digest) }

func (ofA2A) planned() bool { return true }

func (ofA2A) waits(*Gateway, http.ResponseWriter, *decided, *a2a.Denial) bool { return false }

func (ofA2A) gone() (noTask, resume string) { return "", "subscribe to the task again" }

func (ofA2A) below(*decoded) string { return "" }

func (ofA2A) behind(_ *decoded, at a2a.Interface) (*url.URL, error) {
	u, err := url.Parse(at.URL)
	return usable(u, err)
}

func (ofA2A) unnamed(*decoded) bool { return true }

func (ofA2A) hasID() bool { return false }

func (ofA2A) mirrors(*decoded, string) bool { return false }

// jsonRPC is JSON-RPC 2.0 over HTTP.
type jsonRPC struct{ ofA2A }

func (jsonRPC) decode(x *decoded, limits powerbox.Limits) {
	x.call, x.wrong = a2a.Decode(x.body, header(x.request), limits)
}

func (jsonRPC) say(g *Gateway, w http.ResponseWriter, x *decoded, d a2a.Denial) {
	g.sayJSONRPC(w, x, d)
}

func (jsonRPC) unnamed(x *decoded) bool {
	kind := x.call.Params.Kind()
	return kind != powerbox.KindObject && kind != powerbox.KindNull
}

func (jsonRPC) hasID() bool { return true }

// httpJSON is HTTP+JSON.
type httpJSON struct{ ofA2A }

func (httpJSON) decode(x *decoded, limits powerbox.Limits) {
	r := x.request
	x.call, x.wrong = a2a.DecodeHTTP(a2a.HTTPRequest{Method: r.Method, Path: x.path, Query: r.URL.RawQuery, Body: x.body}, header(r), limits)
}

func (httpJSON) say(g *Gateway, w http.ResponseWriter, x *decoded, d a2a.Denial) {
	// Of a task that is not there SDKs tell in the stream.
	if status, body := d.HTTP(); !x.call.Streaming || d.Code != a2a.CodeTaskNotFound {
		g.write(w, status, typeJSON, body)
	} else {
		g.write(w, http.StatusOK, typeEvents, d.Event(a2a.HTTPJSON, nil))
	}
}

func (httpJSON) below(x *decoded) string {
	if q := x.request.URL.RawQuery; q != "" {
		return x.path + "?" + q
	}
	return x.path
}

func (httpJSON) behind(x *decoded, at a2a.Interface) (*url.URL, error) {
	base, own, _ := strings.Cut(at.URL, "?")
	u, err := url.Parse(strings.TrimSuffix(base, "/") + x.pathBehind())
	if err == nil {
		u.RawQuery = own
	}
	return usable(u, err)
}

// overGRPC is gRPC.
type overGRPC struct{ ofA2A }

func (overGRPC) decode(x *decoded, limits powerbox.Limits) {
	message, err := a2apb.Unframe(x.body)
	x.proof = message
	if x.call, x.wrong = a2apb.Decode(x.request.URL.Path, message, header(x.request), limits); err != nil {
		x.wrong = &a2a.Error{Code: a2a.CodeParse, Reason: a2a.ReasonSyntax, Message: err.Error()}
	}
}

func (overGRPC) compose(x *decoded) ([]byte, error) {
	message, err := a2apb.WithoutCredentials(x.call.Wire, x.call.Written.Body, x.call.Members)
	if err != nil {
		return nil, err
	}
	return a2apb.Frame(message), nil
}

func (overGRPC) answer(g *Gateway, r *http.Response, x *forwardable) error {
	g.activate(r.Header, x.decoded)
	return g.grpcAnswer(r, x)
}

func (overGRPC) say(g *Gateway, w http.ResponseWriter, x *decoded, d a2a.Denial) {
	if err := a2apb.SetStatus(w.Header(), d.GRPC()); err != nil {
		g.config.Log.ErrorContext(x.request.Context(), "a denial was said without its details", "error", err)
		w.Header().Set("Grpc-Status", "7")
	}
	g.write(w, http.StatusOK, typeGRPC, nil)
}

func (overGRPC) below(x *decoded) string { return x.request.URL.Path }

func (overGRPC) behind(x *decoded, at a2a.Interface) (*url.URL, error) {
	u, err := grpcURL(at.URL, x.GRPCUpstream, x.Encrypted)
	if err == nil {
		u.Path = x.request.URL.Path
	}
	return u, err
}

// overMCP is MCP over Streamable HTTP.
type overMCP struct{}

func (overMCP) unspoken(*decoded) *a2a.Error { return nil }

func (overMCP) bound(x *decoded, digest string) string {
	if s := x.Skills[x.mcp.Tool]; x.mcp.IsTool() && (s.Approval || s.Flow.Sink.Asks()) {
		return x.boundTool()
	}
	return x.boundWhole(digest)
}

func (overMCP) planned() bool { return false }

func (overMCP) waits(g *Gateway, w http.ResponseWriter, x *decided, d *a2a.Denial) bool {
	if g.elicits(x) {
		g.elicit(w, x, g.send)
		return true
	}
	d.Fix = "no person was asked: this client cannot open the page of the approval (MCP elicitation, mode url), so its call cannot wait. Use a client that can, or have the operator leave the tool to a person as a capability: a policy with @approval"
	g.deny(w, denied(x), *d)
	return true
}

func (overMCP) gone() (noTask, resume string) { return "session not found; initialize again", "" }

func (overMCP) below(*decoded) string { return "" }

func (overMCP) behind(x *decoded, at a2a.Interface) (*url.URL, error) {
	return ofA2A{}.behind(x, at)
}

func (overMCP) unnamed(*decoded) bool { return false }

func (overMCP) hasID() bool { return true }

func (overMCP) mirrors(x *decoded, header string) bool {
	return x.mcp.Stateless() && strings.HasPrefix(header, mcpParam)
}

func (overMCP) decode(x *decoded, limits powerbox.Limits) {
	x.call, x.wrong = x.decodeMCP(limits)
}

func (overMCP) attempts(g *Gateway, x *decoded, tried *attempted, c *gate.Call) error {
	return g.mcpAttempts(x, tried, c)
}

func (overMCP) compose(x *decoded) ([]byte, error) { return x.mcp.Body(), nil }

func (overMCP) answer(g *Gateway, r *http.Response, x *forwardable) error { return g.mcpAnswer(r, x) }

func (overMCP) say(g *Gateway, w http.ResponseWriter, x *decoded, d a2a.Denial) { g.sayMCP(w, x, d) }

func (overMCP) method(x *decoded) string { return x.mcpLabel() }

func (overMCP) action(x *decoded) action.Type { return action.OfMCP(x.mcpLabel()) }

func (overMCP) changes(x *decoded, tried *attempted) bool { return x.mcpWrites(tried) }

func (overMCP) wholly(x *decoded) string { return grantOf(x.Skills[x.mcp.Tool]) }

func (overMCP) passes(x *decoded) bool { return x.knownToMCP() }
