package sources

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// MCP asks resources/list of an MCP server. It implements [Source].
type MCP struct {
	Client     *http.Client
	URL        string
	UserHeader string // header with the name of the user
}

// asUser adds the name of the user to the requests of one session.
type asUser struct {
	next         http.RoundTripper
	header, user string
}

// RoundTrip implements [http.RoundTripper].
func (a asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(a.header, a.user)
	return a.next.RoundTrip(r)
}

// Page implements [Source]. Every page has its own session, so that no two users
// share one.
func (m MCP) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	if q.Principal == "" || strings.ContainsFunc(q.Principal, func(r rune) bool { return r < '!' || r > '~' }) {
		return catalogue.Page{}, errors.New("the name of the principal cannot be in a header: want visible ASCII")
	}
	client := *m.Client
	client.Transport = bounded{asUser{m.Client.Transport, m.UserHeader, q.Principal}}
	own := mcp.NewClient(&mcp.Implementation{Name: "powerbox", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := own.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: m.URL, HTTPClient: &client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxAnswer,
	}, nil)
	if err != nil {
		return catalogue.Page{}, errors.New("the MCP server begins no session")
	}
	defer func() { _ = session.Close() }() // the answer is there
	answer, err := session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: q.After})
	if err != nil {
		return catalogue.Page{}, errors.New("the MCP server does not list its resources")
	}
	p := catalogue.Page{Next: answer.NextCursor}
	for _, r := range answer.Resources {
		if r == nil {
			continue
		}
		name := r.Title
		if name == "" {
			name = r.Name
		}
		item := catalogue.Item{ID: r.URI, Name: name, Attributes: map[string]powerbox.Value{}}
		if _, ok := q.Collection.Attributes["mimeType"]; ok && r.MIMEType != "" {
			item.Attributes["mimeType"] = powerbox.String(r.MIMEType)
		}
		p.Items = append(p.Items, item)
	}
	return p, nil
}
