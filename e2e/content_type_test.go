package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestATK27_BodiesThatAreNotReadAreErrorsOfTheirBinding: in every mode that enforces, a
// body of another type, or a compressed one, is refused with an error of JSON-RPC where
// the binding is JSON-RPC or MCP, also at the URL of a skill, and reaches no agent.
func TestATK27_BodiesThatAreNotReadAreErrorsOfTheirBinding(t *testing.T) {
	for _, mode := range []string{"scoped", "prefer", "require"} {
		for _, on := range []wire{{}, {"JSON-RPC", "0.3"}, {overMCP, "2025-11-25"}} {
			t.Run(mode+" "+on.String(), func(t *testing.T) {
				w := start(t, options{on: on, mode: mode})
				body := `{"jsonrpc":"2.0","id":"c7","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`
				paths := []string{"", "/skills/search_documents"}
				if on.binding == overMCP {
					body, paths = `{"jsonrpc":"2.0","id":"c7","method":"tools/list"}`, paths[:1]
				}
				for _, path := range paths {
					for what, h := range map[string]http.Header{
						"text":       {"Content-Type": {"text/plain"}},
						"no type":    {"Content-Type": {""}},
						"compressed": {"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
					} {
						h.Set("Accept", "application/json, text/event-stream")
						status, header, _, out := w.raw(http.DefaultClient, http.MethodPost, w.agentURL("documents")+path, h, body)
						var said struct {
							Version string `json:"jsonrpc"`
							ID      any    `json:"id"`
							Error   *struct {
								Code    int    `json:"code"`
								Message string `json:"message"`
							} `json:"error"`
						}
						err := json.Unmarshal([]byte(out), &said)
						if err != nil || status != http.StatusUnsupportedMediaType || header.Get("Content-Type") != "application/json" || said.Version != "2.0" || said.Error == nil || said.Error.Message == "" {
							t.Errorf("ATK-27 %s at %q: %d %s %s", what, path, status, header.Get("Content-Type"), out)
							continue
						}
						if what != "compressed" && (said.Error.Code != -32005 || said.ID != "c7") {
							t.Errorf("ATK-27 %s at %q: %s", what, path, out)
						}
					}
				}
				for _, got := range w.documents.got() {
					if strings.Contains(string(got.body), "c7") {
						t.Errorf("ATK-27 it reached the agent: %s", got.body)
					}
				}
			})
		}
	}
}
