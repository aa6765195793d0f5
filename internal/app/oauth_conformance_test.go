package app_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/serve"
)

// suite runs MCP's conformance suite from npm with the Node.js that it wants. It calls
// said with each line, and returns the outcome of each scenario in the order of the summary.
func suite(t *testing.T, said func(line string), args ...string) []string {
	t.Helper()
	const packages = "../../e2e/mcpjs/node_modules/"
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	node, err := filepath.Abs(packages + "node-" + runtime.GOOS + "-" + arch + "/bin/node")
	if err == nil {
		_, err = os.Stat(node)
	}
	if err != nil {
		t.Fatalf("%v: run make test-deps, or npm ci in e2e/mcpjs", err)
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{packages + "@modelcontextprotocol/conformance/dist/index.js"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t.Log(lines.Text())
		said(lines.Text())
		if m := outcomeLine.FindStringSubmatch(lines.Text()); m != nil {
			outcomes = append(outcomes, m[1])
		}
	}
	_ = cmd.Wait() // 1 where a scenario fails, which the outcomes tell
	return outcomes
}

var outcomeLine = regexp.MustCompile(`^[✓✗~] (\S+: \d+ passed, \d+ failed)`)

// TestMCPsConformanceSuiteJudgesTheAuthorizationServer: the suite reads the metadata, and walks an
// authorization code grant to its token.
func TestMCPsConformanceSuiteJudgesTheAuthorizationServer(t *testing.T) {
	d := openDoor(t, "")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	var request string
	got := suite(t, func(line string) {
		if strings.HasPrefix(line, d.url+"/oauth/authorize?") {
			request = line
		}
		if !strings.HasPrefix(line, "Callback server started") { // it is said later than the request
			return
		}
		d.answer(d.asked(d.dev, request))
		back := d.get(d.dev, request)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, back.at.String(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		d.do(http.DefaultClient, r)
	}, "authorization", "--url", d.url, "--client-id", "inspector", "--resource", d.url+"/agents/notes", "--port", port)
	want := []string{"authorization-server-metadata-endpoint: 1 passed, 0 failed", "authorization-code-grant: 1 passed, 0 failed"}
	if !slices.Equal(got, want) {
		t.Errorf("the suite judges\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var judgedTool = regexp.MustCompile(`Name: +"((?:test|json_schema)_\w+)",\s+Description`)

// judgedServer builds and starts the server on MCP's Go SDK that the suite judges, and returns its
// URL and its tools.
func judgedServer(t *testing.T) (at string, tools []string) {
	t.Helper()
	const module = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
	bin := filepath.Join(t.TempDir(), "everything")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, module).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range judgedTool.FindAllStringSubmatch(string(source), -1) {
		tools = append(tools, m[1])
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	cmd := exec.CommandContext(t.Context(), bin, "-stateless=false", "-http", free.Addr().String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		c, err := net.Dial("tcp", free.Addr().String())
		if err == nil {
			_ = c.Close()
			return "http://" + free.Addr().String(), tools
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// TestMCPsConformanceSuiteJudgesAProtectedServer: a server on MCP's SDK behaves behind the gateway,
// which requires a token, as the suite wants. docs/assurance/mcp-conformance.md has the outcomes.
func TestMCPsConformanceSuiteJudgesAProtectedServer(t *testing.T) {
	upstream, tools := judgedServer(t)
	d := openDoorAs(t, "", false, func(dir, text string) string {
		head, _, _ := strings.Cut(text, "agents:")
		var skills strings.Builder
		for _, operation := range []string{"read", "follow", "unfollow", "prompt", "complete"} {
			fmt.Fprintf(&skills, "    - {skill: method_%s, grant: all, operation: %s, effect: read}\n", operation, operation)
		}
		for _, tool := range tools {
			fmt.Fprintf(&skills, "    - {skill: %s, grant: all, operation: %s, effect: read}\n", tool, tool)
		}
		if err := os.WriteFile(filepath.Join(dir, "all.cedar"), []byte(`permit(principal == User::"user:dev", action in Action::"notes/all", resource in Agent::"notes");`), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.Replace(head, "notes.cedar", "all.cedar", 1) + fmt.Sprintf(`agents:
  - id: notes
    protocol: mcp
    upstream: %q
    mode: require
    mcp:
      methods: {resources/read: all/read, resources/subscribe: all/follow, resources/unsubscribe: all/unfollow, prompts/get: all/prompt, completion/complete: all/complete}
      server_requests: [sampling/createMessage, elicitation/create, roots/list]
offers: {notes: [{id: all, description: Everything, operations: [read, follow, unfollow, prompt, complete, %s]}]}
skills:
  notes:
%soauth: {agents: [notes], clients: [{id: inspector, redirect_uris: ["http://127.0.0.1/callback"]}]}
`, upstream, strings.Join(tools, ", "), skills.String())
	})
	token := d.granted("all").Access
	to, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	// The suite sends no token, so this adds it. Requests come to it as to the listener of
	// powerbox serve, which looks at Host and Origin first.
	with := httptest.NewUnstartedServer(nil)
	with.Config.Handler = serve.GuardHosts(with.Listener.Addr(), &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.URL.Path = "/agents/notes"
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	with.Start()
	t.Cleanup(with.Close)
	got := suite(t, func(string) {}, "server", "--url", with.URL, "--spec-version", "2025-11-25")
	var failed []string
	for _, one := range got {
		if !strings.HasSuffix(one, " 0 failed") {
			failed = append(failed, one)
		}
	}
	if len(got) != 31 || len(failed) > 0 {
		t.Errorf("of %d scenarios these failed: %q; want 31 and none", len(got), failed)
	}
}
