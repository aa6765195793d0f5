// Command driver runs the conformance cases on the ADK, with a scripted model.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	powerboxadk "github.com/powerbox-project/powerbox/integrations/adk"
	"github.com/powerbox-project/powerbox/integrations/conformance"
)

func main() {
	if err := conformance.Serve(context.Background(), os.Stdin, os.Stdout, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scripted is a model that makes the calls of its turns in order, and then ends.
type scripted struct {
	name  string
	turns [][]conformance.Call
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) GenerateContent(context.Context, *model.LLMRequest, bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		content := genai.NewContentFromText("done", genai.RoleModel)
		if len(s.turns) > 0 {
			content = &genai.Content{Role: genai.RoleModel}
			for n, c := range s.turns[0] {
				var args map[string]any
				if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
					yield(nil, err)
					return
				}
				content.Parts = append(content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: fmt.Sprint(s.name, n), Name: c.Tool, Args: args}})
			}
			s.turns = s.turns[1:]
		}
		yield(&model.LLMResponse{Content: content}, nil)
	}
}

func run(ctx context.Context, r *conformance.Run) error {
	ctx, tools, cancel := r.Tools(ctx)
	defer cancel()
	mapped := map[string]powerboxadk.Skill{"watch": {Agent: tools.Target, Skill: "watch"}}
	for _, name := range conformance.Functions() {
		mapped[name] = powerboxadk.Skill{Agent: tools.Target, Skill: name}
	}
	held, err := powerboxadk.New(powerboxadk.Config{
		Gate: tools.Gate, Tools: mapped, Wait: tools.Wait, Asked: tools.Asked, Decided: tools.Decided, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	root, err := hierarchy(r)
	if err != nil {
		return err
	}
	held.Know(root)
	p, err := held.Plugin()
	if err != nil {
		return err
	}
	runs, err := runner.New(runner.Config{
		AppName: "conformance", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{p}},
	})
	if err != nil {
		return err
	}
	mode := agent.StreamingModeNone
	if r.Request.Stream {
		mode = agent.StreamingModeSSE
	}
	var failed error
	for e, err := range runs.Run(ctx, "user", "session", genai.NewContentFromText("go", genai.RoleUser), agent.RunConfig{StreamingMode: mode}) {
		failed = errors.Join(failed, err)
		if e == nil || e.Content == nil {
			continue
		}
		for _, part := range e.Content.Parts {
			if part.FunctionResponse == nil {
				continue
			}
			text, err := json.Marshal(part.FunctionResponse.Response)
			if err != nil {
				return err
			}
			r.Told(string(text))
		}
	}
	return failed
}

// hierarchy is the agent of a request, with the agent below it that the task is handed
// to.
func hierarchy(r *conformance.Run) (agent.Agent, error) {
	functions, err := functions(r)
	if err != nil {
		return nil, err
	}
	config := llmagent.Config{Name: r.Request.Agent, Description: "lead", Tools: functions, Model: &scripted{r.Request.Agent, [][]conformance.Call{r.Request.Calls}}}
	if to := r.Request.To; to != "" {
		below, err := llmagent.New(llmagent.Config{Name: to, Description: "helper", Tools: functions, Model: &scripted{to, [][]conformance.Call{r.Request.Calls}}})
		if err != nil {
			return nil, err
		}
		config.SubAgents = []agent.Agent{below}
		config.Model = &scripted{r.Request.Agent, [][]conformance.Call{{{Tool: "transfer_to_agent", Arguments: fmt.Sprintf(`{"agent_name":%q}`, to)}}}}
	}
	return llmagent.New(config)
}

// functions are the tools of the cases.
func functions(r *conformance.Run) ([]tool.Tool, error) {
	var out []tool.Tool
	for _, name := range append(conformance.Functions(), "watch") {
		t, err := functiontool.New(functiontool.Config{Name: name, Description: name}, func(_ agent.Context, in map[string]any) (map[string]any, error) {
			if name == "watch" {
				return map[string]any{"parts": strings.Fields("one two three")}, r.Ran(name, in)
			}
			text, err := r.Function(name, in)
			return map[string]any{"result": text}, err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
