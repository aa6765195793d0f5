package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/powerbox-project/powerbox/holder"
)

// negotiated is what a client without keys has of a capability: its id and its handles.
type negotiated struct {
	ID              string
	ResourceHandles []struct{ Handle string }
}

// negotiates is an interceptor as the author of a client writes it on a2a-go: before the
// first call, it asks the agent of the card for a capability by a resourceQuery. The SDK has
// no call for methods of extensions, so the request is one of net/http.
type negotiates struct {
	a2aclient.PassthroughInterceptor
	t      *testing.T
	url    string
	query  map[string]any
	bearer string
	has    negotiated
}

// Before implements [a2aclient.CallInterceptor].
func (n *negotiates) Before(ctx context.Context, r *a2aclient.Request) (context.Context, any, error) {
	if n.has.ID == "" {
		if err := n.ask(ctx); err != nil {
			return ctx, nil, err
		}
	}
	send, ok := r.Payload.(*a2a.SendMessageRequest)
	if !ok {
		return ctx, nil, fmt.Errorf("%T is no message", r.Payload)
	}
	send.Metadata = map[string]any{holder.ExtensionURI: map[string]any{"capabilityId": n.has.ID}}
	handle := n.has.ResourceHandles[0].Handle
	for _, part := range send.Message.Parts {
		if data, ok := part.Data().(map[string]any); ok {
			data["arguments"] = map[string]any{"resourceHandle": handle}
		}
	}
	return ctx, nil, nil
}

func (n *negotiates) ask(ctx context.Context) error {
	body := []byte(jsonOf(n.t, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "a2a/capabilities/request", "params": map[string]any{
		"grants": []string{"documents:read"}, "operations": []string{"retrieve"}, "purpose": "Summarize", "resourceQuery": n.query,
	}}))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+n.bearer)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var got struct {
		Result struct{ Capabilities []negotiated }
		Error  json.RawMessage
	}
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Result.Capabilities) != 1 {
		return fmt.Errorf("no capability: %s", raw)
	}
	n.has = got.Result.Capabilities[0]
	return nil
}

// goQuerying is a client on a2a-go that negotiates, and calls one skill.
func goQuerying(t *testing.T, base, bearer string, query map[string]any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	card, err := (&agentcard.Resolver{}).Resolve(ctx, base)
	if err != nil {
		t.Fatal(err)
	}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(nil), a2aclient.WithCallInterceptors(&negotiates{t: t, url: base, query: query, bearer: bearer}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Destroy() }()
	ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"Authorization": {"Bearer " + bearer}})
	answer, err := client.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(map[string]any{"skill": "retrieve_document"}))})
	if err != nil {
		return goFailure(t, err)
	}
	return jsonOf(t, a2a.StreamResponse{Event: answer})
}

// jsQuerying is the same on the JavaScript SDK.
func jsQuerying(t *testing.T, base, bearer string, query map[string]any) string {
	t.Helper()
	cmd := nodeClient(t, base+cardPath, bearer)
	cmd.Args[1] = filepath.Join("jsclient", "query.mjs")
	cmd.Env = append(os.Environ(), "A2A_TOKEN="+bearer, "A2A_QUERY="+jsonOf(t, query))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the JavaScript client: %v\n%s", err, out)
	}
	return string(out)
}

// TestSEP5_StockClientsNegotiateByAResourceQuery has clients of both SDKs, which hold no keys,
// ask for a capability by a resourceQuery over a catalogue, and call a skill with a handle
// that they got. The capability and the handle travel where the SDKs have room for them: in
// the metadata and in a part. A query for what policy hides gets nothing.
func TestSEP5_StockClientsNegotiateByAResourceQuery(t *testing.T) {
	for _, where := range []string{"at the server", "at a remote gateway"} {
		t.Run(where, func(t *testing.T) {
			var w *town
			if where == "at the server" {
				w = start(t, options{})
			} else {
				w, _ = startRemote(t, 1, options{})
			}
			for name, say := range map[string]func(*testing.T, string, string, map[string]any) string{"Go SDK": goQuerying, "JavaScript SDK": jsQuerying} {
				t.Run(name, func(t *testing.T) {
					before := len(w.documents.got())
					said := say(t, w.agentURL("documents"), aliceToken, quarter("2025-Q1"))
					got := w.documents.got()
					if len(got) != before+1 || !strings.Contains(said, "echo") {
						t.Fatalf("the client has %s, and %d calls reached the agent", said, len(got)-before)
					}
					if told := payload(t, got[before].header.Get("Powerbox-Context")); !strings.Contains(told, "/vault/q1-") {
						t.Errorf("the agent is told %s; want the resource of the handle", told)
					}
					// Bob's policy hides what the query selects.
					if said := say(t, w.agentURL("documents"), bobToken, map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "1999-Q1"}}); !strings.Contains(said, "nothing_granted") {
						t.Errorf("a query that selects nothing: %s", said)
					}
					if n := len(w.documents.got()); n != before+1 {
						t.Errorf("%d calls reached the agent without a capability", n-before-1)
					}
				})
			}
		})
	}
}
