package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestATK163_URIsOfResources has a server of MCP's kit for TypeScript, which makes a URL of
// the URI of a resource before it looks it up, behind a grant of a folder. No URI that it
// takes for another resource gets through, by any method.
func TestATK163_URIsOfResources(t *testing.T) {
	port := freePort(t)
	agentProgram(t, nil, "node", filepath.Join("..", "bench", "differential", "agents", "resources.mjs"), "127.0.0.1:"+port)
	reachable(t, "http://127.0.0.1:"+port+"/ready")
	w := start(t, options{
		on: wire{overMCP, "2025-11-25"}, upstream: "http://127.0.0.1:" + port + "/mcp",
		agent:  "    mcp: {methods: {resources/read: documents:read/search, resources/subscribe: documents:read/search, resources/unsubscribe: documents:read/search}}\n",
		search: `, arguments: {uri: {constraint_type: glob, pattern: "file:///public/*"}}`,
	})
	alice := w.caller(aliceToken)
	c := alice.reports()
	ask := func(method, uri string) answer {
		t.Helper()
		return alice.raw(c.ID, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"uri":`+jsonOf(t, uri)+`}}`,
			"Mcp-Protocol-Version", "2025-11-25", "Accept", "application/json, text/event-stream")
	}
	if a := ask("resources/read", "file:///public/report"); a.Error != nil || !strings.Contains(string(a.Raw), "text of file:///public/report") {
		t.Fatalf("ATK-163 %s", a.Raw)
	}
	denied(t, ask("resources/read", "file:///salaries"), "argument_constraint")
	for what, uri := range map[string]string{
		"dots": "file:///public/../salaries", "escaped dots": "file:///public/%2e%2E/salaries", "a backslash": `file:///public/..\salaries`,
		"a tab between dots": "file:///public/.\t./salaries", "a line end": "file:///public/.\n./salaries", "a letter beyond ASCII": "file:///public/\u00fc",
		"an escaped slash": "file:///public/..%2Fsalaries",
	} {
		for _, method := range []string{"resources/read", "resources/subscribe", "resources/unsubscribe"} {
			a := ask(method, uri)
			if strings.Contains(string(a.Raw), "text of") || a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("ATK-163 %s with %s: %s; want invalid parameters", method, what, a.Raw)
			}
		}
		a := alice.stateless26(c.ID, "subscriptions/listen", `"notifications":{"resourceSubscriptions":[`+jsonOf(t, uri)+`]}`, "")
		if a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("ATK-163 a subscription with %s: %s; want invalid parameters", what, a.Raw)
		}
	}
}
