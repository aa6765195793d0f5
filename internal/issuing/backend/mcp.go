package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// MCP is one tool of an MCP server over streamable HTTP. Each call has a session of
// its own: two users are never in one, and the context that says who calls is that of
// the very call.
type MCP struct {
	HTTP
	URL   string
	Tool  string
	Token string // bearer token of the server, "" for none
	// Streams says that what the tool tells of its progress is passed on, and its
	// answer as the last event.
	Streams bool
}

// Execute implements [provider.Backend].
func (m MCP) Execute(ctx context.Context, e provider.Execution) (provider.Result, error) {
	if m.Streams {
		return m.open(ctx, e)
	}
	ctx, cancel := context.WithTimeout(ctx, max(m.Time, time.Second))
	defer cancel()
	session, err := Session(ctx, m.URL, m.client(e), m.Limit, nil)
	if err != nil {
		return provider.Result{}, err
	}
	defer func() { _ = session.Close() }() // it was answered; the server ends it in time
	return m.call(ctx, session, e, nil)
}

func (m MCP) client(e provider.Execution) *http.Client {
	return &http.Client{Transport: signing{m, e}, CheckRedirect: m.Client.CheckRedirect}
}

// call calls the tool. A progress token asks to be told how far it has come.
func (m MCP) call(ctx context.Context, session *mcp.ClientSession, e provider.Execution, progress any) (provider.Result, error) {
	params := &mcp.CallToolParams{Name: m.Tool, Arguments: json.RawMessage(e.Arguments.AppendJSON(nil))}
	if progress != nil {
		params.SetProgressToken(progress)
	}
	out, err := session.CallTool(ctx, params)
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams:
		return provider.Result{Failed: agentauth.Errorf(agentauth.CodeInvalidRequest, "the tool: %s", clipped(refused.Message))}, nil
	case err != nil:
		return provider.Result{}, fmt.Errorf("backend: %w", err)
	case out.IsError:
		return provider.Result{Failed: agentauth.Errorf(agentauth.CodeInvalidRequest, "the tool: %s", clipped(textOf(out.Content)))}, nil
	}
	v, err := said(out)
	return provider.Result{Data: v, HasData: true}, err
}

// Poll implements [provider.Backend]. Nothing here continues behind.
func (m MCP) Poll(context.Context, provider.Execution, string) (provider.Result, error) {
	return provider.Result{}, errors.New("backend: a tool has no jobs")
}

// Session begins a session with an MCP server over streamable HTTP that can ask
// nothing of us: no sampling, no roots, no elicitation. An event has limit bytes at
// most. Progress is told how far calls have come, or nil.
func Session(ctx context.Context, url string, client *http.Client, limit int64, progress func(*mcp.ProgressNotificationParams)) (*mcp.ClientSession, error) {
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if progress != nil {
		options.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress(r.Params) }
	}
	own := mcp.NewClient(&mcp.Implementation{Name: "powerbox", Version: "1"}, options)
	session, err := own.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: int(limit),
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("backend: the MCP server at %s: %w", url, err)
	}
	return session, nil
}

// said reads a tool's answer. If the answer is one text of JSON, it is that JSON, so that numbers
// stay exact. Otherwise it is the structured content, or the texts.
func said(out *mcp.CallToolResult) (powerbox.Value, error) {
	text := textOf(out.Content)
	v, err := powerbox.ParseValue([]byte(text))
	if len(out.Content) == 1 && err == nil && (v.Kind() == powerbox.KindObject || v.Kind() == powerbox.KindList) {
		return v, nil
	}
	if out.StructuredContent == nil {
		return powerbox.String(text), nil
	}
	data, err := json.Marshal(out.StructuredContent)
	if err != nil {
		return powerbox.Value{}, fmt.Errorf("backend: structured content: %w", err)
	}
	return powerbox.ParseValue(data)
}

func textOf(content []mcp.Content) string {
	out := ""
	for _, c := range content {
		t, ok := c.(*mcp.TextContent)
		if !ok {
			continue
		}
		if out != "" {
			out += "\n"
		}
		out += t.Text
	}
	return out
}

// signing adds to each request who calls, for its very bytes, and holds answers to
// the limit.
type signing struct {
	m MCP
	e provider.Execution
}

// RoundTrip implements [http.RoundTripper].
func (s signing) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close() // it was read
		if err != nil {
			return nil, err
		}
	}
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if r.Body == nil {
		out.Body = nil
	}
	if err := s.m.sign(out.Header, s.e, body); err != nil {
		return nil, err
	}
	bearer(out.Header, s.m.Token)
	resp, err := s.m.Client.Transport.RoundTrip(out)
	if err == nil && (!s.m.Streams || !isStream(resp)) { // each event of a stream has its limit
		resp.Body = &atMost{resp.Body, s.m.Limit}
	}
	return resp, err
}

// atMost is a body that fails if it is longer than its limit.
type atMost struct {
	io.ReadCloser
	left int64
}

// Read implements [io.Reader].
func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, errors.New("the answer is larger than it may be")
	}
	return n, err
}
