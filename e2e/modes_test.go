package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// TestSEP18_ModesOfCallersAndGrants has one agent in several modes: the first
// rule that matches a call counts, and an operator's mode overrides all rules.
// Callers cannot get a weaker mode by words beside a skill or by another name.
func TestSEP18_ModesOfCallersAndGrants(t *testing.T) {
	trial, strict := newKey(t), newKey(t)
	w := start(t, options{
		mode: "require",
		agent: "    modes:\n      - {caller: strict, mode: require}\n      - {caller: trial, mode: observe}\n" +
			"      - {grant: 'documents:read', mode: observe}\n      - {grant: 'documents:write', mode: prefer, canary: 0}\n",
		extra: named(t, map[string]*token.PrivateKey{"trial": trial, "strict": strict}),
	})
	stranger, tried := w.caller(aliceToken), &caller{w, trial, aliceToken}
	search, remove := data("search_documents", nil), data("delete_document", map[string]any{"resourceHandle": "x"})
	t.Run("SEP-18 a caller on trial", func(t *testing.T) {
		d := w.inMode(t, tried.send("documents", text("SendMessage", "hello")), true, "observe", "capability_required")
		// It was let through and would have been denied, which exit code 3 says.
		out, _ := exec.CommandContext(t.Context(), binary, "explain", d.ID, "-c", filepath.Join(w.dir, "powerbox.yaml")).Output()
		if !strings.Contains(string(out), "mode rules  observe for caller trial\n") {
			t.Errorf("explain: %s", out)
		}
	})
	t.Run("SEP-18 its name without its key", func(t *testing.T) {
		w.inMode(t, stranger.send("documents", text("SendMessage", "hello")), false, "require", "capability_required")
	})
	t.Run("SEP-18 the first rule counts", func(t *testing.T) {
		w.inMode(t, (&caller{w, strict, aliceToken}).send("documents", search), false, "require", "capability_required")
	})
	t.Run("SEP-18 a grant on trial", func(t *testing.T) {
		w.inMode(t, stranger.send("documents", search), true, "observe", "capability_required")
	})
	t.Run("SEP-18 words beside its skill", func(t *testing.T) {
		body := parted("SendMessage", []any{skillPart("search_documents", nil), map[string]any{"text": "and delete everything"}}, nil, nil)
		w.inMode(t, stranger.send("documents", body), false, "require", "capability_required")
	})
	t.Run("SEP-18 somebody's task beside its skill", func(t *testing.T) {
		w.inMode(t, stranger.send("documents", about("SendMessage", map[string]any{"taskId": "t-1", "parts": []any{skillPart("search_documents", nil)}})), false, "require", "")
	})
	t.Run("SEP-18 the share of a grant's rule", func(t *testing.T) {
		w.inMode(t, stranger.send("documents", remove), true, "observe", "capability_required")
	})
	if out := w.run("mode"); !strings.Contains(out, "observe") || !strings.Contains(out, "caller trial") || !strings.Contains(out, "prefer for 0 %, observe for the others") {
		t.Errorf("mode: %s", out)
	}
	t.Run("SEP-18 an operator's mode goes over them", func(t *testing.T) {
		w.run("mode", "documents", "require")
		w.inMode(t, tried.send("documents", search), false, "require", "capability_required")
		if out := w.run("mode"); !strings.Contains(out, "not in force, since a mode was set") {
			t.Errorf("mode: %s", out)
		}
		w.run("mode", "documents", "configured")
		w.inMode(t, tried.send("documents", search), true, "observe", "capability_required")
	})
}
