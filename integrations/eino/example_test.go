package powerboxeino_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxeino "github.com/powerbox-project/powerbox/integrations/eino"
)

func Example() {
	var chat model.ToolCallingChatModel // of a provider
	var readFile tool.BaseTool
	ctx, gate := context.Background(), &guard.Gate{URL: "http://127.0.0.1:8700", Token: "TOKEN", HTTP: &http.Client{Timeout: 10 * time.Second}}

	tools := &guard.Tools{Gate: gate, Target: "files"}
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "triage", Description: "Sorts requests", Model: chat,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{
			Tools:               []tool.BaseTool{readFile},
			ToolCallMiddlewares: []compose.ToolMiddleware{powerboxeino.Middleware(tools, "triage")},
		}},
	})
	fmt.Println(agent != nil, err)
	// Output: false agent 'Model' is required
}
