package powerboxa2a_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox/holder"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
)

// An agent behind a gateway refuses callers that come past the gateway. The
// keys of this gateway are unreachable, so the agent admits no call.
func Example() {
	in, err := powerboxa2a.NewInbound(powerboxa2a.Config{
		URL: "https://gate.example/agents/documents", ID: "documents",
		Now: now, HTTP: &http.Client{Timeout: time.Nanosecond}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := a2asrv.NewHandler(in.Guard(plain{}), a2asrv.WithCallInterceptors(in.Interceptor()))
	served := in.Handler(a2asrv.NewJSONRPCHandler(handler))

	past := httptest.NewRequest(http.MethodPost, "/invoke", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`))
	answer := httptest.NewRecorder()
	served.ServeHTTP(answer, past)
	fmt.Print(answer.Body)
	// Output: {"error":{"code":-31401,"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNAUTHENTICATED","domain":"a2a-protocol.org","metadata":{"code":"authorization_unavailable","retryable":"true"}}],"message":"No valid context of the gateway came with this call: what the gateway signs cannot be verified now; send it to the agent's public URL."},"id":1,"jsonrpc":"2.0"}
}

// An agent calls another one under what came with the task that it works on.
func ExampleOutbound() {
	key, err := holder.LoadKey("reporter.key.json")
	if err != nil {
		fmt.Println("the agent has no key yet")
		return
	}
	out := &powerboxa2a.Outbound{Client: &holder.Client{Key: key, HTTP: http.DefaultClient, Now: now, Random: rand.Reader}}
	execute := func(ctx context.Context, handle string) error { // in an executor behind Inbound.Guard
		documents, err := out.Peer(ctx, "https://gate.example/agents/documents")
		if err != nil {
			return err
		}
		client, err := documents.NewClient(ctx, a2aclient.WithConfig(a2aclient.Config{}))
		if err != nil {
			return err
		}
		_, err = client.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser,
			a2a.NewDataPart(map[string]any{"skill": "retrieve_document", "arguments": map[string]any{"resourceHandle": handle}}))})
		return err
	}
	fmt.Println(execute(context.Background(), "rh_001"))
	// Output: the agent has no key yet
}
