package powerboxa2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"

	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
	"github.com/powerbox-project/powerbox/token"
)

var bindings = []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON, a2a.TransportProtocolGRPC}

// Through the gateway a call under a capability is answered, with the real id
// of the resource that its handle stands for, and another is denied.
func TestThroughTheGateway(t *testing.T) {
	w := newTown(t, options{})
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			c := w.caller()
			held := c.reports()
			client := c.over("documents", binding)
			args := map[string]any{"resourceHandle": held.Handles[0].Handle}
			result, err := client.SendMessage(c.ctx, skillCall("retrieve_document", args))
			if got := said(t, result, err); got != `retrieve_document of "/vault/q1-financial.pdf"` {
				t.Errorf("the agent said %s", got)
			}
			var events []a2a.Event
			for event, err := range client.SendStreamingMessage(c.ctx, skillCall("retrieve_document", args)) {
				if err != nil {
					t.Fatal(err)
				}
				events = append(events, event)
			}
			if len(events) != 1 {
				t.Errorf("the stream had %d events", len(events))
			}
			w.documents.forget()
			_, err = client.SendMessage(c.ctx, skillCall("delete_document", args))
			if code, _ := reason(t, err); !errors.Is(err, a2a.ErrUnauthorized) || code != "operation_not_granted" {
				t.Errorf("%q: %v", code, err)
			}
			if len(w.documents.got) != 0 {
				t.Error("the gateway let it through")
			}
		})
	}
}

// A task is its caller's, by every method that names one; another caller's
// context for it is none.
func TestTasks(t *testing.T) {
	w := newTown(t, options{})
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			c := w.caller()
			c.reports()
			client := c.over("documents", binding)
			result, err := client.SendMessage(c.ctx, skillCall("search_documents", map[string]any{"query": "task"}))
			if err != nil {
				t.Fatal(err)
			}
			task, ok := result.(*a2a.Task)
			if !ok {
				t.Fatalf("the answer is a %T", result)
			}
			if got, err := client.GetTask(c.ctx, &a2a.GetTaskRequest{ID: task.ID}); err != nil || got.ID != task.ID {
				t.Errorf("GetTask: %v %v", got, err)
			}
			if got, err := client.ListTasks(c.ctx, &a2a.ListTasksRequest{ContextID: task.ContextID}); err != nil || len(got.Tasks) != 1 {
				t.Errorf("ListTasks: %v %v", got, err)
			}
			if got, err := client.CancelTask(c.ctx, &a2a.CancelTaskRequest{ID: task.ID}); err != nil || got.Status.State != a2a.TaskStateCanceled {
				t.Errorf("CancelTask: %v %v", got, err)
			}
		})
	}
}

// Anyone who reaches the agent past its gateway is refused in the form of the
// binding, and the refusal names the missing part; the card stays open.
func TestPastTheGateway(t *testing.T) {
	w := newTown(t, options{})
	for name, at := range map[string]string{
		"JSONRPC": w.documents.url + "/invoke", "HTTP+JSON": w.documents.url + "/rest",
		"GRPC": w.summariser.grpcAt, "GRPC by ServeHTTP": w.documents.grpcAt,
	} {
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(name, " ")
			binding := a2a.TransportProtocol(kind)
			client, err := a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{a2a.NewAgentInterface(at, binding)}, plainGRPC())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Destroy() })
			calls := map[string]func() error{
				"SendStreamingMessage": func() error {
					var last error
					for _, err := range client.SendStreamingMessage(t.Context(), skillCall("search_documents", nil)) {
						last = err
					}
					return last
				},
				"SendMessage": func() error {
					_, err := client.SendMessage(t.Context(), skillCall("search_documents", nil))
					return err
				},
				"GetTask":   func() error { _, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "x"}); return err },
				"ListTasks": func() error { _, err := client.ListTasks(t.Context(), &a2a.ListTasksRequest{}); return err },
				"GetExtendedAgentCard": func() error {
					_, err := client.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
					return err
				},
			}
			for name, call := range calls {
				err := call()
				if !errors.Is(err, a2a.ErrUnauthenticated) || !strings.Contains(err.Error(), "Powerbox-Context") {
					t.Errorf("%s: %v", name, err)
				}
				if strings.HasSuffix(at, w.documents.grpcAt) && binding == a2a.TransportProtocolGRPC {
					continue // a status in the headers has no details
				}
				if code, _ := reason(t, err); code != "missing_claim" {
					t.Errorf("%s: %s", name, code)
				}
			}
		})
	}
	t.Run("a task that is called like a card", func(t *testing.T) {
		r, err := http.Get(w.documents.url + "/rest/tasks/x%2F.well-known%2Fagent-card.json")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if raw, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusUnauthorized || !strings.Contains(string(raw), "missing_claim") {
			t.Errorf("%s %s", r.Status, raw)
		}
	})
	r, err := http.Get(w.documents.url + "/.well-known/agent-card.json")
	if err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("the card: %v %v", r, err)
	}
	_ = r.Body.Close()
}

// genuine has the gateway let one call through and returns what the agent got.
func genuine(t *testing.T, w *town, c *caller) (request, token.Context) {
	t.Helper()
	held := c.wallet.Of(w.agentURL("documents"), now())[0]
	w.documents.forget()
	client := c.over("documents", a2a.TransportProtocolJSONRPC)
	result, err := client.SendMessage(c.ctx, skillCall("retrieve_document", map[string]any{"resourceHandle": held.Handles[0].Handle}))
	said(t, result, err)
	got := w.documents.last(t)
	signed, err := token.VerifyContext(got.header.Get(powerboxa2a.HeaderContext), token.NewKeySet(w.issuingKey("documents").Public()), "documents", now(), got.body)
	if err != nil {
		t.Fatal(err)
	}
	return got, signed
}

// deliver sends a request to an agent past its gateway.
func deliver(t *testing.T, g *agent, path, compact string, body []byte) (code string, passed bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	if compact != "" {
		r.Header.Set(powerboxa2a.HeaderContext, compact)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	var answer struct {
		Result json.RawMessage
		Error  *struct {
			Code int
			Data []struct{ Metadata map[string]string }
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if answer.Error == nil {
		return "", answer.Result != nil
	}
	if len(answer.Error.Data) == 0 {
		t.Fatalf("no ErrorInfo: %s", raw)
	}
	return answer.Error.Data[0].Metadata["code"], false
}

// Contexts that the gateway did not sign for exactly this request, and one that
// comes again, are refused.
func TestForgedAndReplayedContexts(t *testing.T) {
	w := newTown(t, options{})
	c := w.caller()
	c.reports()
	got, claims := genuine(t, w, c)
	sign := func(agent string, change func(*token.Context)) string {
		changed := claims
		changed.IssuedAt, changed.Expires = now(), now().Add(time.Minute)
		changed.Decision = "rec_of_the_test" // no two genuine ones are the same
		if change != nil {
			change(&changed)
		}
		compact, err := token.SignContext(w.issuingKey(agent), changed)
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	compact := got.header.Get(powerboxa2a.HeaderContext)
	parts := strings.Split(compact, ".")
	stranger, err := token.SignContext(newKey(t), claims)
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		name, compact string
		body          []byte
		code          string
	}{
		{"what the key of the gateway has signed", sign("documents", nil), got.body, ""},
		{"one that was used", compact, got.body, "context_replayed"},
		{"none", "", got.body, "missing_claim"},
		{"another body", sign("documents", nil), append([]byte(" "), got.body...), "proof_request"},
		{"no signature", parts[0] + "." + parts[1] + ".", got.body, "malformed"},
		{"a stranger's key", stranger, got.body, "unknown_key"},
		{"another agent's key", sign("summariser", nil), got.body, "unknown_key"},
		{"another audience", sign("documents", func(c *token.Context) { c.Audience = "summariser" }), got.body, "proof_audience"},
		{"another issuer", sign("documents", func(c *token.Context) { c.Issuer = w.agentURL("summariser") }), got.body, "issuer_mismatch"},
		{"one that is old", sign("documents", func(c *token.Context) { c.IssuedAt, c.Expires = c.IssuedAt.Add(-time.Hour), c.Expires.Add(-time.Hour) }), got.body, "expired"},
		{"one from before the agent began", sign("documents", func(c *token.Context) { c.IssuedAt = c.IssuedAt.Add(-time.Minute) }), got.body, "context_before_start"},
		{"one for another task", sign("documents", func(c *token.Context) { c.Task = "another" }), got.body, "context_missing"},
		{"one for another tenant", sign("documents", func(c *token.Context) { c.Tenant = "another" }), got.body, "context_missing"},
	} {
		t.Run(try.name, func(t *testing.T) {
			code, passed := deliver(t, w.documents, "/invoke", try.compact, try.body)
			if code != try.code || passed != (try.code == "") {
				t.Errorf("%q, passed %v; want %q", code, passed, try.code)
			}
		})
	}
}

// The interceptor alone lets nothing through: without the handler in front
// there is no context.
func TestInterceptorAlone(t *testing.T) {
	w := newTown(t, options{})
	handler := a2asrv.NewHandler(w.documents.in.Guard(w.documents), a2asrv.WithCallInterceptors(w.documents.in.Interceptor()))
	if _, err := handler.SendMessage(t.Context(), words("hello")); !errors.Is(err, a2a.ErrUnauthenticated) {
		t.Errorf("the interceptor: %v", err)
	}
	bare := a2asrv.NewHandler(w.documents.in.Guard(w.documents))
	if _, err := bare.SendMessage(t.Context(), words("hello")); !errors.Is(err, a2a.ErrUnauthenticated) {
		t.Errorf("the executor: %v", err)
	}
	t.Run("an agent's own context at another agent", func(t *testing.T) {
		served := false
		other := a2asrv.NewHandler(plain{}, a2asrv.WithCallInterceptors(w.summariser.in.Interceptor()))
		w.documents.does = func(ctx context.Context, _ *powerboxa2a.Task, _ *a2asrv.ExecutorContext, _ string, _ map[string]any) (string, error) {
			_, err := other.SendMessage(ctx, skillCall("search_documents", nil))
			served = err == nil
			return "", nil
		}
		c := w.caller()
		c.reports()
		genuine(t, w, c)
		if served {
			t.Error("the task of one agent was good at another")
		}
	})
}

// attempt is one case of testdata/vectors/gateway/attempts.json.
type attempt struct {
	Name, Skill, Text, Method, By, Decision string
	Params, Arguments                       map[string]any
	Reasons, Missing                        []string
}

// elsewhere are the cases about facts that only the gateway sees: the
// credentials of the call, and the owner of the task.
var elsewhere = []string{"capability_unknown", "capability_required", "proof_operation", "task_foreign"}

// TestGATE11_InProcess tries what applies of the attempts on the gateway, and
// in process under the same authority: the answer is the same.
func TestGATE11_InProcess(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/vectors/gateway/attempts.json")
	var cases []attempt
	if err == nil {
		err = json.Unmarshal(raw, &cases)
	}
	if err != nil || len(cases) < 15 {
		t.Fatal(len(cases), err)
	}
	w := newTown(t, options{})
	c := w.caller()
	held := c.reports()
	_, claims := genuine(t, w, c)
	tried := 0
	for _, try := range cases {
		if slices.ContainsFunc(try.Reasons, func(r string) bool { return slices.Contains(elsewhere, r) }) {
			continue
		}
		tried++
		for _, binding := range bindings[:2] {
			t.Run("GATE-11 "+try.Name+" "+string(binding), func(t *testing.T) {
				ask := func(ctx context.Context, client *a2aclient.Client) (code, missing string) {
					err := send(ctx, client, try, held.Handles[0].Handle)
					if err == nil {
						return "", ""
					}
					return reason(t, err)
				}
				code, missing := ask(c.ctx, c.over("documents", binding))
				past := map[a2a.TransportProtocol]string{a2a.TransportProtocolJSONRPC: "/invoke", a2a.TransportProtocolHTTPJSON: "/rest"}[binding]
				direct, err := a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{a2a.NewAgentInterface(w.documents.url+past, binding)},
					withTransport(&contextSigner{w: w, claims: claims})...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = direct.Destroy() })
				here, lacks := ask(t.Context(), direct)
				if diff := cmp.Diff([]string{code, missing}, []string{here, lacks}); diff != "" {
					t.Errorf("gateway (-), in process (+):\n%s", diff)
				}
				if (code == "") != (try.Decision == "ALLOW") || code != "" && code != try.Reasons[0] {
					t.Errorf("%q; want %s for %v", code, try.Decision, try.Reasons)
				}
			})
		}
	}
	if tried < 13 {
		t.Errorf("only %d cases were tried", tried)
	}
}

// send makes the call of a case.
func send(ctx context.Context, client *a2aclient.Client, try attempt, handle string) error {
	args := map[string]any{}
	raw, _ := json.Marshal(try.Arguments)
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "$handle", handle)), &args)
	var err error
	switch {
	case try.Skill != "":
		_, err = client.SendMessage(ctx, skillCall(try.Skill, args))
	case try.Text != "":
		_, err = client.SendMessage(ctx, words(try.Text))
	case try.Method == "GetExtendedAgentCard":
		_, err = client.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	default:
		return errors.New("the test does not know " + try.Method)
	}
	return err
}

// contextSigner signs contexts as the gateway does, whatever the call is: the
// gateway as one that has been taken over, or forgets to decide.
type contextSigner struct {
	w      *town
	claims token.Context
}

func (s *contextSigner) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	c := s.claims
	c.IssuedAt, c.Expires, c.Digest = now(), now().Add(time.Minute), token.DigestOf(body)
	contexts.Add(1)
	c.Decision = "rec_" + time.Unix(contexts.Load(), 0).UTC().Format("150405") // no two contexts are the same
	compact, err := token.SignContext(s.w.issuingKey("documents"), c)
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.Header.Set(powerboxa2a.HeaderContext, compact)
	out.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(out)
}

var contexts atomic.Int64

func withTransport(rt http.RoundTripper) []a2aclient.FactoryOption {
	client := &http.Client{Transport: rt}
	return []a2aclient.FactoryOption{a2aclient.WithJSONRPCTransport(client), a2aclient.WithRESTTransport(client)}
}

func plainGRPC() a2aclient.FactoryOption {
	return a2agrpc.WithGRPCTransport(insecurely)
}
