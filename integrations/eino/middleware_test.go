package powerboxeino_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxeino "github.com/powerbox-project/powerbox/integrations/eino"
)

// gateThat answers every question with a decision, and notes the outcomes.
func gateThat(t *testing.T, allows bool) (*guard.Tools, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var outcomes []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var told struct{ Status string }
		_ = json.NewDecoder(r.Body).Decode(&told) // a question has none
		if strings.HasSuffix(r.URL.Path, "/outcome") {
			mu.Lock()
			outcomes = append(outcomes, told.Status)
			mu.Unlock()
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"decision": allows, "context": map[string]any{ // the client may be gone
			"id": "rec_1", "text": "no", "reasons": []any{map[string]any{"code": "outside_caller_scope"}},
		}})
	}))
	t.Cleanup(s.Close)
	return &guard.Tools{Gate: &guard.Gate{URL: s.URL, Token: "t", HTTP: s.Client()}, Target: "tools"}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return outcomes
	}
}

// calls makes a call of each kind of tool, and returns what the model gets.
func calls(t *testing.T, m compose.ToolMiddleware, name string, ran *int, fails error) []string {
	t.Helper()
	in := &compose.ToolInput{Name: name, Arguments: `{"agent_name":"b"}`}
	ctx := t.Context()
	result := &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: "done"}}}
	enters := func() error { *ran++; return fails }
	var said []string
	if out, err := m.Invokable(func(context.Context, *compose.ToolInput) (*compose.ToolOutput, error) {
		return &compose.ToolOutput{Result: "done"}, enters()
	})(ctx, in); err == nil {
		said = append(said, out.Result)
	}
	if out, err := m.EnhancedInvokable(func(context.Context, *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
		return &compose.EnhancedInvokableToolOutput{Result: result}, enters()
	})(ctx, in); err == nil {
		said = append(said, out.Result.Parts[0].Text)
	}
	if out, err := m.Streamable(func(context.Context, *compose.ToolInput) (*compose.StreamToolOutput, error) {
		return &compose.StreamToolOutput{Result: schema.StreamReaderFromArray([]string{"do", "ne"})}, enters()
	})(ctx, in); err == nil {
		said = append(said, read(t, out.Result, func(s string) string { return s }))
	}
	if out, err := m.EnhancedStreamable(func(context.Context, *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
		return &compose.EnhancedStreamableToolOutput{Result: schema.StreamReaderFromArray([]*schema.ToolResult{result})}, enters()
	})(ctx, in); err == nil {
		said = append(said, read(t, out.Result, func(r *schema.ToolResult) string { return r.Parts[0].Text }))
	}
	return said
}

func read[T any](t *testing.T, from *schema.StreamReader[T], text func(T) string) string {
	t.Helper()
	defer from.Close()
	out := ""
	for {
		part, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out += text(part)
	}
}

// Tools of every kind, and transfers, do not run if they are denied.
func TestDeniedToolsDoNotRun(t *testing.T) {
	for _, name := range []string{"read_file", "transfer_to_agent"} {
		tools, outcomes := gateThat(t, false)
		ran := 0
		said := calls(t, powerboxeino.Middleware(tools, "a"), name, &ran, nil)
		if ran != 0 || len(outcomes()) != 0 || len(said) != 4 {
			t.Errorf("%s ran %d times, said %q, told %q", name, ran, said, outcomes())
		}
		for _, one := range said {
			if !strings.Contains(one, "outside_caller_scope") || !strings.Contains(one, "rec_1") {
				t.Errorf("%s: the model gets %q", name, one)
			}
		}
	}
}

// The outcome of an allowed call is told, of a stream before its end is seen.
func TestOutcomesAreTold(t *testing.T) {
	for status, fails := range map[string]error{"ACHIEVED": nil, "FAILED": errors.New("disk")} {
		tools, outcomes := gateThat(t, true)
		ran := 0
		said := calls(t, powerboxeino.Middleware(tools, "a"), "read_file", &ran, fails)
		if got := strings.Join(outcomes(), " "); ran != 4 || got != strings.TrimSpace(strings.Repeat(status+" ", 4)) {
			t.Errorf("ran %d times, said %q, told %q; want %s", ran, said, got, status)
		}
	}
}
