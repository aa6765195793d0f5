package powerboxmcp_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxmcp "github.com/powerbox-project/powerbox/integrations/mcp"
	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/token"
)

// now is the machine's clock, which the gate under test reads, too.
var now = time.Now //nolint:forbidigo // a program that runs beside us takes no clock as a parameter

// binary is the gate, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(programtest.Main("../..", func(program string) int {
		binary = program
		return m.Run()
	}))
}

const (
	aliceToken = "alice-session-token"
	guardToken = "guard-token-of-the-test-0123456789abcdef"
)

const configuration = `listen: %[1]s
issuer: {url: "http://%[1]s"}
identity:
  dev: [{name: alice, token: %[2]s}]
  guards: [{name: files, token_file: guard.token}]
agents: [{id: files, protocol: local, mode: %[3]s}]
offers:
  files: [{id: read, operations: [read]}, {id: write, operations: [delete]}, {id: docs, operations: [open, follow]}, {id: help, operations: [prompt, complete]}]
skills:
  files:
    - {skill: read_file, grant: read, operation: read, effect: read}
    - {skill: delete_file, grant: write, operation: delete}
    - {skill: open, grant: docs, operation: open, effect: read, arguments: {uri: {constraint_type: one_of, values: ["docs://a", "docs://none"]}}}
    - {skill: follow, grant: docs, operation: follow, effect: read, arguments: {uri: {constraint_type: exact, value: "docs://a"}}}
    - {skill: prompt, grant: help, operation: prompt, effect: read}
    - {skill: complete, grant: help, operation: complete, effect: read}
policies: [policies.cedar]
`

// town is a gate, and an MCP server that asks it.
type town struct {
	t        *testing.T
	dir, url string
	server   *powerboxmcp.Server
	endpoint string
	sdk      *mcp.Server
	process  *os.Process // of the gate

	mu  sync.Mutex
	ran []string // tools, with their path
}

type pathOf struct {
	Path string `json:"path"`
}

// methods are what methods beside tools need in the town.
var methods = map[string]string{
	"resources/read": "docs/open", "resources/subscribe": "docs/follow", "resources/unsubscribe": "docs/follow",
	"prompts/get": "help/prompt", "completion/complete": "help/complete",
}

// newTown has a server that may ask nothing of its clients.
func newTown(t *testing.T) *town { return townOf(t, "require", methods) }

// townOf has a server in a mode, with what methods beside tools need and what it may
// ask of its clients.
func townOf(t *testing.T, mode string, methods map[string]string, requests ...string) *town {
	t.Helper()
	address := freeport.Address(t)
	w := &town{t: t, dir: t.TempDir(), url: "http://" + address}
	for name, text := range map[string]string{
		"guard.token": guardToken, "policies.cedar": `permit(principal == User::"user:alice", action, resource);`,
		"powerbox.yaml": fmt.Sprintf(configuration, address, aliceToken, mode),
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.boot()
	w.sdk = w.serverOf()
	for _, name := range []string{"read_file", "delete_file", "unmapped"} {
		mcp.AddTool(w.sdk, &mcp.Tool{Name: name, Description: name}, func(_ context.Context, _ *mcp.CallToolRequest, in pathOf) (*mcp.CallToolResult, any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ran = append(w.ran, name+" "+in.Path)
			if in.Path == "/none" {
				return nil, nil, fmt.Errorf("no such file")
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "text of " + in.Path}}}, nil, nil
		})
	}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	w.endpoint = srv.URL + "/mcp"
	var err error
	w.server, err = powerboxmcp.New(powerboxmcp.Config{
		Gate:  &guard.Gate{URL: w.url, Token: guardToken, HTTP: &http.Client{Timeout: 20 * time.Second}},
		Agent: "files", Issuer: w.url + "/agents/files", Resource: w.endpoint, Now: now, Methods: methods, Requests: requests,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.server.Hold(w.sdk)
	for _, stateless := range []bool{false, true} {
		mux.Handle(map[bool]string{false: "/mcp", true: "/mcp/stateless"}[stateless], w.server.Handler(
			mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.sdk }, &mcp.StreamableHTTPOptions{Stateless: stateless})))
	}
	mux.Handle("GET "+w.server.MetadataPath(), w.server.Metadata())
	return w
}

// boot starts the gate and waits until it is ready.
func (w *town) boot() {
	w.t.Helper()
	w.process = programtest.Serve(w.t, binary, w.dir, w.url)
}

// caller is an MCP host that works for Alice.
type caller struct {
	w *town
	*powerboxmcp.Client
}

func (w *town) caller(grants ...string) *caller {
	w.t.Helper()
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &caller{w, &powerboxmcp.Client{
		Holder: &holder.Client{
			Key: key, HTTP: &http.Client{Timeout: 20 * time.Second}, Now: now, Random: rand.Reader,
			Session: func(context.Context, string) (string, error) { return aliceToken, nil },
		},
		Endpoint: w.endpoint, Methods: methods, Wallet: holder.NewWallet(key.Public()), Base: http.DefaultTransport,
	}}
	if c.Agent, err = c.Holder.Discover(w.t.Context(), w.url+"/agents/files"); err != nil {
		w.t.Fatal(err)
	}
	if len(grants) == 0 {
		return c
	}
	got, err := c.Holder.Request(w.t.Context(), c.Agent, holder.RequestParams{Grants: grants, Purpose: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Wallet.Add(got...); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// connect opens a session.
func (c *caller) connect() (*mcp.ClientSession, error) { return c.connectAs("", nil) }

// connectAs opens a session of a revision, with what the host answers. Those from
// 2026 on are sessions of the host alone.
func (c *caller) connectAs(revision string, options *mcp.ClientOptions) (*mcp.ClientSession, error) {
	if revision >= "2026" {
		c.Endpoint += "/stateless"
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, options)
	return client.Connect(c.w.t.Context(), &mcp.StreamableClientTransport{Endpoint: c.Endpoint, HTTPClient: &http.Client{Transport: c.Client}, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
}

// post sends one message, signed, with further headers.
func (c *caller) post(body string, header ...string) (*http.Response, string) {
	c.w.t.Helper()
	r, err := http.NewRequestWithContext(c.w.t.Context(), http.MethodPost, c.w.endpoint, strings.NewReader(body))
	if err != nil {
		c.w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for n := 0; n+1 < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	answer, err := c.RoundTrip(r)
	if err != nil {
		c.w.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		c.w.t.Fatal(err)
	}
	return answer, string(raw)
}

// records returns the records of the server, by decision and outcome.
func (w *town) records() map[string]int {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/v1/records?agent=files", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	var all []struct {
		Decision string `json:"decision"`
		Status   string `json:"outcome_status"`
		Intent   struct {
			Operation string `json:"operation"`
		} `json:"intent"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, r := range all {
		out[strings.TrimSpace(r.Intent.Operation+" "+r.Decision+" "+r.Status)]++
	}
	return out
}
