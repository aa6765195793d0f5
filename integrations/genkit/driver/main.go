// Command driver runs the conformance cases on Genkit, with a scripted model.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/powerbox-project/powerbox/holder/guard"
	"github.com/powerbox-project/powerbox/integrations/conformance"
	powerboxgenkit "github.com/powerbox-project/powerbox/integrations/genkit"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := conformance.Serve(context.Background(), os.Stdin, os.Stdout, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, r *conformance.Run) error {
	ctx, tools, cancel := r.Tools(ctx)
	defer cancel()
	g := genkit.Init(ctx)
	refs := functions(g, tools, r)
	turn := 0
	genkit.DefineModel(g, "test/scripted", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, func(_ context.Context, req *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
		if turn++; turn > 1 {
			return &ai.ModelResponse{Request: req, Message: ai.NewModelTextMessage("done")}, nil
		}
		var parts []*ai.Part
		for n, c := range r.Request.Calls {
			var input any // as the model plugins read arguments
			if err := json.Unmarshal([]byte(c.Arguments), &input); err != nil {
				return nil, err
			}
			parts = append(parts, ai.NewToolRequestPart(&ai.ToolRequest{Name: c.Tool, Ref: fmt.Sprint(n), Input: input}))
		}
		return &ai.ModelResponse{Request: req, Message: ai.NewModelMessage(parts...)}, nil
	})
	ctx = powerboxgenkit.As(ctx, r.Request.Agent)
	if r.Request.To != "" {
		helper, err := powerboxgenkit.HandOver(ctx, tools, r.Request.To)
		if said, ok := guard.RefusalOf(err); ok {
			text, err := json.Marshal(said)
			r.Told(string(text))
			return err
		}
		ctx = helper
	}
	options := []ai.GenerateOption{ai.WithModelName("test/scripted"), ai.WithPrompt("go"), ai.WithTools(refs...)}
	if r.Request.Stream {
		options = append(options, ai.WithStreaming(func(context.Context, *ai.ModelResponseChunk) error { return nil }))
	}
	response, err := genkit.Generate(ctx, g, options...)
	if err != nil {
		return err
	}
	for _, message := range response.History() {
		for _, part := range message.Content {
			if part.IsToolResponse() {
				text, err := json.Marshal(part.ToolResponse.Output)
				if err != nil {
					return err
				}
				r.Told(string(text))
			}
		}
	}
	return nil
}

// functions defines the tools of the cases.
func functions(g *genkit.Genkit, tools *guard.Tools, r *conformance.Run) []ai.ToolRef {
	refs := []ai.ToolRef{powerboxgenkit.DefineTool(g, tools, "watch", "watch", func(_ *ai.ToolContext, in map[string]any) (string, error) {
		return strings.Join([]string{"one", "two", "three"}, " "), r.Ran("watch", in) // Genkit has no streaming tools
	})}
	for _, name := range conformance.Functions() {
		refs = append(refs, powerboxgenkit.DefineTool(g, tools, name, name, func(_ *ai.ToolContext, in map[string]any) (string, error) {
			return r.Function(name, in)
		}))
	}
	return refs
}
