package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// hostileServer is an agent and an MCP server, each with hostile texts wherever they choose texts.
func hostileServer(t *testing.T) (url, card string) {
	t.Helper()
	var described []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &asked)
		answer := map[string]any{"jsonrpc": "2.0", "id": asked.ID}
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".json"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(described)
			return
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case asked.Method == "initialize":
			answer["result"] = map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": hostile, "version": hostile}}
		case asked.Method == "tools/list":
			answer["result"] = map[string]any{"tools": []any{map[string]any{
				"name": hostile, "description": hostile, "inputSchema": map[string]any{"type": "object"}, "annotations": map[string]any{"title": hostile, "readOnlyHint": true},
			}}}
		case strings.HasPrefix(asked.Method, "notifications/"):
			w.WriteHeader(http.StatusAccepted)
			return
		default:
			answer["error"] = map[string]any{"code": -32000, "message": hostile}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	described, err := json.Marshal(map[string]any{
		"name": hostile, "description": hostile, "version": hostile, "capabilities": map[string]any{}, "defaultInputModes": []string{hostile}, "defaultOutputModes": []string{"text/plain"},
		"supportedInterfaces": []any{map[string]any{"url": server.URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
		"skills":              []any{map[string]any{"id": hostile, "name": hostile, "description": hostile, "tags": []string{hostile}}, map[string]any{"id": "search", "name": "s", "description": "d", "tags": []string{"t"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return server.URL, string(described)
}

// TestATK132_TextsOfAgentsForgeNoLine has the program print texts of a hostile agent, MCP server and
// card, and errors about them.
func TestATK132_TextsOfAgentsForgeNoLine(t *testing.T) {
	url, card := hostileServer(t)
	w := start(t, options{mode: "observe"})
	w.write("card.json", card)
	w.write("token.txt", strings.Repeat("e30.", 2)+"x")
	forged := 0
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = w.dir
		out, _ := cmd.CombinedOutput() // some are refused
		text := string(out)
		forged += strings.Count(text, "FORGED")
		for line := range strings.Lines(text) {
			begins := strings.HasPrefix(line, "FORGED") || strings.HasPrefix(strings.TrimSpace(line), "FORGED") && !strings.HasPrefix(text, "powerbox: ")
			if begins || strings.ContainsFunc(strings.TrimRight(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
				t.Errorf("powerbox %q prints a line that an agent wrote, or that a terminal obeys: %q", args, line)
			}
		}
		if strings.Contains(text, "panic") {
			t.Errorf("powerbox %q: %s", args, text)
		}
	}
	for n, of := range [][]string{{"--agent", url}, {"--mcp", url + "/mcp"}} {
		run(append([]string{"init", "--out", filepath.Join(w.dir, []string{"one", "two"}[n], "powerbox.yaml")}, of...)...)
	}
	run("keys", "new", "holder.jwk")
	for _, args := range [][]string{
		{"card", "lint", "card.json"},
		{"card", "show", "card.json"},
		{"card", "check", "card.json"},
		{"card", "check", "card.json", "--skill", "nosuch"},
		{"card", "check", "--private", url},
		{"call", url, "--skill", "search", "--key", "holder.jwk"},
		{"call", url, "--skill", "search", "--key", "holder.jwk", "--feature", hostile},
		{"request", url, "--grant", "x", "--purpose", "p", "--key", "holder.jwk", "--session", aliceToken},
		{"card", "show", hostile},
		{hostile},
		{"registry", "register", "card.json", "--id", "hostile", "-c", "powerbox.yaml"},
		{"registry", "search", "-c", "powerbox.yaml"},
		{"explain", hostile, "-c", "powerbox.yaml"},
		{"freeze", "agent:" + hostile, "--reason", hostile, "-c", "powerbox.yaml"},
		{"token", "inspect", "token.txt"},
		{"graph", "show", "--cards", "card.json", "-c", "powerbox.yaml"},
	} {
		run(args...)
	}
	if forged < 20 {
		t.Errorf("the commands show hostile texts %d times; want to see what becomes of them", forged)
	}
}
