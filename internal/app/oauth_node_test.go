package app_test

import (
	"bufio"
	"io"
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

// TestTheMCPTypeScriptClientReachesAToolWithOneApproval has the client of MCP's TypeScript
// SDK, with the SDK's own OAuth support, reach a tool with one approval, step up for another
// one, and lose both when the person revokes what they approved.
func TestTheMCPTypeScriptClientReachesAToolWithOneApproval(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("the client needs node: run make test-deps")
	}
	d := openDoorTo(t, "", false)
	cmd := exec.CommandContext(t.Context(), node, "../../bench/differential/agents/oauth.mjs", d.url+"/agents/notes", "inspector", "http://127.0.0.1:4711/callback")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var wrong strings.Builder
	cmd.Stderr = &wrong
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	says := func() string {
		t.Helper()
		if !said.Scan() {
			_ = cmd.Wait()
			t.Fatalf("the client said nothing more; npm ci in bench/differential/agents installs its packages\n%s", wrong.String())
		}
		return said.Text()
	}
	tell := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	back := func(q url.Values) { t.Helper(); tell("http://127.0.0.1:4711/callback?" + q.Encode()) }
	want := func(text string) {
		t.Helper()
		if got := says(); got != text {
			t.Fatalf("the client says %q; want %q\n%s", got, text, wrong.String())
		}
	}
	back(d.code(d.dev, says(), "delete"))
	want("connected")
	tell("read_note")
	want("did read_note")
	tell("delete_note")
	back(d.codeByAPI(d.dev, says()))
	want("did delete_note")
	tell("read_note")
	want("did read_note")
	d.revokeAll(d.dev)
	before := d.calls.Load()
	tell("read_note")
	if got := says(); !strings.HasPrefix(got, d.url+"/oauth/authorize?") || d.calls.Load() != before {
		t.Errorf("after the revocation the client says %q; want that a person has to authorize", got)
	}
	_ = in.Close()
	_ = cmd.Wait() // it waits for the person
}
