package holder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
	"github.com/powerbox-project/powerbox/token"
)

// conversation is one call of a tool of an MCP server, over Streamable HTTP. The official SDK is
// not used: it decodes results and writes them again, and it is large (ADR 47).
type conversation struct {
	client  *Client
	agent   Agent
	present func(h http.Header, method string, p proven, body []byte) error
	header  http.Header // of every request, with the session and the revision once the server gave them
}

// methodElicit is the question of a server to the user of its client.
const methodElicit = "elicitation/create"

// aboutNothing is what requests prove that call no tool: the right to talk to the server.
var aboutNothing = proven{a2a.OperationMessage, powerbox.Object()}

// callTool calls a tool of an MCP server: it begins a session, calls, and ends the session.
// A server of revision 2026-07-28 alone has no sessions and is called at once.
func (c *Client) callTool(ctx context.Context, agent Agent, tool string, arguments powerbox.Value, present func(http.Header, string, proven, []byte) error) (json.RawMessage, error) {
	if err := c.reaches(); err != nil {
		return nil, err
	}
	k := &conversation{client: c, agent: agent, present: present, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}}
	params := []powerbox.Member{text("name", tool), {Name: "arguments", Value: arguments}}
	about := aboutNothing
	if s, ok := agent.Skills[tool]; ok {
		about = proven{s.Operation.String(), arguments}
	}
	err := k.begin(ctx)
	var wrong *CallError
	switch {
	case errors.As(err, &wrong) && (wrong.RPC == mcp.CodeRevision || wrong.RPC == a2a.CodeMethodNotFound):
		params = k.withoutSession(tool, params)
	case err != nil:
		return nil, fmt.Errorf("holder: initialize at %s: %w", agent.URL, err)
	default:
		defer k.end(ctx)
	}
	result, err := k.callPatiently(ctx, powerbox.Object(params...), about)
	if k.unasked(err) {
		// Nothing was executed, and the later revision sends people to pages without a session.
		k := &conversation{client: c, agent: agent, present: present, header: k.header.Clone()}
		k.header.Del(mcp.HeaderSession)
		again, wrong := k.callPatiently(ctx, powerbox.Object(k.withoutSession(tool, params)...), about)
		if wrong == nil || errors.Is(wrong, powerbox.ErrDenied) || errors.As(wrong, new(*Pending)) {
			result, err = again, wrong
		}
	}
	if err != nil {
		return nil, fmt.Errorf("holder: tools/call at %s: %w", agent.URL, err)
	}
	return result, nil
}

// codeApproval is the reason of a call that a person has to approve, and of which no person
// was asked.
const codeApproval = "approval_required"

// unasked reports a denial for want of an approval, to a client that waits for people and did
// not speak the revision that asks without a session.
func (k *conversation) unasked(err error) bool {
	var denied *Denied
	return k.client.Asked != nil && k.header.Get(mcp.HeaderVersion) != mcp.Stateless && errors.As(err, &denied) && denied.Code == codeApproval
}

// withoutSession has the conversation speak revision 2026-07-28, and returns the parameters of
// a call in it.
func (k *conversation) withoutSession(tool string, params []powerbox.Member) []powerbox.Member {
	k.header.Set(mcp.HeaderVersion, mcp.Stateless)
	k.header.Set(mcp.HeaderMethod, "tools/call")
	k.header.Set(mcp.HeaderName, tool)
	return append(params, powerbox.Member{Name: "_meta", Value: powerbox.Object(
		text(mcp.MetaVersion, mcp.Stateless),
		powerbox.Member{Name: mcp.MetaCapabilities, Value: k.client.abilities()},
	)})
}

// callPatiently calls the tool. Where a person has to approve the call and the client waits,
// it makes the same call again until the person has answered.
func (k *conversation) callPatiently(ctx context.Context, params powerbox.Value, about proven) (json.RawMessage, error) {
	var between looks
	for asked := false; ; asked = true {
		result, err := k.request(ctx, "tools/call", params, about)
		var waits *Pending
		if !errors.As(err, &waits) {
			return result, err
		}
		if !asked {
			k.client.Asked(waits)
		}
		if err := between.next(ctx, waits); err != nil {
			return nil, err
		}
	}
}

// abilities are what the client declares at an MCP server: it sends people to URLs if it
// waits for them.
func (c *Client) abilities() powerbox.Value {
	if c.Asked == nil {
		return powerbox.Object()
	}
	return powerbox.Object(powerbox.Member{Name: "elicitation", Value: powerbox.Object(powerbox.Member{Name: "url", Value: powerbox.Object()})})
}

// pageOf returns the question that a held call waits for. The gateway says itself that it
// holds a call: a page that the server sends people to is no approval.
func (k *conversation) pageOf(response *http.Response, result json.RawMessage, wrong *wireError) *Pending {
	if k.client.Asked == nil || response.Header.Get(headerOutcome) != outcomeHeld {
		return nil
	}
	// The error of revision 2025-11-25 names pages, and the result of 2026-07-28 questions.
	var said struct {
		Elicitations  []page
		InputRequests map[string]struct{ Params page }
	}
	if wrong != nil && wrong.Code == mcp.CodeElicit {
		result = wrong.Data
	}
	if json.Unmarshal(result, &said) != nil {
		return nil
	}
	for _, asked := range said.InputRequests {
		said.Elicitations = append(said.Elicitations, asked.Params)
	}
	if len(said.Elicitations) != 1 || said.Elicitations[0].URL == "" {
		return nil
	}
	at := said.Elicitations[0]
	return &Pending{ID: cmp.Or(at.ElicitationID, at.URL[strings.LastIndexByte(at.URL, '/')+1:]), ApprovalURL: at.URL, Interval: int(firstLook.Seconds())}
}

// page is where a person answers.
type page struct{ ElicitationID, URL string }

// begin has the server begin a session, if it has any.
func (k *conversation) begin(ctx context.Context) error {
	result, err := k.request(ctx, "initialize", powerbox.Object(
		text("protocolVersion", mcp.LatestWithSessions),
		powerbox.Member{Name: "capabilities", Value: k.client.abilities()},
		powerbox.Member{Name: "clientInfo", Value: powerbox.Object(text("name", "powerbox"), text("version", "1"))},
	), aboutNothing)
	if err != nil {
		return err
	}
	var chosen struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(result, &chosen); err != nil || chosen.ProtocolVersion == "" {
		return errors.New("the server chose no revision of MCP")
	}
	k.header.Set(mcp.HeaderVersion, chosen.ProtocolVersion)
	body := powerbox.Object(text("jsonrpc", "2.0"), text("method", "notifications/initialized")).AppendJSON(nil)
	response, err := k.send(ctx, http.MethodPost, body, aboutNothing)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// end ends the session. The call was answered, so an error changes nothing.
func (k *conversation) end(ctx context.Context) {
	if k.header.Get(mcp.HeaderSession) == "" {
		return
	}
	if response, err := k.send(ctx, http.MethodDelete, nil, aboutNothing); err == nil {
		_ = response.Body.Close() // it is not read
	}
}

// request sends one request and returns its result.
func (k *conversation) request(ctx context.Context, method string, params powerbox.Value, about proven) (json.RawMessage, error) {
	id, err := k.client.newID()
	if err != nil {
		return nil, err
	}
	body := powerbox.Object(
		text("jsonrpc", "2.0"), text("id", id), text("method", method), powerbox.Member{Name: "params", Value: params},
	).AppendJSON(nil)
	response, err := k.send(ctx, http.MethodPost, body, about)
	if err != nil {
		return nil, err
	}
	if s := response.Header.Get(mcp.HeaderSession); s != "" {
		k.header.Set(mcp.HeaderSession, s)
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		response.Body = answerOf(response.Body, id, func(asked json.RawMessage) { k.decline(ctx, asked) })
	}
	result, wrong, err := readEither(response)
	if waits := k.pageOf(response, result, wrong); waits != nil {
		return nil, waits
	}
	if wrong != nil {
		return nil, wrong.err()
	}
	return result, err
}

// decline answers a server that asks the user for something itself: this client opens no pages
// of servers. An error changes nothing, as the call ends anyway.
func (k *conversation) decline(ctx context.Context, id json.RawMessage) {
	asked, err := powerbox.ParseValue(id)
	if err != nil {
		return
	}
	body := powerbox.Object(text("jsonrpc", "2.0"), powerbox.Member{Name: "id", Value: asked}, powerbox.Member{Name: "result", Value: powerbox.Object(text("action", "decline"))}).AppendJSON(nil)
	if response, err := k.send(ctx, http.MethodPost, body, aboutNothing); err == nil {
		_ = response.Body.Close() // it is not read
	}
}

// answerOf is the answer to the request of an id, out of a stream of events. A question of the
// server on the way is declined.
func answerOf(stream io.ReadCloser, id string, decline func(id json.RawMessage)) io.ReadCloser {
	defer func() { _ = stream.Close() }() // it was read
	var answer []byte
	quoted := string(powerbox.String(id).AppendJSON(nil))
	events := mcp.NewEvents(stream, maxAnswer, func(data []byte) ([]byte, bool, error) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(data, &m) == nil && m.Method == "" && string(m.ID) == quoted {
			answer = bytes.Clone(data)
			return nil, false, io.EOF
		}
		if m.Method == methodElicit {
			decline(m.ID)
		}
		return nil, true, nil
	})
	_, _ = io.Copy(io.Discard, io.LimitReader(events, maxAnswer)) // without an answer, readAnswer says so
	return io.NopCloser(bytes.NewReader(answer))
}

// send sends one HTTP request of the conversation with what present puts on it.
func (k *conversation) send(ctx context.Context, verb string, body []byte, about proven) (*http.Response, error) {
	return k.client.sent(ctx, func() (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, verb, k.agent.URL, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header = k.header.Clone()
		if err := k.present(request.Header, verb, about, body); err != nil {
			return nil, err
		}
		return k.client.HTTP.Do(request)
	})
}

// showing puts a capability on the requests to an MCP server.
func (c *Client) showing(ctx context.Context, agent Agent, held Capability) func(http.Header, string, proven, []byte) error {
	return c.showingAt(ctx, agent, held, agent.URL)
}

// showingAt puts a capability on the requests to a URL of an agent, in headers alone.
func (c *Client) showingAt(ctx context.Context, agent Agent, held Capability, target string) func(http.Header, string, proven, []byte) error {
	return func(h http.Header, method string, p proven, body []byte) error {
		switch {
		case held.ScopeToken != "":
			return c.presentScopes(h, agent, held)
		case held.Chain == nil:
			h.Set(HeaderCapability, held.ID)
			return c.authorize(ctx, h, agent, method, target)
		}
		return c.present(h, agent, held.Chain, p, token.Request{Method: method, URL: target, Digest: token.DigestOf(body)})
	}
}
