package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// company is an identity provider of another hand. It has no identity assertions, so the token
// exchange for them is added here: it checks the ID token by the provider's key, and signs with it.
type company struct {
	t       *testing.T
	url     string
	storage *storage.Storage
	given   atomic.Int64
}

const ssoRedirect = "http://127.0.0.1:9/callback"

func openCompany(t *testing.T) *company {
	t.Helper()
	c := &company{t: t}
	var provider http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" && r.FormValue("requested_token_type") == "urn:ietf:params:oauth:token-type:id-jag" {
			c.exchange(w, r)
			return
		}
		provider.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	c.storage = storage.NewStorageWithClients(storage.NewUserStore(c.url), map[string]*storage.Client{"workflow-sso": storage.WebClient("workflow-sso", "secret-at-the-provider", ssoRedirect)})
	provider = exampleop.SetupServer(c.url, c.storage, nil, false)
	return c
}

// exchange gives an assertion for an ID token, as the draft says.
func (c *company) exchange(w http.ResponseWriter, r *http.Request) {
	keys, err := c.storage.KeySet(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	token, err := jwt.ParseSigned(r.FormValue("subject_token"), []jose.SignatureAlgorithm{jose.RS256})
	var who jwt.Claims
	if err == nil {
		err = token.Claims(keys[0].Key(), &who)
	}
	if err == nil {
		err = who.Validate(jwt.Expected{Issuer: c.url, AnyAudience: jwt.Audience{r.FormValue("client_id")}, Time: time.Now()})
	}
	if err == nil {
		err = c.storage.AuthorizeClientIDSecret(r.Context(), r.FormValue("client_id"), r.FormValue("client_secret"))
	}
	key, keyless := c.storage.SigningKey(r.Context())
	if err != nil || keyless != nil {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: key.SignatureAlgorithm(), Key: jose.JSONWebKey{Key: key.Key(), KeyID: key.ID()}}, (&jose.SignerOptions{}).WithType("oauth-id-jag+jwt"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	now := time.Now()
	raw, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": c.url, "sub": who.Subject, "aud": r.FormValue("audience"), "client_id": "workflow", "resource": r.FormValue("resource"), "scope": r.FormValue("scope"),
		"jti": fmt.Sprint("grant ", c.given.Add(1)), "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}).Serialize()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "access_token": raw, "token_type": "N_A", "scope": r.FormValue("scope"), "expires_in": 300})
}

// idToken logs a person in at the provider.
func (c *company) idToken() string {
	c.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	var at *url.URL
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if at = r.URL; strings.HasPrefix(at.String(), ssoRedirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	send := func(method, address string, form url.Values) []byte {
		r, err := http.NewRequestWithContext(c.t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := browser.Do(r)
		if err != nil {
			c.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			c.t.Fatal(err)
		}
		return body
	}
	login := send(http.MethodGet, c.url+"/auth?"+url.Values{"client_id": {"workflow-sso"}, "response_type": {"code"}, "scope": {"openid"}, "redirect_uri": {ssoRedirect}}.Encode(), nil)
	if at == nil {
		c.t.Fatalf("the provider shows no login: %s", login)
	}
	send(http.MethodPost, c.url+"/login/username", url.Values{"id": {at.Query().Get("authRequestID")}, "username": {"test-user@127.0.0.1"}, "password": {"verysecure"}})
	body := send(http.MethodPost, c.url+"/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {at.Query().Get("code")}, "redirect_uri": {ssoRedirect}, "client_id": {"workflow-sso"}, "client_secret": {"secret-at-the-provider"},
	})
	var tokens struct {
		ID string `json:"id_token"`
	}
	if err := json.Unmarshal(body, &tokens); err != nil || tokens.ID == "" {
		c.t.Fatalf("the login at the provider: %s, %v", body, err)
	}
	return tokens.ID
}

const crossAppConfig = `listen: %[1]s
issuer: {url: "http://%[1]s", directory: data}
identity:
  providers: [{issuer: %[2]q}]
  dev: [{name: id1, token: a-long-random-text}]
policies: [notes.cedar]
agents:
  - {id: notes, protocol: mcp, upstream: %[3]q, mode: require%[4]s}
  - {id: other, protocol: mcp, upstream: %[3]q, mode: require}
offers:
  notes:
    - {id: "notes:read", description: Read notes, operations: [read]}
    - {id: "notes:write", description: Change notes, operations: [delete]}
  other:
    - {id: "notes:read", description: Read notes, operations: [read]}
skills:
  notes:
    - {skill: read_note, grant: "notes:read", operation: read, effect: read}
    - {skill: delete_note, grant: "notes:write", operation: delete}
  other:
    - {skill: read_note, grant: "notes:read", operation: read, effect: read}
oauth:
  agents: [%[5]s]
  clients: [{id: workflow, secret: secret-of-the-workflow, redirect_uris: ["http://127.0.0.1/callback"]}]
  identity_assertions: [{issuer: %[2]q}]
`

// mcpNode runs a program of mcpjs.
func mcpNode(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(filepath.Join("mcpjs", "node_modules")); err != nil {
		t.Fatal("MCP's client lacks its packages: run make test-deps, or npm ci in e2e/mcpjs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, node(t), args...)
}

// startCrossApp starts a server with agents that OAuth clients reach, and returns the URL of
// the agent notes: at the server, or at a remote gateway.
func startCrossApp(t *testing.T, idp *company, apart bool, agents string) (b *pagesBank, notes string) {
	t.Helper()
	at, front, dir, own := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t), t.TempDir(), ""
	if apart {
		own = `, gateway_url: "http://` + front + `"`
	}
	behind := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	for _, tool := range []string{"read_note", "delete_note"} {
		behind.AddTool(&mcp.Tool{Name: tool, Description: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "did " + tool}}}, nil
		})
	}
	upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return behind }, nil))
	t.Cleanup(upstream.Close)
	file := filepath.Join(dir, "powerbox.yaml")
	for name, text := range map[string]string{file: fmt.Sprintf(crossAppConfig, at, idp.url, upstream.URL, own, agents), filepath.Join(dir, "notes.cedar"): `
permit(principal == User::"user:id1", action in Action::"notes/notes:read", resource in Agent::"notes");
permit(principal == User::"user:id1", action in Action::"other/notes:read", resource in Agent::"other");
@approval("human")
permit(principal == User::"user:id1", action in Action::"notes/notes:write", resource in Agent::"notes");
`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b = &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, "serve", "--dev", "--config", file), b.url)
	if !apart {
		return b, b.url + "/agents/notes"
	}
	state, token := filepath.Join(dir, "state"), filepath.Join(dir, "token")
	said, err := exec.CommandContext(t.Context(), binary, "gateway", "token", "--agent", "notes", "-c", file).Output()
	if err == nil {
		err = os.WriteFile(token, said, 0o600)
	}
	if err == nil {
		said, err = exec.CommandContext(t.Context(), binary, "gateway", "enroll", "--server", b.url, "--token-file", token, "--state", state).CombinedOutput()
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	gateway := &pagesBank{t: t, url: "http://" + front, log: &programtest.Log{}}
	gateway.run(exec.Command(binary, "gateway", "--dev", "--state", state, "--listen", front), gateway.url)
	return b, gateway.url + "/agents/notes"
}

// TestMCPsClientGetsInByItsCompany: MCP's client, unmodified, reaches a tool by what its company's
// identity provider says. A tool that policy leaves to a person waits for that person. A remote
// gateway lets it in by the token of its server.
func TestMCPsClientGetsInByItsCompany(t *testing.T) {
	asGiven(t)
	for name, apart := range map[string]bool{"at the server": false, "at a remote gateway": true} {
		t.Run(name, func(t *testing.T) {
			idp := openCompany(t)
			b, notes := startCrossApp(t, idp, apart, "notes")
			getsIn(t, idp, b, notes)
		})
	}
}

func getsIn(t *testing.T, idp *company, b *pagesBank, notes string) {
	cmd := mcpNode(t, filepath.Join("mcpjs", "crossapp.mjs"), notes, idp.url, idp.idToken(), b.url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &programtest.Log{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	use := func(tool string) string {
		if _, err := fmt.Fprintln(in, tool); err != nil || !said.Scan() {
			t.Fatalf("the client says nothing of %s: %v\n%s", tool, err, cmd.Stderr)
		}
		return said.Text()
	}
	person := func(method, path, body string) []byte {
		r, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Powerbox-Dev-User": {"id1"}}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		got, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: HTTP %d %s, %v", method, path, answer.StatusCode, got, err)
		}
		return got
	}
	if got := use("read_note"); !strings.Contains(got, "a person has to approve this first") {
		t.Fatalf("the client says %q; want that a person has to approve, since it asks for every scope that it finds", got)
	}
	asked := regexp.MustCompile(`ask_[a-z0-9]+`).Find(person(http.MethodGet, "/v1/approvals", ""))
	person(http.MethodPost, "/v1/approvals/"+string(asked), "{}")
	for _, tool := range []string{"read_note", "delete_note"} {
		if got := use(tool); got != "did "+tool {
			t.Errorf("after the approval the client says %q", got)
		}
	}
	person(http.MethodPost, "/v1/approvals/"+string(asked)+"/revoke", "")
	eventually(t, atOnce, func() string { return "after the revocation the client still gets in" }, func() bool { return strings.HasPrefix(use("delete_note"), "failed") })
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// token is an access token of the server for an agent, by an assertion of the company.
func (c *company) token(b *pagesBank, resource string) string {
	c.t.Helper()
	post := func(address string, form url.Values) (answer struct {
		Access string `json:"access_token"`
	},
	) {
		r, err := http.PostForm(address, form)
		if err != nil {
			c.t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &answer)
		}
		if err != nil || answer.Access == "" {
			c.t.Fatalf("%s: %s, %v", address, body, err)
		}
		return answer
	}
	assertion := post(c.url+"/oauth/token", url.Values{
		"requested_token_type": {"urn:ietf:params:oauth:token-type:id-jag"}, "subject_token": {c.idToken()}, "client_id": {"workflow-sso"}, "client_secret": {"secret-at-the-provider"},
		"audience": {b.url}, "resource": {resource}, "scope": {"notes:read"},
	})
	return post(b.url+"/oauth/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion.Access}, "client_id": {"workflow"}, "client_secret": {"secret-of-the-workflow"},
	}).Access
}

// TestARemoteGatewayTakesTokensForItself: the metadata names the gateway and its server, and
// no token for another agent, and none that was changed, gets in. One that gets in asks for
// nothing more.
func TestARemoteGatewayTakesTokensForItself(t *testing.T) {
	asGiven(t)
	idp := openCompany(t)
	b, notes := startCrossApp(t, idp, true, "notes, other")
	own, other := idp.token(b, notes), idp.token(b, b.url+"/agents/other")
	post := func(token, body string) (status int, challenge, text string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, notes, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header.Get("WWW-Authenticate"), string(got)
	}
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	metadata := strings.Replace(notes, "/agents/", "/.well-known/oauth-protected-resource/agents/", 1)
	for name, c := range map[string]struct {
		token  string
		status int
		says   string
	}{
		"no token":                {"", http.StatusUnauthorized, `Bearer resource_metadata="` + metadata + `"`},
		"its own":                 {own, http.StatusOK, ""},
		"one for another agent":   {other, http.StatusUnauthorized, `Bearer error="invalid_token", resource_metadata="` + metadata + `"`},
		"one with another end":    {own[:len(own)-8] + "AAAAAAAA", http.StatusUnauthorized, `Bearer error="invalid_token", resource_metadata="` + metadata + `"`},
		"one without a signature": {own[:strings.LastIndex(own, ".")+1], http.StatusUnauthorized, `Bearer error="invalid_token", resource_metadata="` + metadata + `"`},
	} {
		if status, says, text := post(c.token, begin); status != c.status || says != c.says {
			t.Errorf("%s: HTTP %d %q; want %d %q\n%s", name, status, says, c.status, c.says, text)
		}
	}
	var resource struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	r, err := http.Get(metadata)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if err := json.NewDecoder(r.Body).Decode(&resource); err != nil || resource.Resource != notes || len(resource.Servers) != 1 || resource.Servers[0] != b.url || strings.Join(resource.Scopes, " ") != "notes:read notes:write" {
		t.Errorf("the metadata is %+v, %v", resource, err)
	}
	if status, says, text := post(own, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_note","arguments":{}}}`); status != http.StatusForbidden || !strings.Contains(says, `error="insufficient_scope", scope="notes:read notes:write/delete"`) {
		t.Errorf("a tool that it has no scope for: HTTP %d %q %s", status, says, text)
	}
}

// TestARemoteGatewayWithoutOAuth: the gateway of an agent that OAuth clients do not reach
// starts beside those that they do, and takes no token.
func TestARemoteGatewayWithoutOAuth(t *testing.T) {
	asGiven(t)
	idp := openCompany(t)
	b, notes := startCrossApp(t, idp, true, "other")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, notes, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + idp.token(b, b.url+"/agents/other")}}
	metadata := strings.Replace(notes, "/agents/", "/.well-known/oauth-protected-resource/agents/", 1)
	for address, ask := range map[string]func() (*http.Response, error){notes: func() (*http.Response, error) { return http.DefaultClient.Do(r) }, metadata: func() (*http.Response, error) { return http.Get(metadata) }} {
		answer, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.Header.Get("WWW-Authenticate") != "" || address == metadata && answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s %q", address, answer.Status, answer.Header.Get("WWW-Authenticate"))
		}
	}
}
