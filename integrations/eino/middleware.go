package powerboxeino

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// Middleware guards the tools of one agent. Put it last in ToolCallMiddlewares, so that
// no other middleware changes the arguments after the decision. A transfer to another
// agent (adk) is decided as a hand-off.
func Middleware(t *guard.Tools, agent string) compose.ToolMiddleware {
	g := guarded{t, agent}
	return compose.ToolMiddleware{
		Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
				return once(ctx, g, in, next, func(text string) *compose.ToolOutput { return &compose.ToolOutput{Result: text} })
			}
		},
		EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
				return once(ctx, g, in, next, func(text string) *compose.EnhancedInvokableToolOutput {
					return &compose.EnhancedInvokableToolOutput{Result: result(text)}
				})
			}
		},
		Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
				r, err := streamed(ctx, g, in, func() (*schema.StreamReader[string], error) {
					out, err := next(ctx, in)
					if err != nil {
						return nil, err
					}
					return out.Result, nil
				}, func(text string) string { return text })
				return &compose.StreamToolOutput{Result: r}, err
			}
		},
		EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
			return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
				r, err := streamed(ctx, g, in, func() (*schema.StreamReader[*schema.ToolResult], error) {
					out, err := next(ctx, in)
					if err != nil {
						return nil, err
					}
					return out.Result, nil
				}, result)
				return &compose.EnhancedStreamableToolOutput{Result: r}, err
			}
		},
	}
}

type guarded struct {
	tools *guard.Tools
	agent string
}

// ask returns what tells the outcome of an allowed call.
func (g guarded) ask(ctx context.Context, in *compose.ToolInput) (tell func(error), err error) {
	arguments := json.RawMessage(in.Arguments)
	if in.Name == adk.TransferToAgentToolName {
		return func(error) {}, g.tools.HandOverNamed(ctx, g.agent, "agent_name", arguments)
	}
	d, err := g.tools.Ask(ctx, g.agent, in.Name, arguments)
	return func(failed error) { g.tools.Tell(ctx, d, failed) }, err
}

func once[Out any](ctx context.Context, g guarded, in *compose.ToolInput, next func(context.Context, *compose.ToolInput) (*Out, error), said func(string) *Out) (*Out, error) {
	tell, err := g.ask(ctx, in)
	if err != nil {
		text, err := refusal(err)
		return said(text), err
	}
	out, err := next(ctx, in)
	tell(err)
	return out, err
}

// streamed passes the parts of a stream on, and tells the outcome before its end is seen.
func streamed[T any](ctx context.Context, g guarded, in *compose.ToolInput, next func() (*schema.StreamReader[T], error), said func(string) T) (*schema.StreamReader[T], error) {
	tell, err := g.ask(ctx, in)
	if err != nil {
		text, err := refusal(err)
		return schema.StreamReaderFromArray([]T{said(text)}), err
	}
	from, err := next()
	if err != nil {
		tell(err)
		return nil, err
	}
	to, writer := schema.Pipe[T](1)
	go func() {
		defer writer.Close()
		defer from.Close()
		for {
			part, err := from.Recv()
			switch {
			case errors.Is(err, io.EOF):
				tell(nil)
				return
			case err != nil:
				tell(err)
				writer.Send(part, err)
				return
			case writer.Send(part, nil):
				tell(context.Canceled) // the reader is gone
				return
			}
		}
	}()
	return to, nil
}

// refusal is the text for the model; any other error stays one.
func refusal(err error) (string, error) {
	said, ok := guard.RefusalOf(err)
	if !ok {
		return "", err
	}
	text, err := json.Marshal(said)
	return string(text), err
}

func result(text string) *schema.ToolResult {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: text}}}
}
