package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// TestCARD19_RegistryFindsMCPServers searches for an MCP server by its tools and its binding, as
// an operator and as users whom policy grants something of it, or nothing.
func TestCARD19_RegistryFindsMCPServers(t *testing.T) {
	asGiven(t)
	at, dir := "127.0.0.1:"+freePort(t), t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	alice, mallory := put("alice", "alice-token"), put("mallory", "mallory-token")
	put("notes.cedar", `permit(principal == User::"user:alice", action in Action::"notes/notes:read", resource in Agent::"notes");`)
	file := put("powerbox.yaml", fmt.Sprintf(`listen: %s
issuer: {url: "http://%s", directory: data}
identity: {dev: [{name: alice, token: alice-token}, {name: mallory, token: mallory-token}]}
agents: [{id: notes, protocol: mcp, upstream: "http://127.0.0.1:9/mcp", mode: scoped}]
offers: {notes: [{id: "notes:read", description: Look, operations: [read_note]}]}
skills: {notes: [{skill: read_note, grant: "notes:read", operation: read_note, effect: read}]}
policies: [notes.cedar]
`, at, at))
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, "serve", "--dev", "--config", file), b.url)
	for args, want := range map[string]bool{
		"read_note":                   true,
		"--skill read_note":           true,
		"--binding MCP":               true,
		"--session-file " + alice:     true,
		"--session-file " + mallory:   false,
		"--skill delete_note":         false,
		"--binding JSONRPC":           false,
		"--version 1.0":               false,
		"--binding MCP --version 1.0": false,
		"--feature send_message":      false,
		"--operation notes/notes:read/read_note --binding MCP": true,
	} {
		cmd := exec.Command(binary, append([]string{"registry", "search", "--config", file}, strings.Fields(args)...)...)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), b.url+"/agents/notes") != want {
			t.Errorf("registry search %s: %v, %s; want the server to be found: %t", args, err, out, want)
		}
	}
	card := put("card.json", publicCard(t, b.url+"/agents/notes"))
	if out, err := exec.Command(binary, "card", "lint", card).CombinedOutput(); err != nil {
		t.Errorf("the card of the MCP server: %v\n%s", err, out)
	}
}

// publicCard is the card of an agent, as anyone gets it.
func publicCard(t *testing.T, agent string) string {
	t.Helper()
	answer, err := http.Get(agent + "/.well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	card, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(card)
}
