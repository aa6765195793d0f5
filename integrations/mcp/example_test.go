package powerboxmcp_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder/guard"
	powerboxmcp "github.com/powerbox-project/powerbox/integrations/mcp"
)

// A server on the go-sdk with a gate that cannot be reached: nothing is let in on
// trust.
func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	held, err := powerboxmcp.New(powerboxmcp.Config{
		Gate:  &guard.Gate{URL: "http://127.0.0.1:9", Token: "the token of one of identity.guards", HTTP: &http.Client{Timeout: time.Second}},
		Agent: "files", Issuer: "https://gate.example/agents/files", Resource: "https://files.example/mcp",
		Now: now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	held.Hold(server)
	handler := held.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))

	call := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, call)
	fmt.Print(answer.Code, " ", answer.Body, held.MetadataPath())
	// Output:
	// 503 {"error":{"code":-31403,"data":{"code":"authorization_unavailable","retryable":true},"message":"Whether it is allowed cannot be told now; try again in a moment."},"id":1,"jsonrpc":"2.0"}
	// /.well-known/oauth-protected-resource/mcp
}
