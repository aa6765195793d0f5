package app_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// TestTheMCPGoClientReachesAToolWithOneApproval has the unmodified client of MCP's Go SDK
// find the server, get a token with one approval, step up for a tool that the person left
// out, and lose both with the revocation.
func TestTheMCPGoClientReachesAToolWithOneApproval(t *testing.T) {
	for name, stateless := range map[string]bool{"with sessions": false, "without sessions": true} {
		t.Run(name, func(t *testing.T) {
			d := openDoorTo(t, "", stateless)
			approvals := 0
			handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
				PreregisteredClient: &oauthex.ClientCredentials{ClientID: "inspector"}, RedirectURL: "http://127.0.0.1:4711/callback",
				AuthorizationCodeFetcher: func(_ context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
					approvals++
					if approvals > 2 {
						return nil, errors.New("the person is asked again and again")
					}
					var q url.Values
					if approvals == 1 {
						q = d.code(d.dev, a.URL, "delete")
					} else {
						q = d.codeByAPI(d.dev, a.URL)
					}
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
			listed, err := session.ListTools(t.Context(), nil)
			if err != nil || len(listed.Tools) != 2 {
				t.Fatalf("the tools: %+v, %v; want the two that read", listed, err)
			}
			use := func(tool string) error {
				got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"title": "budget"}})
				if err == nil && got.IsError {
					return errors.New("the tool failed")
				}
				return err
			}
			if err := use("read_note"); err != nil || approvals != 1 {
				t.Fatalf("read_note: %v, after %d approvals; want one", err, approvals)
			}
			if err := use("delete_note"); err != nil || approvals != 2 {
				t.Fatalf("delete_note: %v, after %d approvals; want a second one", err, approvals)
			}
			if listed, err = session.ListTools(t.Context(), nil); err != nil || len(listed.Tools) != 3 {
				t.Fatalf("the tools with the wider token: %+v, %v; want three", listed, err)
			}
			d.revokeAll(d.dev)
			before := d.calls.Load()
			if err := use("read_note"); err == nil || d.calls.Load() != before {
				t.Errorf("after the person revoked the approvals the call came through, with %v", err)
			}
		})
	}
}

// TestClientsFindTheServer has the metadata read by the SDK's own readers.
func TestClientsFindTheServer(t *testing.T) {
	d := openDoor(t, "")
	resource := d.url + "/agents/notes"
	prm, err := oauthex.GetProtectedResourceMetadata(t.Context(), d.url+"/.well-known/oauth-protected-resource/agents/notes", resource, http.DefaultClient)
	if err != nil || prm.Resource != resource || len(prm.AuthorizationServers) != 1 || prm.AuthorizationServers[0] != d.url || len(prm.ScopesSupported) != 2 {
		t.Fatalf("the metadata of the resource: %+v, %v", prm, err)
	}
	asm, err := auth.GetAuthServerMetadata(t.Context(), d.url, http.DefaultClient)
	if err != nil || asm == nil || asm.Issuer != d.url || !asm.AuthorizationResponseIssParameterSupported || asm.RegistrationEndpoint != "" {
		t.Fatalf("the metadata of the server: %+v, %v", asm, err)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/agents/none", "/oauth/register"} {
		if got := d.get(http.DefaultClient, d.url+path); got.status != http.StatusNotFound {
			t.Errorf("%s: %d; want 404", path, got.status)
		}
	}
}
