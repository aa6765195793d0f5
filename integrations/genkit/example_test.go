package powerboxgenkit_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxgenkit "github.com/powerbox-project/powerbox/integrations/genkit"
)

type path struct {
	Path string `json:"path"`
}

func Example() {
	ctx, gate := context.Background(), &guard.Gate{URL: "http://127.0.0.1:8700", Token: "TOKEN", HTTP: &http.Client{Timeout: 10 * time.Second}}
	g := genkit.Init(ctx)

	tools := &guard.Tools{Gate: gate, Target: "files"}
	readFile := powerboxgenkit.DefineTool(g, tools, "read_file", "Reads a file", func(_ *ai.ToolContext, in path) (string, error) {
		return "text of " + in.Path, nil
	})
	answer, err := genkit.GenerateText(powerboxgenkit.As(ctx, "triage"), g, ai.WithPrompt("Read the report."), ai.WithTools(readFile))
	fmt.Println(answer == "", err != nil) // no model is configured here
	// Output: true true
}
