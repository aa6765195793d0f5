package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// account is an MCP server of the stock SDK behind the SDK's own bearer middleware, with the
// OAuth server that it believes. Its tool tells callers every header.
type account struct {
	mu      sync.Mutex
	issued  map[string]bool // access tokens that are good
	refresh map[string]bool // refresh tokens that are good
	all     []string        // every secret that there was
	asked   int             // requests to the token endpoint
	down    bool
}

func (a *account) secret(kind string) string {
	s := fmt.Sprintf("canary-%s-%d-of-an-account", kind, len(a.all))
	a.all = append(a.all, s)
	return s
}

// token is the token endpoint. Each refresh token is good once.
func (a *account) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	w.Header().Set("Content-Type", "application/json")
	_ = r.ParseForm()
	id, secret, _ := r.BasicAuth()
	good := id == "powerbox" && secret == "canary-of-the-client"
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		good = good && r.PostForm.Get("code") == "canary-code" && r.PostForm.Get("code_verifier") != ""
	case "refresh_token":
		good = good && a.refresh[r.PostForm.Get("refresh_token")]
		delete(a.refresh, r.PostForm.Get("refresh_token"))
	case "client_credentials":
	default:
		good = false
	}
	if a.down || !good {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, "no: "+r.PostForm.Encode())
		return
	}
	access, refresh := a.secret("access"), a.secret("refresh")
	a.issued[access], a.refresh[refresh] = true, true
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 600, "refresh_token": refresh})
}

func (a *account) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.issued[token] {
		return nil, fmt.Errorf("%w: %s", auth.ErrInvalidToken, token)
	}
	return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour)}, nil //nolint:forbidigo // the SDK compares it with its clock
}

// voidAccess has every access token end.
func (a *account) voidAccess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.issued = map[string]bool{}
}

// openAccount starts a door whose agent notes is called with an account.
func openAccount(t *testing.T, oauth string) (d *door, a *account, dir string) {
	t.Helper()
	a = &account{issued: map[string]bool{}, refresh: map[string]bool{}, all: []string{"canary-of-the-client", "canary-code"}}
	behind := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	behind.AddTool(&mcp.Tool{Name: "read_note", Description: "reads", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "did read_note with " + fmt.Sprint(r.Extra.Header)}}}, nil
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", auth.RequireBearerToken(a.verify, nil)(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return behind }, &mcp.StreamableHTTPOptions{Stateless: true})))
	mux.HandleFunc("/token", a.token)
	upstream := httptest.NewServer(mux)
	t.Cleanup(upstream.Close)
	d = openDoorAs(t, "", true, func(at, text string) string {
		dir = at
		if err := os.WriteFile(filepath.Join(at, "client-secret"), []byte("canary-of-the-client\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		own := fmt.Sprintf(`id: notes, protocol: mcp, credential: {oauth: {token_url: %q, authorization_url: %q, client_id: powerbox, client_secret_file: client-secret, %s}}, upstream: %q`, upstream.URL+"/token", upstream.URL+"/authorize", oauth, upstream.URL+"/mcp")
		return regexp.MustCompile(`id: notes, protocol: mcp, upstream: "[^"]*"`).ReplaceAllLiteralString(text, own)
	})
	return d, a, dir
}

// search wants no secret of the account in what a caller got and in any file of the server,
// except in the file that the operator wrote.
func (a *account) search(t *testing.T, d *door, dir string, answers ...answer) {
	t.Helper()
	texts := map[string]string{"the log": d.log.String()}
	for n, got := range answers {
		texts[fmt.Sprintf("answer %d", n)] = got.body + fmt.Sprint(got.header)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "client-secret" {
			data, errRead := os.ReadFile(path)
			texts[path], err = string(data), errRead
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for where, text := range texts {
		for _, secret := range a.all {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", secret, where)
			}
		}
	}
}

// TestOneTokenOfTheServerForAllCallers calls an MCP server with a token by client
// credentials, which is got anew when the MCP server refuses it, and has the endpoint fail.
func TestOneTokenOfTheServerForAllCallers(t *testing.T) {
	d, a, dir := openAccount(t, "scopes: [notes]")
	token := d.granted("notes:read").Access
	var answers []answer
	call := func(want string) {
		t.Helper()
		got := d.call("notes", token, "read_note")
		answers = append(answers, got)
		if !strings.Contains(got.body, want) || got.status == http.StatusUnauthorized {
			t.Errorf("want %s, got %d %s %v", want, got.status, got.body, got.header)
		}
	}
	call("did read_note")
	call("did read_note")
	if a.asked != 1 {
		t.Errorf("%d tokens were got for two calls", a.asked)
	}
	a.voidAccess()
	call("did read_note")
	a.voidAccess()
	a.down = true
	call(`"code":"credential_unavailable"`)
	a.search(t, d, dir, answers...)
}

// TestEachPersonsTokenBehindTheCall has a person consent, and their calls made with tokens of
// their account. Another person's call needs their own consent.
func TestEachPersonsTokenBehindTheCall(t *testing.T) {
	d, a, dir := openAccount(t, "grant: refresh_token, scopes: [offline_access]")
	dev := d.granted("notes:read").Access
	eve := d.browser("eve")
	eves := d.redeem(d.code(eve, d.request("scope", "notes:read")).Get("code")).Access
	asks := d.call("notes", dev, "read_note")
	if !strings.Contains(asks.body, `"code":"consent_required"`) || !strings.Contains(asks.body, d.url+"/connect/notes") {
		t.Errorf("a person without consent: %s", asks.body)
	}
	// The person's browser goes to the OAuth server, and comes back with a code.
	begun := d.get(d.dev, d.url+"/connect/notes")
	state := regexp.MustCompile(`[?&]state=([^&]+)`).FindStringSubmatch(begun.header.Get("Location"))
	if begun.status != http.StatusSeeOther || state == nil || !strings.Contains(begun.header.Get("Location"), "code_challenge_method=S256") {
		t.Fatalf("%d %v", begun.status, begun.header)
	}
	done := "/connect/notes/done?code=canary-code&state=" + state[1]
	if got := d.get(eve, d.url+done); got.status != http.StatusBadRequest {
		t.Errorf("another person's browser finishes the consent: %d %s", got.status, got.body)
	}
	if got := d.get(http.DefaultClient, d.url+"/connect/notes"); strings.Contains(got.body+fmt.Sprint(got.header), "/authorize") {
		t.Errorf("a stranger begins a consent: %v", got.header)
	}
	if got := d.get(d.dev, d.url+done); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	answers := []answer{asks}
	read := func(token, want string) {
		t.Helper()
		got := d.call("notes", token, "read_note")
		answers = append(answers, got)
		if !strings.Contains(got.body, want) {
			t.Errorf("want %s, got %d %s", want, got.status, got.body)
		}
	}
	read(dev, "did read_note")
	read(eves, `"code":"consent_required"`)
	// Each refresh gives another refresh token, which must be kept.
	for range 3 {
		a.voidAccess()
		read(dev, "did read_note")
	}
	a.mu.Lock()
	a.refresh = map[string]bool{}
	a.mu.Unlock()
	a.voidAccess()
	read(dev, `"code":"consent_required"`)
	a.search(t, d, dir, answers...)
}
