package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestCARD12_NotServedOnEveryBinding has an agent declare what it does not serve: it is on record
// with the call, on every binding, and the refusal reaches the caller.
func TestCARD12_NotServedOnEveryBinding(t *testing.T) {
	push := map[string]any{"taskPushNotificationConfig": map[string]any{"url": "http://127.0.0.1:9/hook"}}
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, mode: "observe", says: func(card *a2a.AgentCard) {
			card.Capabilities = a2a.AgentCapabilities{Streaming: true, PushNotifications: true}
		}})
		for name, c := range map[string]struct {
			body []byte
			want string
		}{
			"a message": {textOf("hello"), ""},
			"a stream":  {text("SendStreamingMessage", "hello"), ""},
			"push":      {rpc("SendMessage", map[string]any{"message": map[string]any{"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": "hello"}}}, "configuration": push}), "push_notifications:not_served"},
		} {
			a := w.post(w.agentURL("documents"), c.body, nil)
			if got := strings.Join(w.driftOf(t, a), " "); got != c.want {
				t.Errorf("CARD-12 %s: recorded as %q; want %q: %s", name, got, c.want, a.Raw)
			}
		}
	})
}

// TestCARD12_InterfacesThatNothingAnswers: an interface that the card declares and at which
// no server answers is on record. JSON-RPC that does not answer is an agent that is away.
func TestCARD12_InterfacesThatNothingAnswers(t *testing.T) {
	for on, want := range map[wire]string{{}: "", {overREST, "1.0"}: "interface HTTP+JSON:not_served", {overGRPC, "1.0"}: "interface GRPC:not_served"} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on, mode: "observe", says: func(card *a2a.AgentCard) {
				for _, i := range card.SupportedInterfaces {
					if i.URL = "127.0.0.1:9"; i.ProtocolBinding != a2a.TransportProtocolGRPC {
						i.URL = "http://127.0.0.1:9"
					}
				}
			}})
			a := w.post(w.agentURL("documents"), textOf("hello"), nil)
			if got := strings.Join(w.driftOf(t, a), " "); got != want {
				t.Errorf("CARD-12 recorded as %q; want %q: %s", got, want, a.Raw)
			}
		})
	}
}

// unimplemented is what a server of gRPC says of a method that it does not have.
func unimplemented(t *testing.T) string {
	t.Helper()
	s, err := status.New(grpccodes.Unimplemented, "not here").WithDetails(&errdetails.ErrorInfo{Reason: "METHOD_NOT_FOUND", Domain: "a2a-protocol.org"})
	if err != nil {
		t.Error(err)
	}
	raw, err := proto.Marshal(s.Proto())
	if err != nil {
		t.Error(err)
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

// TestCARD12_NothingIsServed has an agent declare everything and refuse every call, over HTTP+JSON
// and gRPC: streams, the extended card and the interface itself are on record as not served.
func TestCARD12_NothingIsServed(t *testing.T) {
	asGiven(t)
	for _, on := range []wire{{overREST, "1.0"}, {overGRPC, "1.0"}} {
		t.Run(on.String(), func(t *testing.T) {
			var at string
			agent := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/agent-card.json"):
					fmt.Fprintf(w, `{"name":"Documents","description":"d","version":"1","capabilities":{"streaming":true,"extendedAgentCard":true},"defaultInputModes":["text"],"defaultOutputModes":["text"],
"skills":[{"id":"search_documents","name":"s","description":"s","tags":["t"]}],
"supportedInterfaces":[{"url":"http://%[1]s/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},{"url":"%[1]s","protocolBinding":"GRPC","protocolVersion":"1.0"}]}`, at)
				case r.ProtoMajor == 2:
					w.Header().Set("Content-Type", "application/grpc")
					w.Header().Set("Grpc-Status", "12")
					w.Header().Set("Grpc-Status-Details-Bin", unimplemented(t))
				default:
					http.NotFound(w, r)
				}
			}))
			agent.Config.Protocols = new(http.Protocols)
			agent.Config.Protocols.SetHTTP1(true)
			agent.Config.Protocols.SetUnencryptedHTTP2(true)
			at = agent.Listener.Addr().String()
			agent.Start()
			t.Cleanup(agent.Close)
			listen := "127.0.0.1:" + freePort(t)
			w := behind(t, &stock{url: agent.URL, close: agent.Close}, "observe, grpc: {listen: '"+listen+"'}", "")
			w.on, w.grpc = on, map[string]string{"documents": listen}
			for name, c := range map[string]struct {
				body []byte
				want string
			}{
				"a message":     {textOf("hello"), "interface " + strings.ToUpper(on.binding) + ":not_served"},
				"a stream":      {text("SendStreamingMessage", "hello"), "streaming:not_served"},
				"extended card": {rpc("GetExtendedAgentCard", map[string]any{}), "extended_agent_card:not_served"},
				"a task":        {rpc("GetTask", map[string]any{"id": "t1"}), ""},
			} {
				a := w.post(w.agentURL("documents"), c.body, nil)
				if got := strings.Join(w.driftOf(t, a), " "); got != c.want {
					t.Errorf("CARD-12 %s: recorded as %q; want %q: %s", name, got, c.want, a.Raw)
				}
			}
		})
	}
}
