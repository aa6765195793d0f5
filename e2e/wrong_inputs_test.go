package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// TestWrongInputsSayWhatToDo runs call, can, explain and attach with wrong inputs, at an A2A agent
// and at an MCP server. Each names the mistake and the remedy.
func TestWrongInputsSayWhatToDo(t *testing.T) {
	asGiven(t)
	at, dir := "127.0.0.1:"+freePort(t), t.TempDir()
	var behind *httptest.Server
	behind = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"Docs","description":"d","version":"1","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
			"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"read_note","name":"r","description":"d","tags":["t"]}]}`, behind.URL)
	}))
	t.Cleanup(behind.Close)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("alice.session", "alice-token")
	put("policy.cedar", `permit(principal == User::"user:alice", action, resource);`)
	text := fmt.Sprintf(`listen: %s
issuer: {url: "http://%s", directory: data}
identity: {dev: [{name: alice, token: alice-token}]}
agents:
  - {id: notes, protocol: mcp, upstream: "http://127.0.0.1:9/mcp", mode: require}
  - {id: docs, upstream: %q, mode: require}
offers:
`, at, at, behind.URL)
	for _, id := range []string{"notes", "docs"} {
		text += fmt.Sprintf("  %s: [{id: \"%[1]s:read\", description: Look, operations: [read_note]}]\n", id)
	}
	text += "skills:\n"
	for _, id := range []string{"notes", "docs"} {
		text += fmt.Sprintf("  %s: [{skill: read_note, grant: \"%[1]s:read\", operation: read_note, effect: read}]\n", id)
	}
	put("powerbox.yaml", text+"policies: [policy.cedar]\n")
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, "serve", "--dev", "--config", filepath.Join(dir, "powerbox.yaml")), b.url)
	run := func(line string) (string, int) {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(line)...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // its status is returned
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("keys new holder.jwk"); code != 0 {
		t.Fatal(out)
	}
	as := " --key holder.jwk --session-file alice.session"
	if out, code := run("request " + b.url + "/agents/notes --grant notes:read --purpose p --out notes.json" + as); code != 0 {
		t.Fatal(out)
	}
	for _, of := range []string{"notes", "docs"} {
		agent := b.url + "/agents/" + of
		for _, c := range []struct {
			line string
			code int
			want string
		}{
			{"call " + agent + " --skill read_note" + as, 3, "request a capability with: powerbox request " + agent + " --grant " + of + ":read"},
			{"call " + agent + " --skill nothing" + as, 3, `the agent has no skill "nothing"; it has read_note`},
			{"call " + agent + " --skill read_note --arguments x" + as, 2, `--arguments is not JSON`},
			{"call " + agent + " --skill read_note --arguments [1]" + as, 2, `--arguments is no JSON object; want one such as {"title": "x"}`},
			{"call " + agent + "x --skill read_note" + as, 1, "there is no agent card at " + agent + "x: HTTP status 404 Not Found: no such agent; correct the agent's URL"},
			{"call " + agent + " --key holder.jwk", 2, "--skill skill is missing: skill to call; see powerbox call --help"},
			{"call " + agent + " --skill read_note --key holder.jwk --session-file none", 1, "--session-file: open none: no such file"},
			{"call " + agent + " --skill read_note --capability none.json" + as, 1, "write the file with: powerbox request --out none.json"},
			{"can x " + of + ":read/read_note on " + of, 1, `no calling agent "x" is configured`},
			{"can x " + of + ":read/read_note " + of, 2, "want: powerbox can CALLER OPERATION on AGENT"},
			{"can x y on " + of + " --arguments x", 2, "--arguments is not JSON"},
			{"explain powerbox.yaml", 4, "is no capability file, chain or token; want a file that powerbox request wrote"},
			{"explain none.json", 2, "is not a file, a compact token or an id"},
			{"explain rec_x", 1, "there is no such id"},
			{"attach --card " + agent, 2, "--key is missing"},
			{"attach --card " + agent + " --key holder.jwk --listen 0.0.0.0:1", 2, "want a loopback address"},
			{"attach --card " + of + " --key holder.jwk", 2, "want an http or https URL"},
		} {
			out, code := run(c.line)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("powerbox %s: exit %d, want %d and %q:\n%s", c.line, code, c.code, c.want, out)
			}
			if strings.Count(out, "a2a/capabilities/request at") > 1 {
				t.Errorf("powerbox %s gives an advice twice:\n%s", c.line, out)
			}
		}
	}
	if out, code := run("call " + b.url + "/agents/docs --skill read_note --capability notes.json" + as); code != 2 || !strings.Contains(out, "the file has no capability of "+b.url+"/agents/docs; it has one of "+b.url+"/agents/notes") {
		t.Errorf("a capability of another agent: exit %d\n%s", code, out)
	}
}
