package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOPS_InitOfAnMCPServerThatIsACommand: init starts the command, asks it for its tools
// and writes a configuration that observes them, with every guess marked and no variable
// of the environment in it but those that are named.
func TestOPS_InitOfAnMCPServerThatIsACommand(t *testing.T) {
	asGiven(t)
	dir := t.TempDir()
	run := func(args ...string) (string, int) {
		cmd := exec.Command(binary, args...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // its status is returned
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := run("init", "--id", "files", "--mcp-env", "SERVERS_WANTED", "--mcp", "--", os.Args[0], stdioServer)
	if code != 0 {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	for _, want := range []string{
		"skill delete_document is operation files:write/delete_document", "skill search_documents is operation files:read/search_documents",
		"powerbox gateway token --agent files", "--mcp-env SERVERS_WANTED --mcp-exec -- " + os.Args[0] + " " + stdioServer,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("init does not say %q:\n%s", want, out)
		}
	}
	yaml, err := os.ReadFile(filepath.Join(dir, "powerbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"protocol: mcp", "mode: observe", `{skill: "retrieve_document", grant: "files:read", operation: "retrieve_document", effect: read} # guess`} {
		if !strings.Contains(string(yaml), want) {
			t.Errorf("powerbox.yaml lacks %q:\n%s", want, yaml)
		}
	}
	if strings.Contains(string(yaml), stdioServer) {
		t.Error("the arguments of the command are in the file, where they could be a secret")
	}
	if out, code := run("config", "check"); code != 0 {
		t.Errorf("config check: exit %d\n%s", code, out)
	}
	// A server runs already where an agent is added: it reads the files again.
	if out, code := run("init", "--id", "more", "--mcp", "--add", "--", os.Args[0], stdioServer); code != 0 || !strings.Contains(out, "powerbox config reload\n") || !strings.Contains(out, "--listen 127.0.0.1:8702 ") || strings.Contains(out, "serve --dev") {
		t.Errorf("init --add: exit %d\n%s", code, out)
	}
	if out, _ := run("doctor"); !strings.Contains(out, "its gateway starts it as a command") || strings.Contains(out, "127.0.0.1:1/mcp") {
		t.Errorf("doctor calls the upstream of a server that its gateway starts:\n%s", out)
	}
	for args, want := range map[string]string{
		"init --out x.yaml --agent http://127.0.0.1:1":           "For an MCP server: powerbox init --mcp http://127.0.0.1:1",
		"init --out x.yaml --mcp http://127.0.0.1:1":             "For an A2A agent: powerbox init --agent http://127.0.0.1:1",
		"doctor -c empty.yaml":                                   "powerbox init --mcp URL",
		"init --out x.yaml --mcp -- true":                        "does not answer as an MCP server",
		"init --out x.yaml --mcp -- ./not-there":                 "the command of the MCP server cannot be started",
		"init --out x.yaml --mcp":                                "--mcp wants the URL of an MCP server, or its command",
		"init --out x.yaml --mcp --":                             "--mcp wants the URL of an MCP server, or its command",
		"init --out x.yaml --agent http://127.0.0.1:1 something": "a command goes behind --mcp --",
	} {
		if out, code := run(strings.Fields(args)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, want %q:\n%s", args, code, want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x.yaml")); err == nil {
		t.Error("a refused init wrote a file")
	}
}
