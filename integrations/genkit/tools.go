package powerboxgenkit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/powerbox-project/powerbox/holder/guard"
)

type agentKey struct{}

// As returns a context in which tools run for an agent, by its name at the gate. Without
// it every tool is refused.
func As(ctx context.Context, agent string) context.Context {
	return context.WithValue(ctx, agentKey{}, agent)
}

// Acting returns the agent of a context, "" for none.
func Acting(ctx context.Context) string {
	agent, _ := ctx.Value(agentKey{}).(string)
	return agent
}

// HandOver decides on a hand-off of the acting agent, and returns the context in which
// the other agent acts. The error is a [*guard.Refused].
func HandOver(ctx context.Context, t *guard.Tools, to string) (context.Context, error) {
	if err := t.HandOver(ctx, Acting(ctx), to); err != nil {
		return nil, err
	}
	return As(ctx, to), nil
}

// DefineTool is genkit.DefineTool with a function that runs only if the gate allows it,
// with the very arguments that the function gets. The model is told of a refusal in place
// of the result, because an error would end the generation.
func DefineTool[In, Out any](g *genkit.Genkit, t *guard.Tools, name, description string, fn ai.ToolFunc[In, Out], opts ...ai.ToolOption) ai.Tool {
	return genkit.DefineMultipartTool(g, name, description, func(ctx *ai.ToolContext, in In) (*ai.MultipartToolResponse, error) {
		arguments, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("the arguments of %s: %w", name, err)
		}
		d, err := t.Ask(ctx, Acting(ctx), name, arguments)
		if err != nil {
			if said, ok := guard.RefusalOf(err); ok {
				return &ai.MultipartToolResponse{Output: said}, nil
			}
			return nil, err
		}
		out, err := fn(ctx, in)
		t.Tell(ctx, d, err)
		if err != nil {
			return nil, err
		}
		return &ai.MultipartToolResponse{Output: out}, nil
	}, opts...)
}
