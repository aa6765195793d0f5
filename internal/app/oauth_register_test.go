package app_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// TestAClientRegistersItself has the unmodified client of MCP's Go SDK, of which the operator
// knows nothing, register itself and reach a tool with one approval.
func TestAClientRegistersItself(t *testing.T) {
	d := openDoor(t, "  self_registration: [loopback]\n")
	var asked *url.URL
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Notes <b>Reader</b>", RedirectURIs: []string{"http://127.0.0.1:4711/any/callback"},
		}},
		AuthorizationCodeFetcher: func(_ context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			var err error
			if asked, err = url.Parse(a.URL); err != nil {
				return nil, err
			}
			q := d.code(d.dev, a.URL, "delete")
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: d.url + "/agents/notes", OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_note"}); err != nil {
		t.Fatal(err)
	}
	id := asked.Query().Get("client_id")
	if !regexp.MustCompile(`^self\.notes-reader\.[A-Za-z0-9_-]{16}$`).MatchString(id) {
		t.Errorf("the client id is %q; want one that says its name and that the client registered itself", id)
	}
}

// register posts the metadata of a client.
func (d *door) register(metadata string) answer {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/oauth/register", strings.NewReader(metadata))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return d.do(http.DefaultClient, r)
}

const selfClient = "self.reader.AAAAAAAAAAAAAAAA"

// TestClientsRegisterThemselvesWithListedRedirectsOnly: the operator's list says where a browser can be
// sent with a code, whatever a client says about itself.
func TestClientsRegisterThemselvesWithListedRedirectsOnly(t *testing.T) {
	d := openDoor(t, "  self_registration: [loopback, 'https://app.example.org/cb']\n")
	for redirect, good := range map[string]bool{
		"https://app.example.org/cb":         true,
		"http://127.0.0.1:4711/x":            true,
		"http://localhost/oauth/callback":    true,
		"http://[::1]:9/":                    true,
		"https://app.example.org/cb2":        false,
		"https://app.example.org:443/cb":     false,
		"https://evil.example.org/cb":        false,
		"http://localhost.evil.example.org/": false,
		"http://127.0.0.1@evil.example.org/": false,
		"http://127.0.0.1.nip.io/":           false,
		"com.example.app:/cb":                false,
		"javascript:alert(1)":                false,
		"loopback":                           false,
	} {
		got := d.register(`{"client_name":"Reader","redirect_uris":["http://127.0.0.1/cb","` + redirect + `"]}`)
		if want := http.StatusCreated; good && (got.status != want || !strings.Contains(got.body, `"token_endpoint_auth_method":"none"`)) {
			t.Errorf("%s: %d %s; want %d", redirect, got.status, got.body, want)
		} else if !good && (got.status != http.StatusBadRequest || !strings.Contains(got.body, `"invalid_redirect_uri"`)) {
			t.Errorf("%s: %d %s; want invalid_redirect_uri", redirect, got.status, got.body)
		}
		page := d.get(d.dev, d.request("client_id", selfClient, "redirect_uri", redirect))
		if good && (page.at == nil || !strings.HasPrefix(page.at.Path, "/approve/")) {
			t.Errorf("%s: %d %s; want the approval page", redirect, page.status, page.body)
		} else if !good {
			d.refusedHere(redirect, page)
		}
	}
	for what, metadata := range map[string]string{
		"no JSON":           `client_name=x`,
		"no object":         `["x"]`,
		"no redirects":      `{"client_name":"x"}`,
		"a grant of no use": `{"redirect_uris":["http://127.0.0.1/cb"],"grant_types":["client_credentials"]}`,
		"two names":         `{"client_name":"x","client_name":"y","redirect_uris":["http://127.0.0.1/cb"]}`,
	} {
		if got := d.register(metadata); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s; want 400", what, got.status, got.body)
		}
	}
	for _, id := range []string{"self.reader", "self.reader.AAAA", "self.Reader.AAAAAAAAAAAAAAAA", "self.a#b.AAAAAAAAAAAAAAAA", "self..AAAAAAAAAAAAAAAA", selfClient + "\n"} {
		d.refusedHere(id, d.get(d.dev, d.request("client_id", id)))
	}
	if got := d.get(http.DefaultClient, d.url+"/.well-known/oauth-authorization-server"); !strings.Contains(got.body, `"registration_endpoint":"`+d.url+`/oauth/register"`) {
		t.Errorf("the metadata: %s", got.body)
	}
}
