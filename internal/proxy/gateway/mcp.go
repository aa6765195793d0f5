package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/hop"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
	"github.com/powerbox-project/powerbox/trust"
)

// MCP says how an MCP server is protected (GATE-9). Its tools are the agent's
// skills, by their names.
type MCP struct {
	Methods  map[string]powerbox.Operation // what other methods need; one that is not here is refused
	Requests []string                      // methods that the server may call at its clients; none where empty
}

// mcpVersion is the revision in the card of an MCP server: it says where capabilities
// are asked for, and server/discover which revisions the server has.
const mcpVersion = mcp.LatestWithSessions

// sessionPrefix begins the context of a call in a session, on record.
const sessionPrefix = "mcp-session:"

// session is the one that a call of MCP is in, false where it is in none.
func (x *decoded) session() (string, bool) {
	if x.binding != a2a.MCP {
		return "", false
	}
	return strings.CutPrefix(x.call.Context, sessionPrefix)
}

// maxSession is the length of the longest id of a session, in bytes.
const maxSession = 256

const (
	// refusalTime bounds the answer to a request of a server that is not passed on,
	// and maxRefusals how many of one server are under way.
	refusalTime = 10 * time.Second
	maxRefusals = 16
)

// The reasons that are about MCP alone.
const (
	codeToolUnmapped   = "skill_unmapped"
	codeMethodUnmapped = "method_unmapped"
	codeServerRequest  = "server_request_not_allowed"
)

// mcpView is what an MCP server is to the rest of the gateway: an agent whose
// skills are the tools that configuration maps. Nothing is asked of the server.
func (a *agent) mcpView() (*view, error) {
	type skill struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
	}
	skills := []skill{}
	for _, name := range slices.Sorted(maps.Keys(a.Skills)) {
		skills = append(skills, skill{name, name, "The MCP tool " + name + ".", []string{"mcp"}})
	}
	at, about := a.Upstream, "An MCP server, spoken to by Streamable HTTP."
	if a.Local {
		at, about = a.URL, "Inside a program, which asks before it acts. Capabilities are issued here; nothing else is answered."
	}
	raw, err := json.Marshal(map[string]any{
		"name": a.ID, "description": about, "version": mcpVersion,
		"supportedInterfaces": []map[string]string{{"url": at, "protocolBinding": a2a.MCP.String(), "protocolVersion": mcpVersion}},
		"capabilities":        map[string]any{}, "defaultInputModes": []string{typeJSON}, "defaultOutputModes": []string{typeJSON},
		"skills": skills,
	})
	if err != nil {
		return nil, err
	}
	card, err := a2a.ReadCard(raw)
	if err != nil {
		return nil, err
	}
	v := &view{raw: raw, card: card}
	v.target, err = a.target(card)
	return v, err
}

// mcpClauses are the operations of the methods that configuration maps.
func (a *agent) mcpClauses() []powerbox.Clause {
	if a.MCP == nil {
		return nil
	}
	var clauses []powerbox.Clause
	for _, name := range slices.Sorted(maps.Keys(a.MCP.Methods)) {
		op := a.MCP.Methods[name]
		if !slices.ContainsFunc(clauses, func(c powerbox.Clause) bool { return c.Pattern.Matches(op) }) {
			clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
		}
	}
	return clauses
}

// decodeMCP reads what an MCP client sends. GET asks for the server's events, and
// DELETE ends the session. The methods that issue capabilities are taken at the
// same URL.
func (x *decoded) decodeMCP(limits powerbox.Limits) (a2a.Call, *a2a.Error) {
	call := a2a.Call{Binding: a2a.MCP, Wire: x.request.Method, Params: powerbox.Object()}
	if x.Local {
		return x.decodeIssuing(limits)
	}
	sessions := x.request.Header.Values(mcp.HeaderSession)
	if len(sessions) > 1 || len(sessions) == 1 && !isSession(sessions[0]) {
		return call, &a2a.Error{Code: a2a.CodeInvalidRequest, Reason: a2a.ReasonEnvelope, Message: "the header " + mcp.HeaderSession + " is there twice, longer than 256 bytes, or not visible ASCII"}
	}
	if len(sessions) == 1 {
		call.Context = sessionPrefix + sessions[0]
	}
	var room [64]byte
	compared := func(header string) string { return string(folded(room[:0], header)) }
	if x.request.Method != http.MethodPost {
		if call.Streaming = x.request.Method == http.MethodGet; call.Streaming {
			x.mcp.ID, x.lastEvent = x.gateway.resumed(x.ID, call.Context, x.request.Header)
		}
		wrong := x.mcp.CheckHeaders(x.request.Header, compared)
		if wrong == nil && x.mcp.Stateless() {
			wrong = &a2a.Error{Code: a2a.CodeMethodNotFound, Reason: a2a.ReasonMethod, Message: "revision " + mcp.Stateless + " has no " + x.request.Method + "; send a request by POST, subscriptions/listen for events"}
		}
		return call, wrong
	}
	m, wrong := mcp.Decode(x.body, limits)
	if wrong == nil {
		wrong = m.CheckHeaders(x.request.Header, compared)
	}
	if wrong == nil && strings.HasPrefix(m.Method, "a2a/") {
		return x.decodeIssuing(limits)
	}
	x.mcp, call.ID, call.Wire = m, m.ID, m.Method
	return call, wrong
}

// decodeIssuing reads a method of the extension at the URL of an MCP server.
func (x *decoded) decodeIssuing(limits powerbox.Limits) (a2a.Call, *a2a.Error) {
	call, wrong := a2a.Decode(x.body, header(x.request), limits)
	if slices.Contains([]a2a.Method{a2a.CapabilitiesRequest, a2a.CapabilitiesAttenuate, a2a.CapabilitiesRevoke, a2a.CapabilitiesList}, call.Method) {
		return call, wrong
	}
	return a2a.Call{Binding: a2a.MCP, Wire: call.Wire, ID: call.ID, Params: powerbox.Object()}, a2a.MethodNotFound(a2a.MCP, call.Wire)
}

func isSession(id string) bool {
	return id != "" && len(id) <= maxSession && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// mcpAttempts works out what a message of an MCP client tries: the operation of
// its tool or method with its arguments, and the right to talk to the server.
func (g *Gateway) mcpAttempts(x *decoded, tried *attempted, c *gate.Call) error {
	refuse := func(code, message string) error {
		c.Refused = append(c.Refused, evidence.Reason{Code: code, Message: message})
		return nil
	}
	switch m := x.mcp; {
	case m.Answers && len(x.MCP.Requests) == 0:
		return refuse(codeServerRequest, "answers to the server, whose requests do not get through here")
	case m.Listens():
		if ok, err := x.tryListening(g, tried, c); !ok || err != nil {
			return err
		}
	case m.IsTool():
		mapped, ok := x.Skills[m.Tool]
		if !ok {
			return refuse(codeToolUnmapped, fmt.Sprintf("tool %.64q maps to no operation here", m.Tool))
		}
		tried.named, tried.mapped, tried.isNamed = a2a.Named{Skill: m.Tool, Arguments: m.Arguments}, mapped, true
		if ok, err := g.tryArguments(x, tried, c); !ok || err != nil {
			return err
		}
	case m.IsRuled():
		op, ok := x.MCP.Methods[m.Method]
		if !ok {
			return refuse(codeMethodUnmapped, "method "+m.Method+" maps to no operation here")
		}
		tried.mapped = Skill{Operation: op, Shape: powerbox.AnyArguments()}
		tried.named = a2a.Named{Arguments: m.Arguments}
		if ok, err := g.tryArguments(x, tried, c); !ok || err != nil {
			return err
		}
	case m.Kind == mcp.Response && len(x.MCP.Requests) == 0:
		return refuse(codeServerRequest, "a response to the server, whose requests do not get through here")
	case slices.Contains(x.Methods, m.Method):
		// Only configuration knows it: it needs what free text needs.
		c.Attempts, c.Free.Any = append(c.Attempts, powerbox.Admission(x.Required...)), true
	}
	return try(c, reserved[a2a.OperationMessage], powerbox.Object())
}

// tryArguments tries the operation that was found with the arguments that came.
// It reports false where they cannot be decided on.
func (g *Gateway) tryArguments(x *decoded, tried *attempted, c *gate.Call) (bool, error) {
	arguments := tried.named.Arguments
	c.Handle, c.Record.Details.Arguments = tried.mapped.Handle, g.config.Redact(arguments)
	if err := x.keep(c, tried.mapped.Operation, arguments); err != nil {
		return false, err
	}
	return true, try(c, tried.mapped.Operation, arguments)
}

// knownToMCP reports whether a message is one that something is decided about.
func (x *decoded) knownToMCP() bool {
	return x.request.Method != http.MethodPost || x.mcp.Kind == mcp.Response || x.mcp.IsKnown() ||
		slices.Contains(x.Methods, x.mcp.Method)
}

// mcpLabel is the message's method as it is counted and recorded.
func (x *decoded) mcpLabel() string {
	switch {
	case x.request.Method != http.MethodPost:
		return x.request.Method
	case x.mcp.Kind == mcp.Response:
		return "response"
	default:
		return mcp.Known(x.mcp.Method)
	}
}

// mcpWrites reports whether the message may have changed something: a tool that is
// not known to read, and unknown methods.
func (x *decoded) mcpWrites(tried *attempted) bool {
	switch {
	case tried.isNamed:
		return tried.mapped.Write
	case x.mcp.IsTool():
		return true
	default:
		return !x.knownToMCP() || slices.Contains(x.Methods, x.mcp.Method)
	}
}

// mcpAnswer looks at the answer of an MCP server before it continues.
func (g *Gateway) mcpAnswer(r *http.Response, x *forwardable) error {
	if err := g.bindSession(r, x); err != nil {
		return err
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == typeEvents {
		if x.mode == gate.Observe {
			r.Body = g.stream(r, x.decided)
			return nil
		}
		var events *mcp.Events
		events = mcp.NewEvents(r.Body, maxAnswer, func(data []byte) ([]byte, bool, error) {
			if !events.IsMessage() {
				return nil, false, nil
			}
			instead, pass, err := g.mcpEvent(r, x, data)
			x.learned.unfit = err
			return instead, pass, err
		})
		if x.mcp.IsRequest() && !x.mcp.Stateless() {
			events.Rename(func(id []byte) string { return g.resumable(x.decoded, r.Header, id) })
		}
		r.Body = events
		r.Body = g.receiptedStream(g.stream(r, x.decided))
		return nil
	}
	body, err := whole(r)
	if err != nil {
		return err
	}
	if judged(r, body) {
		instead, pass, err := g.mcpEvent(r, x, body)
		switch {
		case err != nil:
			return err
		case !pass:
			return errors.New("the answer is a request of the server, or a response to another request")
		case instead != nil:
			body = instead
		}
		x.asReadWhole(r, body)
	}
	became := mcpOutcome(r, x.waits(), body)
	if x.learned.refusedAsk {
		became = notTheAgent(evidence.Partial)
	}
	if became.status == evidence.Achieved {
		if err := g.earn(x.decided, body); err != nil {
			return err
		}
	}
	done, err := g.finish(x, became)
	if err != nil {
		return err
	}
	if became.status == evidence.Achieved {
		body = g.receipted(done, r.Header, body)
	}
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	done.body(r, body)
	return nil
}

// bindSession makes a session that the server begins the caller's, before the
// caller knows of it.
func (g *Gateway) bindSession(r *http.Response, x *forwardable) error {
	ids := r.Header.Values(mcp.HeaderSession)
	if len(ids) == 0 {
		return nil
	}
	if len(ids) > 1 || !isSession(ids[0]) {
		return errors.New("the server names no session that can be told from others")
	}
	if sessionPrefix+ids[0] == x.call.Context {
		return nil
	}
	mine := g.ownerOf(x.decoded, x.verdict.Held)
	first, err := g.config.Tasks.Bind(x.request.Context(), x.ID, "", sessionNamed(ids[0]).key(), mine)
	if err == nil && first != mine && x.mode != gate.Observe {
		err = errors.New("the server answered with a session that belongs to another caller")
	}
	if err == nil && x.mcp.URLs {
		_, err = g.config.Tasks.Bind(x.request.Context(), x.ID, "", reference{sendsToURLs, ids[0]}.key(), mine)
	}
	return err
}

// mcpEvent judges one message of the server: what it lists is cut to what the
// caller may ask for, and requests to the client pass where configuration lets
// them. In observe everything passes.
func (g *Gateway) mcpEvent(r *http.Response, x *forwardable, data []byte) (instead []byte, pass bool, err error) {
	if x.mode == gate.Observe || len(bytes.TrimSpace(data)) == 0 {
		return nil, true, nil
	}
	v, err := powerbox.DecodeValue(data, answerLimits)
	if err != nil {
		return nil, false, fmt.Errorf("a message of the server: %w", err)
	}
	if v.Kind() != powerbox.KindObject {
		return nil, false, errors.New("a message of the server is no object")
	}
	if r.StatusCode >= http.StatusBadRequest { // the body of a failure need not be a message
		err = oneSpelling(v, ofMessages...)
	} else {
		err = envelope(v)
	}
	if err != nil {
		return nil, false, err
	}
	id, hasID := v.Get("id")
	name, named := v.Get("method")
	if named && hasID && !x.mcp.Stateless() {
		method, _ := name.Text()
		if slices.Contains(x.MCP.Requests, method) {
			return nil, true, nil
		}
		return nil, false, g.refuseServer(r, x, id, method)
	}
	if named && hasID {
		return nil, false, errors.New("the message is a request of the server, which revision " + mcp.Stateless + " does not have")
	}
	if named {
		return nil, x.mayHear(v), nil
	}
	result, _ := v.Get("result")
	failure, _ := v.Get("error")
	if result.Kind() != powerbox.KindNull && failure.Kind() != powerbox.KindNull {
		return nil, false, errors.New("the message has a result and an error, of which readers take different ones")
	}
	// A server can say that it did not read the request, with any id.
	unread := r.StatusCode >= http.StatusBadRequest && result.Kind() == powerbox.KindNull
	mine := x.mcp.IsRequest() && string(id.AppendJSON(nil)) == string(x.mcp.ID)
	switch {
	case mine || unread || x.request.Method == http.MethodDelete:
	case x.request.Method == http.MethodGet && !x.mcp.IsRequest():
		g.config.Log.WarnContext(x.request.Context(), "a response in a stream that no request began was not passed on", "agent", x.ID, "record", x.verdict.Record.ID)
		return nil, false, nil // the stream continues: no request waits for its end
	default:
		return nil, false, errors.New("the message is a response to another request, which no decision was made about")
	}
	asked, err := x.unlisted(v)
	if err != nil {
		return nil, false, err
	}
	if len(asked) > 0 {
		return g.refuseAsking(x.decided, id, asked), true, nil
	}
	if instead, err = x.cutLists(data); err == nil && x.mcp.Stateless() {
		instead, err = private(instead, v)
	}
	return instead, err == nil, err
}

// cutLists cuts what a response lists. What comes by GET may be the answer to any
// request of before, which a client asks for again.
func (x *decided) cutLists(response []byte) ([]byte, error) {
	if x.verdict.Basis == gate.OnAmbient {
		return response, nil // whatever the server permits
	}
	lists := mcp.AllLists()
	if x.request.Method == http.MethodPost {
		lists = nil
		if list := x.mcp.Lists(); list != nil {
			lists = append(lists, *list)
		}
	}
	for _, list := range lists {
		var err error
		if response, err = a2a.FilterNamed(response, list.Member, list.Name, x.mayAsk(list)); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// mayAsk tells what of a list the caller may ask for under what its call continues
// under.
func (x *decided) mayAsk(list mcp.List) func(string) bool {
	all := x.effective()
	holds := func(op powerbox.Operation) bool {
		return slices.ContainsFunc(all, func(under powerbox.Authority) bool { _, ok := under.Shape(op); return ok })
	}
	if list.By == "tools/call" {
		return func(name string) bool { s, ok := x.Skills[name]; return ok && holds(s.Operation) }
	}
	op, ok := x.MCP.Methods[list.By]
	if !ok || !holds(op) {
		return func(string) bool { return false }
	}
	if list.Name != "uri" {
		return func(string) bool { return true }
	}
	return func(uri string) bool { return x.permitsURI(list.By, uri) }
}

// refuseServer answers a request of the server that does not get through, so that
// it does not wait for an answer of the client, who never hears of it.
func (g *Gateway) refuseServer(r *http.Response, x *forwardable, id powerbox.Value, method string) error {
	if x.carries != nil {
		return errors.New("the server asks its client for something that no configuration allows, and a proxy that asks for decisions cannot tell it so")
	}
	ctx := x.request.Context()
	g.config.Log.WarnContext(ctx, "a request of an MCP server was not passed on", "agent", x.ID, "method", mcp.Known(method), "record", x.verdict.Record.ID)
	answer := powerbox.Object(
		powerbox.Member{Name: "jsonrpc", Value: powerbox.String("2.0")},
		powerbox.Member{Name: "id", Value: id},
		powerbox.Member{Name: "error", Value: powerbox.Object(
			powerbox.Member{Name: "code", Value: number(a2a.CodeUnauthorized)},
			powerbox.Member{Name: "message", Value: powerbox.String("this client takes no requests of that method; agents.mcp.server_requests of its gateway can list it")},
		)},
	).AppendJSON(nil)
	again := r.Request.Clone(context.WithoutCancel(ctx))
	again.Method = http.MethodPost
	hop.Onward(again, answer, false)
	again.Header.Set("Content-Type", typeJSON)
	again.Header.Set("Accept", typeJSON+", "+typeEvents)
	again.Header.Del(HeaderContext) // of the request that is answered
	if err := g.sign(again.Header, x.decided, nil, answer); err != nil {
		return err
	}
	again.Header.Del("Last-Event-Id")
	if id := r.Header.Get(mcp.HeaderSession); id != "" {
		again.Header.Set(mcp.HeaderSession, id)
	}
	select {
	case x.refusals <- struct{}{}:
	default:
		return errors.New("the server asks its clients more often than it can be told that they take no such requests")
	}
	// The server may answer when it has gone on, which needs this stream.
	go func() {
		defer func() { <-x.refusals }()
		ctx, cancel := context.WithTimeout(again.Context(), refusalTime)
		defer cancel()
		answered, err := g.transport(x).RoundTrip(again.WithContext(ctx))
		if err != nil {
			g.config.Log.WarnContext(ctx, "a request of an MCP server was not answered", "agent", x.ID, "error", err)
			return
		}
		_ = answered.Body.Close() // nothing in it is for anybody
	}()
	return nil
}

func number(n int) powerbox.Value {
	d, err := powerbox.ParseDecimal(strconv.Itoa(n))
	if err != nil {
		panic("gateway: an integer is a decimal: " + err.Error())
	}
	return powerbox.Number(d)
}

// waits reports whether a message is a request, which has a response.
func (x *decoded) waits() bool {
	return x.request.Method == http.MethodPost && x.mcp.Kind == mcp.Request
}

// mcpOutcome is what an answer in one piece says.
func mcpOutcome(r *http.Response, waits bool, body []byte) outcome {
	if r.StatusCode >= http.StatusBadRequest {
		return failed(refusedInput(r.StatusCode))
	}
	if len(body) == 0 && waits {
		return failed(false) // clients wait for a response, or fail
	}
	return mcpResult(body)
}

// mcpResult is what a response says: an error of the protocol, or a tool that
// failed (isError).
func mcpResult(payload []byte) outcome {
	if code, wrong := a2a.ErrorCode(payload); wrong {
		return failed(aboutInput(code))
	}
	v, err := powerbox.DecodeValue(payload, answerLimits)
	if err == nil {
		result, _ := v.Get("result")
		if wrong, _ := result.Get("isError"); wrong.Equal(powerbox.Bool(true)) {
			return failed(false)
		}
		if kind, _ := result.Get(memberKind); kind.Equal(powerbox.String("input_required")) {
			return outcome{status: evidence.Partial, cause: trust.CauseInput} // it continues with the client's answer
		}
	}
	return outcome{status: evidence.Achieved}
}

// sayMCP writes a denial as MCP clients read it: an error of JSON-RPC, with a status
// of HTTP that says the same where nothing waits for a response.
func (g *Gateway) sayMCP(w http.ResponseWriter, at stage, d a2a.Denial) {
	x := at.readable()
	status, body := http.StatusOK, d.JSONRPC(x.call.ID)
	switch {
	case d.Code == a2a.CodeUnauthenticated:
		status = http.StatusUnauthorized
		if w.Header().Get("WWW-Authenticate") == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
	case d.Code == a2a.CodeTaskNotFound:
		status = http.StatusNotFound // the client begins a new session
	case d.Code == mcp.CodeRevision:
		status, body = http.StatusBadRequest, mcp.Unsupported(x.call.ID, x.mcp.Revision, d.Message)
	case d.Code == a2a.CodeParse || d.Code == a2a.CodeInvalidRequest || d.Code == mcp.CodeHeaders:
		status = http.StatusBadRequest
	case d.Code == a2a.CodeMethodNotFound && x.mcp.Stateless():
		if status = http.StatusNotFound; x.request.Method != http.MethodPost {
			status = http.StatusMethodNotAllowed
			w.Header().Set("Allow", http.MethodPost)
		}
	case x.DenyStatus == http.StatusForbidden && (d.Code == 0 || d.Code == a2a.CodeUnauthorized), x.call.ID == nil:
		status = http.StatusForbidden
	}
	g.write(w, status, typeJSON, body)
}
