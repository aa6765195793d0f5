package a2a

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
)

type cardCase struct {
	Rewrite Rewrite
	Params  json.RawMessage
	Error   string
}

// Each file of testdata/card has the card of the agent, the rewrite, and the values that
// are read (view) and written (want) or the error.
func TestCard(t *testing.T) {
	files, err := os.ReadDir("testdata/card")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(f.Name(), ".txtar"), func(t *testing.T) { testCard(t, "testdata/card/"+f.Name()) })
	}
}

func testCard(t *testing.T, path string) {
	parts := sections(t, path)
	var c cardCase
	if err := json.Unmarshal(parts["rewrite"], &c); err != nil {
		t.Fatal(err)
	}
	c.Rewrite.Params = c.Params
	if want, ok := parts["view"]; ok {
		view, err := ReadCard(parts["card"])
		if err != nil {
			t.Fatal(err)
		}
		got, _ := json.MarshalIndent(struct {
			CardView
			Holder string `json:",omitempty"`
		}{view, string(view.Holder)}, "", " ")
		if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
			t.Errorf("view (-want +got):\n%s", diff)
		}
	}
	got, err := RewriteCard(parts["card"], c.Rewrite)
	if err != nil {
		if diff := cmp.Diff(c.Error, err.Error()); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		return
	}
	if diff := cmp.Diff(string(parts["want"]), string(got)+"\n"); diff != "" || c.Error != "" {
		t.Errorf("want error %q, card (-want +got):\n%s", c.Error, diff)
	}
	var sdk a2a.AgentCard
	if err := json.Unmarshal(got, &sdk); err != nil {
		t.Errorf("a2a-go cannot read the card: %v", err)
	}
	for _, i := range sdk.SupportedInterfaces {
		if i.URL != c.Rewrite.PublicURL {
			t.Errorf("a2a-go reads the URL %q", i.URL)
		}
	}
}

// The extended card is a way to the agent as much as the public one.
func TestRewriteCardAnswer(t *testing.T) {
	to := func(card []byte) ([]byte, error) {
		return RewriteCard(card, Rewrite{PublicURL: "https://gate.example/a"})
	}
	got, err := RewriteCardAnswer([]byte(` {"jsonrpc":"2.0", "result":{"url":"http://b/"}, "id" : 1}`), to)
	if want := ` {"jsonrpc":"2.0", "result":{"url":"https://gate.example/a","capabilities":`; err != nil ||
		!strings.HasPrefix(string(got), want) || !strings.HasSuffix(string(got), `}, "id" : 1}`) {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	failed := `{"jsonrpc":"2.0","id":1,"error":{"code":-32007}}`
	if got, err := RewriteCardAnswer([]byte(failed), to); err != nil || string(got) != failed {
		t.Errorf("an error answer becomes %s, %v", got, err)
	}
	for _, bad := range []string{`{`, `{"result":[]}`, `{"Result":{"url":"http://b/"}}`} {
		if got, err := RewriteCardAnswer([]byte(bad), to); err == nil {
			t.Errorf("%s becomes %s; want an error", bad, got)
		}
	}
}

// sections reads a txtar file: a comment, then "-- name --" before each part.
func sections(t *testing.T, path string) map[string][]byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(rest, " --\n")
			parts[name] = nil
			continue
		}
		parts[name] = append(parts[name], line...)
	}
	return parts
}

// EXT-38: what an agent's card asks of clients is known, so that it reaches the agent.
func TestEXT38_KeyHeaders(t *testing.T) {
	const schemes = `{"one":{"apiKeySecurityScheme":{"location":"header","name":"x-api-key"}},"two":{"type":"apiKey","in":"header","name":"X-Old-Key"},` +
		`"three":{"type":"apiKey","in":"cookie","name":"session"},"four":{"type":"http","in":"header","name":"X-Forwarded-User"},"five":{"type":"apiKey","in":"query","name":"key"},"six":[]}`
	v, err := ReadCard([]byte(`{"name":"a","securitySchemes":` + schemes + `}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"X-Api-Key", "X-Old-Key", "Cookie"}, v.KeyHeaders); diff != "" {
		t.Error(diff)
	}
}
