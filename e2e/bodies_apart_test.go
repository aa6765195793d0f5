package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keeps are the files of a remote gateway that hold some bytes.
func (r *replica) keeps(what string) []string {
	r.w.t.Helper()
	var found []string
	err := filepath.WalkDir(r.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that was deleted meanwhile keeps nothing
		}
		data, err := os.ReadFile(path)
		// A body is in base64 on its way, so it is looked for in both forms.
		if err == nil && (bytes.Contains(data, []byte(what)) || bytes.Contains(data, []byte(`"Bytes"`))) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		r.w.t.Fatal(err)
	}
	return found
}

// TestEXT26_BodiesAtARemoteGateway has what callers said at a remote gateway stand beside
// the records at the server, where it can be erased; none of it stays at the gateway. What
// was said while the server was away, and before the gateway was killed, arrives as well.
func TestEXT26_BodiesAtARemoteGateway(t *testing.T) {
	w, all := startRemote(t, 1, options{agent: keepArguments})
	alice := w.caller(aliceToken)
	shown := func(id string) string {
		out, code := w.cli("evidence", "show", id, "--body")
		if code != 0 {
			return ""
		}
		return strings.TrimSpace(out)
	}
	first := alice.saying("canary-first")
	if got := shown(first.ID); got != `{"query":"canary-first"}` {
		t.Errorf("EXT-26 the body is shown as %q", got)
	}
	w.soon("the gateway to forget the body", func() bool { return len(all[0].keeps("canary")) == 0 })

	held := alice.request("documents", map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"}})[0]
	say := func(text string) answer {
		return alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{"query": text}, "capabilityId": held.ID})
	}
	allowed(t, say("known"))
	killed(t, w.process)
	late := say("canary-late")
	allowed(t, late)
	id := late.Header.Get("Powerbox-Decision")
	if len(all[0].keeps("canary")) == 0 {
		t.Error("EXT-26 the body that the server does not have is nowhere")
	}
	killed(t, all[0].process)
	w.boot()
	all[0].boot()
	w.soon("the body to arrive", func() bool { return shown(id) == `{"query":"canary-late"}` })
	w.soon("the gateway to forget that body", func() bool { return len(all[0].keeps("canary")) == 0 })

	plain := w.handed()
	w.withBodies(plain)
	if v := plain.audits(); v.Verdict != "ok" || plain.bodies() != "3 bodies beside the records: 3 opened, 0 erased, 0 not in this bundle" {
		t.Errorf("EXT-26 %+v, %s", v, plain.bodies())
	}
	w.run("evidence", "erase", "--record", id, "--yes")
	if got := shown(id); got != "" {
		t.Errorf("EXT-26 an erased body is shown: %s", got)
	}
}
