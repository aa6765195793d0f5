// Command driver runs the conformance cases on Eino, with a scripted model.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/powerbox-project/powerbox/integrations/conformance"
	powerboxeino "github.com/powerbox-project/powerbox/integrations/eino"
)

func main() {
	if err := conformance.Serve(context.Background(), os.Stdin, os.Stdout, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scripted is a model that makes the calls of its turns in order, and then ends.
type scripted struct{ turns *[][]conformance.Call }

func (s scripted) next() *schema.Message {
	if len(*s.turns) == 0 {
		return schema.AssistantMessage("done", nil)
	}
	var calls []schema.ToolCall
	for n, c := range (*s.turns)[0] {
		calls = append(calls, schema.ToolCall{ID: fmt.Sprintf("call-%d", n), Type: "function", Function: schema.FunctionCall{Name: c.Tool, Arguments: c.Arguments}})
	}
	*s.turns = (*s.turns)[1:]
	return schema.AssistantMessage("", calls)
}

func (s scripted) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	return s.next(), nil
}

func (s scripted) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	return schema.StreamReaderFromArray([]*schema.Message{s.next()}), nil
}

func (s scripted) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }

func run(ctx context.Context, r *conformance.Run) error {
	ctx, tools, cancel := r.Tools(ctx)
	defer cancel()
	agent := func(name string, turns ...[]conformance.Call) (adk.Agent, error) {
		return adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
			Name: name, Description: name, Model: scripted{&turns},
			ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{
				Tools: functions(r), ToolCallMiddlewares: []compose.ToolMiddleware{powerboxeino.Middleware(tools, name)},
			}},
		})
	}
	first := r.Request.Calls
	if r.Request.To != "" {
		first = []conformance.Call{{Tool: adk.TransferToAgentToolName, Arguments: fmt.Sprintf(`{"agent_name":%q}`, r.Request.To)}}
	}
	root, err := agent(r.Request.Agent, first)
	if err != nil {
		return err
	}
	if r.Request.To != "" {
		helper, err := agent(r.Request.To, r.Request.Calls)
		if err != nil {
			return err
		}
		if root, err = adk.SetSubAgents(ctx, root, []adk.Agent{helper}); err != nil {
			return err
		}
	}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: root, EnableStreaming: r.Request.Stream}).Query(ctx, "go")
	var failed error
	for {
		event, ok := events.Next()
		if !ok {
			return failed
		}
		failed = errors.Join(failed, event.Err)
		if event.Output == nil || event.Output.MessageOutput == nil || event.Output.MessageOutput.Role != schema.Tool {
			continue
		}
		message, err := event.Output.MessageOutput.GetMessage()
		if err != nil {
			return err
		}
		r.Told(message.Content)
	}
}

// functions are the tools of the cases.
func functions(r *conformance.Run) []tool.BaseTool {
	out := []tool.BaseTool{utils.NewStreamTool(&schema.ToolInfo{Name: "watch", Desc: "watch"}, func(_ context.Context, in map[string]any) (*schema.StreamReader[string], error) {
		return schema.StreamReaderFromArray([]string{"one", "two", "three"}), r.Ran("watch", in)
	})}
	for _, name := range conformance.Functions() {
		out = append(out, utils.NewTool(&schema.ToolInfo{Name: name, Desc: name}, func(_ context.Context, in map[string]any) (string, error) {
			return r.Function(name, in)
		}))
	}
	return out
}
