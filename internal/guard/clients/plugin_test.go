package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/guard/clients"
)

// play runs the plugin as opencode does, under Node: a session with a sub-agent, and calls of
// both. It prints what the plugin sends, and what it throws.
const play = `import { PowerboxGuard } from "./plugin.mjs"
const parents = { root: undefined, child: "root", lost: undefined, deep: "child" }
const client = { session: { get: async ({ path }) => (path.id in parents && path.id !== "lost" ? { data: { id: path.id, parentID: parents[path.id] } } : {}) } }
const hooks = await PowerboxGuard({ client, directory: "/p" })
const call = async (sessionID, tool, args) => {
  try {
    await hooks["tool.execute.before"]({ tool, sessionID, callID: "c" }, { args })
    console.log(sessionID, tool, "runs")
  } catch (e) {
    console.log(sessionID, tool, "stops:", e.message.split("\n")[0])
  }
}
await call("root", "bash", { command: "ls" })
await call("child", "bash", { command: "ls" })
await call("deep", "bash", { command: "ls" })
await call("lost", "bash", { command: "ls" })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "child" } } })
await call("root", "bash", { command: "deny" })
await call("root", "bash", { command: "broken" })
`

// The plugin asks before a tool runs, names the holder, and stops the call on a no, on a
// guard that fails, and for a session that it cannot find.
func TestPluginOfOpencodeStopsCalls(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	stub := filepath.Join(dir, "power'box")
	script := "#!/bin/sh\nread -r line || true\nprintf '%s\\n' \"$line\" >> '" + log + "'\ncase \"$line\" in *deny*) echo '{\"decision\":\"deny\",\"reason\":\"not granted\"}';; *broken*) exit 3;; *) echo '{\"decision\":\"allow\"}';; esac\n"
	c, err := clients.Find("opencode")
	if err != nil {
		t.Fatal(err)
	}
	var plugin string
	for _, f := range c.Settings(clients.Paths{Project: dir, Binary: stub}) {
		plugin += f.Whole
	}
	for name, text := range map[string]string{stub: script, filepath.Join(dir, "plugin.mjs"): plugin, filepath.Join(dir, "play.mjs"): play} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "play.mjs")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "root bash runs\nchild bash runs\ndeep bash runs\nlost bash stops: powerbox guard: the session is not known, so nothing runs\n" +
		"root bash stops: not granted\nroot bash stops: powerbox guard cannot be asked, so nothing runs: \n"
	if string(out) != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
	sent, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"root":"root","agent":"","parent":""`, `"root":"root","agent":"child","parent":""`, `"root":"root","agent":"deep","parent":"child"`, `"hook":"subagent.ended","directory":"/p","root":"root","agent":"child"`} {
		if !strings.Contains(string(sent), part) {
			t.Errorf("the plugin does not send %s:\n%s", part, sent)
		}
	}
}
