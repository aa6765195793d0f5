package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// Revision 2026-07-28 of MCP has no sessions and no requests of the server: a result
// asks the client, who calls again with the answers; changes are told in the answer to
// subscriptions/listen; and results say who may keep them.

// tryListening tries the operation of a subscription for every resource that the caller
// wants to be told of. It reports false where there is no such operation.
func (x *decoded) tryListening(g *Gateway, tried *attempted, c *gate.Call) (bool, error) {
	if len(x.mcp.Resources) == 0 {
		return true, nil
	}
	op, ok := x.MCP.Methods[mcp.Subscribe]
	if !ok {
		c.Refused = append(c.Refused, evidence.Reason{Code: codeMethodUnmapped, Message: "method " + mcp.Subscribe + " maps to no operation here, which resourceSubscriptions need"})
		return false, nil
	}
	var uris []powerbox.Value
	for _, uri := range x.mcp.Resources {
		uris = append(uris, powerbox.String(uri))
		if err := try(c, op, aboutURI(uri)); err != nil {
			return false, err
		}
	}
	tried.mapped = Skill{Operation: op, Shape: powerbox.AnyArguments()}
	all := powerbox.Object(powerbox.Member{Name: "resourceSubscriptions", Value: powerbox.List(uris...)})
	c.Record.Details.Arguments = g.config.Redact(all)
	return true, x.keep(c, op, all)
}

// aboutURI are the arguments of an operation on a resource.
func aboutURI(uri string) powerbox.Value {
	return powerbox.Object(powerbox.Member{Name: "uri", Value: powerbox.String(uri)})
}

// permitsURI reports whether what the call continues under permits a method's operation
// on a resource.
func (x *decided) permitsURI(method, uri string) bool {
	op, ok := x.MCP.Methods[method]
	if !ok {
		return false
	}
	attempt, err := powerbox.Invocation(op, aboutURI(uri))
	return err == nil && slices.ContainsFunc(x.effective(), func(under powerbox.Authority) bool {
		return powerbox.Decide(attempt, under, x.gateway.config.Now()).Allowed
	})
}

// mayHear reports whether a notification of the server gets through. One about a
// resource may be about a part of the requested one, so that it is decided on by its
// own URI.
func (x *decided) mayHear(notification powerbox.Value) bool {
	name, _ := notification.Get("method")
	if !x.mcp.Stateless() || x.verdict.Basis == gate.OnAmbient || !name.Equal(powerbox.String("notifications/resources/updated")) {
		return true
	}
	params, _ := notification.Get("params")
	uri, _ := params.Get("uri")
	text, ok := uri.Text()
	return ok && x.permitsURI(mcp.Subscribe, text)
}

// The members of a result by which it asks something of the client.
const (
	memberAsks = "inputRequests"
	memberKind = "resultType"
)

// unlisted are the methods that a response calls at the client and that configuration
// does not let through. Clients go by the requests, whatever kind of result they are
// told. An error means that the response must not be passed on.
func (x *decoded) unlisted(response powerbox.Value) ([]string, error) {
	wrong, _ := response.Get("error")
	if code, _ := wrong.Get("code"); code.Equal(number(mcp.CodeElicit)) && !slices.Contains(x.MCP.Requests, "elicitation/create") {
		return []string{"elicitation/create"}, nil
	}
	result, _ := response.Get("result")
	if err := oneSpelling(result, memberAsks, memberKind); err != nil {
		return nil, err
	}
	kind, said := result.Get(memberKind)
	asks, asking := result.Get(memberAsks)
	asking = asking && asks.Kind() != powerbox.KindNull
	switch required := kind.Equal(powerbox.String("input_required")); {
	case said && !required && !kind.Equal(powerbox.String("complete")):
		return nil, errors.New("the result is of a kind that is not read here, such as a task")
	case (required || asking) && !x.mcp.MayAsk():
		return nil, errors.New("the result asks something of the client, which the answer to this request cannot")
	case !asking:
		return nil, nil
	}
	members, ok := asks.Members()
	if !ok {
		return nil, errors.New("inputRequests is no object")
	}
	var refused []string
	for _, member := range members {
		name, _ := member.Value.Get("method")
		if method, _ := name.Text(); !slices.Contains(x.MCP.Requests, method) || oneSpelling(member.Value, "method") != nil {
			refused = append(refused, method)
		}
	}
	return refused, nil
}

// ofMessages are the members of messages in JSON-RPC 2.0.
var ofMessages = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// envelope returns why some readers take a message of the server for none, or for another
// one. Strict readers drop a message with any other member, so its caller would wait while
// the record says achieved.
func envelope(v powerbox.Value) error {
	members, _ := v.Members()
	for _, member := range members {
		if !slices.Contains(ofMessages, member.Name) {
			return fmt.Errorf("a message of the server has a member %.64q; want %s alone", member.Name, strings.Join(ofMessages, ", "))
		}
	}
	version, _ := v.Get("jsonrpc")
	if text, _ := version.Text(); text != "2.0" {
		return errors.New("a message of the server has no jsonrpc of 2.0")
	}
	_, named := v.Get("method")
	_, failed := v.Get("error")
	result, answered := v.Get("result")
	switch {
	case named && (answered || failed):
		return errors.New("a message of the server has a method beside a result or an error")
	case answered && result.Kind() != powerbox.KindObject && (result.Kind() != powerbox.KindNull || !failed):
		return errors.New("a message of the server has a result that is no object")
	}
	return nil
}

// oneSpelling refuses members that a careless reader takes for one of these.
func oneSpelling(v powerbox.Value, names ...string) error {
	members, _ := v.Members()
	for _, member := range members {
		for _, name := range names {
			if member.Name != name && strings.EqualFold(member.Name, name) {
				return fmt.Errorf("a message of the server has a member %.64q, which readers may take for %s", member.Name, name)
			}
		}
	}
	return nil
}

// refuseAsking is the response that the client gets instead of one that asks of it
// what configuration does not let through. The client could not answer in part.
func (g *Gateway) refuseAsking(x *decided, id powerbox.Value, asked []string) []byte {
	method := mcp.Known(asked[0])
	for _, name := range mcp.ServerRequests {
		if name == asked[0] {
			method = name
		}
	}
	ctx := x.request.Context()
	g.config.Log.WarnContext(ctx, "a request of an MCP server was not passed on", "agent", x.ID, "method", method, "record", x.verdict.Record.ID)
	x.learned.refusedAsk = true
	return a2a.Denial{
		Reason: codeServerRequest, DecisionID: x.verdict.Record.ID, At: g.config.Now(),
		Message: "the server wants to ask " + method + " of this client before it goes on, which is not let through here; agents.mcp.server_requests of its gateway can list it",
	}.JSONRPC(id.AppendJSON(nil))
}

// private lets only the caller keep a result: its contents were decided for the
// caller, and a cache between would show it to others, or theirs to the caller.
func private(response []byte, v powerbox.Value) ([]byte, error) {
	result, _ := v.Get("result")
	if err := oneSpelling(result, "cacheScope", "ttlMs"); err != nil {
		return nil, err
	}
	_, lives := result.Get("ttlMs")
	scope, said := result.Get("cacheScope")
	if !lives && !said || scope.Equal(powerbox.String("private")) {
		return response, nil
	}
	return a2a.SetInResult(response, "cacheScope", []byte(`"private"`))
}

// judged reports whether the body of an answer is looked at: one that says that
// something failed may be no message, and clients take messages from it, too, behind a
// mark of byte order as well.
func judged(r *http.Response, body []byte) bool {
	if r.StatusCode < http.StatusBadRequest {
		return len(body) > 0
	}
	text := bytes.TrimLeft(body, " \t\r\n\uFEFF")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// cancelled answers a client that says a request is cancelled, which in a revision
// without sessions the end of its connection has said already: whose request an id
// names, the server could not tell.
func (g *Gateway) cancelled(w http.ResponseWriter, x *decided) bool {
	if x.call.Binding != a2a.MCP || !x.mcp.Stateless() || x.mcp.Kind != mcp.Notification || x.mode == gate.Observe {
		return false
	}
	g.conclude(w, x, outcome{status: evidence.Achieved}, func(x *concluded) {
		w.Header().Set(HeaderDecision, x.verdict.Record.ID)
		w.WriteHeader(http.StatusAccepted)
	})
	return true
}

// named is the request of an exchange, with the client that it counts for and whose it is:
// a server that is a command runs for one caller alone.
func (g *Gateway) named(x *decided) *http.Request {
	if x.call.Binding != a2a.MCP {
		return x.request
	}
	ctx := mcp.WithClient(x.request.Context(), limited(x.caller, x.request))
	if !x.mcp.Stateless() {
		return x.request.WithContext(ctx)
	}
	caller := ""
	if o := g.ownerOf(x.decoded, x.verdict.Held); o != (Owner{}) {
		caller = strings.Join([]string{o.Root, o.Principal, o.Holder}, "\x00")
	}
	return x.request.WithContext(mcp.WithCaller(ctx, caller))
}
