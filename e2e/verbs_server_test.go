package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ownServer are verbs whose --server says something else than which running server to ask.
var ownServer = map[string]string{
	"gateway enroll": "a gateway pins the server that it enrolls at",
	"relay":          "a relay follows several servers",

	"evidence archive": "it verifies a bundle before it looks for a server",
}

// verbArguments are command lines for verbs that look at their arguments before they look for a
// server. FILE is a readable file.
var verbArguments = map[string]string{
	"policy replay":     "--new FILE",
	"registry register": "FILE",
	"freeze":            "agent:x --reason x",
	"thaw":              "agent:x --reason x",
	"revoke":            "cap_x",
	"explain":           "rec_x",
	"can":               "client:x x on x",
	"trace":             "rec_x",
	"evidence erase":    "--record rec_x --yes",
	"feed extend":       "--until 2099-01-02T15:04:05Z --reason x",
}

var (
	verbLine     = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)  +\S`)
	requiredFlag = regexp.MustCompile(`(?m)^ .*--([a-z-]+) .*\(required\)`)
	notNeeded    = regexp.MustCompile(`\[[^\]]*\]|--[a-z-]+ [A-Z]+| \|.*`)
	placeholder  = regexp.MustCompile(` [A-Z][A-Z_-]*`)
	hasServer    = regexp.MustCompile(`(?m)^ +--server `)
)

// helpOf is what powerbox says about a command.
func helpOf(t *testing.T, path ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append(path, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("powerbox %v --help: %v\n%s", path, err, out)
	}
	return string(out)
}

// verbsOf calls see with every command that runs, and its help.
func verbsOf(t *testing.T, path []string, see func(path []string, help string)) {
	t.Helper()
	help := helpOf(t, path...)
	_, usage, _ := strings.Cut(help, "Usage:\n")
	usage, _, _ = strings.Cut(usage, "\n\n")
	for line := range strings.Lines(usage) {
		if !strings.HasSuffix(strings.TrimSpace(line), " [command]") {
			see(path, help)
			continue
		}
		for _, m := range verbLine.FindAllStringSubmatch(help, -1) {
			if m[1] != "help" && m[1] != "completion" {
				verbsOf(t, append(path[:len(path):len(path)], m[1]), see)
			}
		}
	}
}

// TestEveryVerbFindsItsServer runs every verb that has --server, as the help lists them. Without
// --server each asks the server of powerbox.yaml, or else the one of powerbox login, and says what
// to name where there is neither.
func TestEveryVerbFindsItsServer(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, `{"detail": "no such page", "message": "no such page"}`, http.StatusNotFound)
	}))
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(`{"issuer": {"url": "http://127.0.0.1:1"}, "agents": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	home := func(servers ...string) string {
		home := t.TempDir()
		sessions := filepath.Join(home, "powerbox", "sessions")
		if err := os.MkdirAll(sessions, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			data, _ := json.Marshal(map[string]any{"server": s, "id_token": "token", "expires": time.Now().Add(time.Hour)})
			name := strings.NewReplacer("://", "_", ":", "_").Replace(s) + ".json"
			if err := os.WriteFile(filepath.Join(sessions, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return home
	}
	empty, configured := t.TempDir(), t.TempDir()
	text := fmt.Sprintf("issuer: {url: %q, directory: data}\nagents: []\n", server.URL)
	if err := os.WriteFile(filepath.Join(configured, "powerbox.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := ""
	// run returns how often the server was asked, and what the verb says. Logins are at servers.
	run := func(folder string, servers []string, args ...string) (int32, string) {
		asked.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Dir = folder
		at := home(servers...)
		cmd.Env = append(os.Environ(), "HOME="+at, "XDG_CONFIG_HOME="+at, "POWERBOX_OPERATOR_TOKEN="+shared)
		out, _ := cmd.CombinedOutput() // how it ends is not asked here
		return asked.Load(), string(out)
	}
	found := 0
	verbsOf(t, nil, func(path []string, help string) {
		verb := strings.Join(path, " ")
		if !hasServer.MatchString(help) || ownServer[verb] != "" {
			return
		}
		found++
		args := append(path[:len(path):len(path)], argumentsOfVerb(verb, help, file)...)
		reaches := func(n int32, out string) bool { return n > 0 || verb == "logout" && strings.Contains(out, server.URL) }
		if n, out := run(empty, nil, args...); n != 0 || !strings.Contains(out, "name the server with --server, or the configuration with --config") {
			t.Errorf("powerbox %q, where nothing names a server: %d requests\n%s", args, n, out)
		}
		if n, out := run(configured, []string{server.URL, "http://127.0.0.1:1"}, args...); !reaches(n, out) {
			t.Errorf("powerbox %q does not ask the server of powerbox.yaml\n%s", args, out)
		}
		if n, out := run(empty, []string{server.URL}, args...); !reaches(n, out) {
			t.Errorf("powerbox %q does not ask the server of powerbox login\n%s", args, out)
		}
		if n, out := run(empty, []string{server.URL, "http://127.0.0.1:1"}, args...); n != 0 || !strings.Contains(out, "several servers: ") {
			t.Errorf("powerbox %q, where logins are at two servers: %d requests\n%s", args, n, out)
		}
	})
	shared = "the-shared-token"
	if n, out := run(empty, []string{server.URL}, "report"); n != 0 || !strings.Contains(out, "name the server with --server") {
		t.Errorf("the shared token goes to a server that only a login names: %d requests\n%s", n, out)
	}
	if found < 50 {
		t.Errorf("the walk saw %d verbs; is it of the whole tree?", found)
	}
}

// argumentsOfVerb are arguments with which a verb runs: those that its usage names, and the flags that
// it requires.
func argumentsOfVerb(verb, help, file string) []string {
	if line, ok := verbArguments[verb]; ok {
		return strings.Fields(strings.ReplaceAll(line, "FILE", file))
	}
	var args []string
	_, usage, _ := strings.Cut(help, "Usage:\n")
	usage, _, _ = strings.Cut(usage, "\n")
	for range placeholder.FindAllString(notNeeded.ReplaceAllString(usage, ""), -1) {
		args = append(args, "x")
	}
	if strings.Contains(help, "--session-file file   file with your session") {
		args = append(args, "--as", "x")
	}
	for _, m := range requiredFlag.FindAllStringSubmatch(help, -1) {
		args = append(args, "--"+m[1], "x")
	}
	return args
}
