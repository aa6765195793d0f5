package e2e

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCallersNeverSeeTheOperatorsSecret has the built program add a secret to decided calls
// of every A2A binding: the agent gets it, and it is in no answer, log or file of the
// state, although the agent says it back.
func TestCallersNeverSeeTheOperatorsSecret(t *testing.T) {
	const secret = "canary-7f3a91c0d25e"
	everyBinding(t, func(t *testing.T, on wire) {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w := start(t, options{on: on, agent: "    credential: {file: " + file + ", header: X-Api-Key}\n    headers: [X-Api-Key]\n"})
		echoes := func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("X-Said-Back", r.Header.Get("X-Api-Key"))
		}
		w.documents.sees(echoes)
		alice := w.caller(aliceToken)
		held := alice.reports()
		body := data("search_documents", map[string]any{})
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		h.Set("X-Api-Key", "a caller's own")
		a := w.post(w.agentURL("documents"), body, h)
		allowed(t, a)
		got := w.documents.got()
		if len(got) != 1 || len(got[0].header.Values("X-Api-Key")) != 1 || got[0].header.Get("X-Api-Key") != secret {
			t.Fatalf("the agent got %v", got)
		}
		w.documents.forget()
		if a := w.post(w.agentURL("documents"), body, nil); a.Error == nil || len(w.documents.got()) != 0 {
			t.Errorf("a stranger's call reached the agent: %s", a.Raw)
		}
		bundle, _ := w.bundle()
		seen := map[string][]byte{"the answer": a.Raw, "the log": []byte(w.log.String()), "the evidence": bundle}
		for name, values := range a.Header {
			seen["header "+name] = []byte(strings.Join(values, ", "))
		}
		for what, text := range seen {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has the secret: %s", what, text)
			}
		}
		err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has the secret", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
