package holder

import (
	"bytes"
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
	err := k.begin(ctx)
	var wrong *CallError
	switch {
	case errors.As(err, &wrong) && (wrong.RPC == mcp.CodeRevision || wrong.RPC == a2a.CodeMethodNotFound):
		k.header.Set(mcp.HeaderVersion, mcp.Stateless)
		k.header.Set(mcp.HeaderMethod, "tools/call")
		k.header.Set(mcp.HeaderName, tool)
		params = append(params, powerbox.Member{Name: "_meta", Value: powerbox.Object(
			text(mcp.MetaVersion, mcp.Stateless),
			powerbox.Member{Name: mcp.MetaCapabilities, Value: powerbox.Object()},
		)})
	case err != nil:
		return nil, fmt.Errorf("holder: initialize at %s: %w", agent.URL, err)
	default:
		defer k.end(ctx)
	}
	about := aboutNothing
	if s, ok := agent.Skills[tool]; ok {
		about = proven{s.Operation.String(), arguments}
	}
	result, err := k.request(ctx, "tools/call", powerbox.Object(params...), about)
	if err != nil {
		return nil, fmt.Errorf("holder: tools/call at %s: %w", agent.URL, err)
	}
	return result, nil
}

// begin has the server begin a session, if it has any.
func (k *conversation) begin(ctx context.Context) error {
	result, err := k.request(ctx, "initialize", powerbox.Object(
		text("protocolVersion", mcp.LatestWithSessions),
		powerbox.Member{Name: "capabilities", Value: powerbox.Object()},
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
		response.Body = answerOf(response.Body, id)
	}
	return readAnswer(response)
}

// answerOf is the answer to the request of an id, out of a stream of events.
func answerOf(stream io.ReadCloser, id string) io.ReadCloser {
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
	return func(h http.Header, method string, p proven, body []byte) error {
		switch {
		case held.ScopeToken != "":
			return c.presentScopes(h, agent, held)
		case held.Chain == nil:
			h.Set(HeaderCapability, held.ID)
			return c.authorize(ctx, h, agent, method, agent.URL)
		}
		return c.present(h, agent, held.Chain, p, token.Request{Method: method, URL: agent.URL, Digest: token.DigestOf(body)})
	}
}
