package app_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/config"
)

// door is a whole server in this process, with an MCP server behind it that OAuth clients
// reach, and the browser of a person.
type door struct {
	t     *testing.T
	url   string
	calls atomic.Int64 // of tools
	clock atomic.Int64 // how far ahead the server's clock is, as a duration
	log   lines
	dev   *http.Client // the person's browser; it follows no redirect
	// operator is the shared token of operators.
	operator string
	config   string // path of the configuration file
}

// noon is when the server's clock stands, unless a test sets it ahead.
var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const doorConfig = `listen: 127.0.0.1:0
issuer: {url: %q, directory: state}
identity: {dev: [{name: dev, token: a-long-random-text}, {name: eve, token: another-long-random-text}]}
policies: [notes.cedar]
agents:
  - {id: notes, protocol: mcp, upstream: %q, mode: require}
  - {id: other, protocol: mcp, upstream: %q, mode: require}
offers:
  notes:
    - {id: "notes:read", description: Read notes, operations: [read, search], maximum_depth: 1}
    - {id: "notes:write", description: Change notes, operations: [delete]}
  other:
    - {id: "notes:read", description: Read notes, operations: [read]}
skills:
  notes:
    - {skill: read_note, grant: "notes:read", operation: read, effect: read}
    - {skill: search_notes, grant: "notes:read", operation: search, effect: read}
    - {skill: delete_note, grant: "notes:write", operation: delete}
  other:
    - {skill: read_note, grant: "notes:read", operation: read, effect: read}
oauth:
  agents: [notes, other]
  clients:
    - {id: inspector, name: Inspector, redirect_uris: ["http://127.0.0.1/callback", "https://app.example.org/callback"]}
    - {id: neighbour, redirect_uris: ["https://neighbour.example.org/callback"]}
    - {id: backend, secret: a-secret-of-the-backend, introspects: true, exchanges: true, redirect_uris: ["https://backend.example.org/callback"]}
    - {id: third, secret: a-secret-of-the-third, exchanges: true, redirect_uris: ["https://third.example.org/callback"]}
%s`

const doorPolicy = `permit(principal == User::"user:dev", action in Action::"notes/notes:read", resource in Agent::"notes");
@approval("human")
permit(principal == User::"user:dev", action in Action::"notes/notes:write", resource in Agent::"notes");
permit(principal == User::"user:dev", action in Action::"other/notes:read", resource in Agent::"other");
permit(principal == User::"user:eve", action in Action::"notes/notes:read", resource in Agent::"notes");
`

// openDoor starts the server. More is further lines of its section oauth.
func openDoor(t *testing.T, more string) *door { t.Helper(); return openDoorTo(t, more, true) }

// openDoorTo is openDoor with a server behind that has sessions, or none.
func openDoorTo(t *testing.T, more string, stateless bool) *door {
	t.Helper()
	return openDoorAs(t, more, stateless, func(_, text string) string { return text })
}

// openDoorAs is openDoorTo with a configuration that was changed. dir is the folder of it.
func openDoorAs(t *testing.T, more string, stateless bool, change func(dir, text string) string) *door {
	t.Helper()
	d := &door{t: t}
	behind := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	for _, tool := range []string{"read_note", "search_notes", "delete_note"} {
		behind.AddTool(&mcp.Tool{Name: tool, Description: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			d.calls.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "did " + tool}}}, nil
		})
	}
	upstream := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return behind }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(upstream.Close)

	var handler atomic.Pointer[http.Handler]
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	d.url = front.URL
	dir := t.TempDir()
	d.config = filepath.Join(dir, "powerbox.yaml")
	for name, text := range map[string]string{"powerbox.yaml": change(dir, fmt.Sprintf(doorConfig, d.url, upstream.URL, upstream.URL, more)), "notes.cedar": doorPolicy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "powerbox.yaml"), os.ReadFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	i, err := app.Assemble(ctx, app.Assembly{
		Reload: func() (*config.Config, error) {
			return config.Load(filepath.Join(dir, "powerbox.yaml"), os.ReadFile, nil)
		},
		Config: c, Dev: true, Now: func() time.Time { return noon.Add(time.Duration(d.clock.Load())) }, Log: slog.New(slog.NewTextHandler(io.MultiWriter(logOf(t), &d.log), nil)), Notes: io.Discard,
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	handler.Store(&i.Handler)
	d.operator = i.Admin.Operators.Token
	t.Cleanup(func() {
		cancel()
		front.Close()
		_ = i.Close()
	})
	d.dev = d.browser("dev")
	return d
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logOf writes a log to the test's output.
func logOf(t *testing.T) io.Writer { return t.Output() }

// browser is one in which a built-in user has logged in.
func (d *door) browser(user string) *http.Client {
	d.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	b := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if user == "" {
		return b
	}
	answer, err := b.PostForm(d.url+"/login", url.Values{"user": {user}, "next": {"/approve"}})
	if err != nil || answer.StatusCode != http.StatusSeeOther {
		d.t.Fatalf("the login of %s: %v, %v", user, answer, err)
	}
	_ = answer.Body.Close()
	return b
}

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   string
	at     *url.URL // Location, nil for none
}

func (d *door) do(c *http.Client, r *http.Request) answer {
	d.t.Helper()
	response, err := c.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	at, _ := response.Location()
	return answer{response.StatusCode, response.Header, string(body), at}
}

func (d *door) get(c *http.Client, address string) answer {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.do(c, r)
}

func (d *door) post(c *http.Client, path string, form url.Values) answer {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return d.do(c, r)
}

const verifier = "a-verifier-of-the-client-that-is-long-enough-for-pkce"

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// request is an authorization request of the inspector, with some parameters changed; ""
// removes one.
func (d *door) request(change ...string) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {"inspector"}, "redirect_uri": {"http://127.0.0.1:4711/callback"}, "state": {"the state"},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"}, "resource": {d.url + "/agents/notes"}, "scope": {"notes:read"},
	}
	for n := 0; n+1 < len(change); n += 2 {
		if q.Set(change[n], change[n+1]); change[n+1] == "" {
			q.Del(change[n])
		}
	}
	return d.url + "/oauth/authorize?" + q.Encode()
}

var (
	seenField = regexp.MustCompile(`name="seen" value="([^"]+)"`)
	tickField = regexp.MustCompile(`name="(op\.\d+)" value="([^"]+)"`)
	onward    = regexp.MustCompile(`url=([^"]+)"`)
)

// approve has a person open a page, tick all operations but some, and approve. It returns
// where the page sends the browser.
func (d *door) approve(b *http.Client, page string, without ...string) string {
	d.t.Helper()
	shown := d.get(b, page)
	seen := seenField.FindStringSubmatch(shown.body)
	if shown.status != http.StatusOK || seen == nil {
		d.t.Fatalf("the page %s: %d\n%s", page, shown.status, shown.body)
	}
	form := url.Values{"seen": {seen[1]}, "answer": {"approve"}}
	for _, tick := range tickField.FindAllStringSubmatch(shown.body, -1) {
		if !strings.Contains(" "+strings.Join(without, " ")+" ", " "+tick[2]+" ") {
			form.Add(tick[1], tick[2])
		}
	}
	at, err := url.Parse(page)
	if err != nil {
		d.t.Fatal(err)
	}
	done := d.post(b, at.Path, form)
	to := onward.FindStringSubmatch(done.body)
	if done.status != http.StatusOK || to == nil {
		d.t.Fatalf("the approval: %d\n%s", done.status, done.body)
	}
	return d.url + html.UnescapeString(to[1])
}

// code takes an authorization request to its end, with one approval on the page.
func (d *door) code(b *http.Client, request string, without ...string) url.Values {
	d.t.Helper()
	return d.returned(b, d.approve(b, d.asked(b, request), without...))
}

// codeByAPI is code with an approval by the interface of people, of everything.
func (d *door) codeByAPI(b *http.Client, request string) url.Values {
	d.t.Helper()
	page := d.asked(b, request)
	d.answer(page)
	return d.returned(b, request)
}

// asked is the page to which an authorization request sends a browser.
func (d *door) asked(b *http.Client, request string) string {
	d.t.Helper()
	asked := d.get(b, request)
	if asked.at == nil || !strings.HasPrefix(asked.at.Path, "/approve/ask_") {
		d.t.Fatalf("the authorization request: %d %v\n%s", asked.status, asked.at, asked.body)
	}
	return asked.at.String()
}

// returned is what a client gets with the browser after an approval.
func (d *door) returned(b *http.Client, request string) url.Values {
	d.t.Helper()
	back := d.get(b, request)
	if back.at == nil || back.at.Query().Get("code") == "" {
		d.t.Fatalf("after the approval: %d %v\n%s", back.status, back.at, back.body)
	}
	return back.at.Query()
}

// tokens are the answer of the token endpoint.
type tokens struct {
	Access      string                                                 `json:"access_token"`
	Refresh     string                                                 `json:"refresh_token"`
	Scope       string                                                 `json:"scope"`
	Type        string                                                 `json:"token_type"`
	Kind        string                                                 `json:"issued_token_type"`
	Expires     int                                                    `json:"expires_in"`
	Error       string                                                 `json:"error"`
	Description string                                                 `json:"error_description"`
	Page        string                                                 `json:"error_uri"`
	Details     []struct{ Capability, Grant, Purpose, Expires string } `json:"authorization_details"`
}

// token posts a form of the inspector to the token endpoint.
func (d *door) token(change ...string) tokens {
	d.t.Helper()
	form := url.Values{"client_id": {"inspector"}}
	for n := 0; n+1 < len(change); n += 2 {
		if form.Set(change[n], change[n+1]); change[n+1] == "" {
			form.Del(change[n])
		}
	}
	got := d.post(http.DefaultClient, "/oauth/token", form)
	var out tokens
	if err := json.Unmarshal([]byte(got.body), &out); err != nil {
		d.t.Fatalf("the token endpoint: %d %s", got.status, got.body)
	}
	return out
}

// redeem exchanges a code as the inspector does.
func (d *door) redeem(code string, change ...string) tokens {
	d.t.Helper()
	return d.token(append([]string{
		"grant_type", "authorization_code", "code", code, "redirect_uri", "http://127.0.0.1:4711/callback", "code_verifier", verifier, "resource", d.url + "/agents/notes",
	}, change...)...)
}

// granted is a token of the inspector with one approval.
func (d *door) granted(scope string) tokens {
	d.t.Helper()
	got := d.redeem(d.code(d.dev, d.request("scope", scope)).Get("code"))
	if got.Access == "" {
		d.t.Fatalf("the exchange of a code: %+v", got)
	}
	return got
}

// call calls a tool with a token, without a session.
func (d *door) call(agent, token, tool string) answer {
	d.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"title":"budget"}}}`, tool)
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/agents/"+agent, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return d.do(http.DefaultClient, r)
}

// may reports whether a token lets its client call a tool.
func (d *door) may(token, tool string) bool {
	d.t.Helper()
	before := d.calls.Load()
	got := d.call("notes", token, tool)
	return got.status == http.StatusOK && d.calls.Load() == before+1 && strings.Contains(got.body, "did "+tool)
}

var revocable = regexp.MustCompile(`/approve/ask_[a-z0-9]+`)

// revokeAll has a person revoke everything that they approved, on their page.
func (d *door) revokeAll(b *http.Client) {
	d.t.Helper()
	seen := map[string]bool{}
	for _, path := range revocable.FindAllString(d.get(b, d.url+"/approved").body, -1) {
		if seen[path] {
			continue
		}
		seen[path] = true
		if got := d.post(b, path+"/revoke", nil); got.status != http.StatusSeeOther {
			d.t.Fatalf("the revocation of %s: %d\n%s", path, got.status, got.body)
		}
	}
	if len(seen) == 0 {
		d.t.Fatal("the page of approvals has none")
	}
}
