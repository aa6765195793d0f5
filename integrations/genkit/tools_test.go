package powerboxgenkit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxgenkit "github.com/powerbox-project/powerbox/integrations/genkit"
)

// A tool does not run if it is denied, or if the context names no agent, and the model
// gets the refusal.
func TestDeniedToolsDoNotRun(t *testing.T) {
	allows := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"decision": allows, "context": map[string]any{ // the client may be gone
			"id": "rec_1", "text": "no", "reasons": []any{map[string]any{"code": "outside_caller_scope"}},
		}})
	}))
	defer s.Close()
	tools := &guard.Tools{Gate: &guard.Gate{URL: s.URL, Token: "t", HTTP: s.Client()}, Target: "tools"}
	ran := 0
	read := powerboxgenkit.DefineTool(genkit.Init(t.Context()), tools, "read_file", "Reads", func(*ai.ToolContext, path) (string, error) {
		ran++
		return "text", nil
	})
	says := func(agent string) string {
		out, err := read.RunRaw(powerboxgenkit.As(t.Context(), agent), map[string]any{"path": "/a"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := says("triage"); ran != 0 || !strings.Contains(got, "outside_caller_scope") || !strings.Contains(got, "rec_1") {
		t.Errorf("denied: ran %d times, the model gets %s", ran, got)
	}
	if _, err := powerboxgenkit.HandOver(powerboxgenkit.As(t.Context(), "triage"), tools, "refunds"); err == nil {
		t.Error("a denied hand-off gives a context")
	}
	allows = true
	if got := says(""); ran != 0 || !strings.Contains(got, "authorization_unavailable") {
		t.Errorf("without an agent: ran %d times, the model gets %s", ran, got)
	}
	if got := says("triage"); ran != 1 || !strings.Contains(got, "text") {
		t.Errorf("allowed: ran %d times, the model gets %s", ran, got)
	}
	ctx, err := powerboxgenkit.HandOver(powerboxgenkit.As(t.Context(), "triage"), tools, "refunds")
	if err != nil || powerboxgenkit.Acting(ctx) != "refunds" {
		t.Errorf("an allowed hand-off: %v", err)
	}
}
