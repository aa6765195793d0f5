package a2a

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
)

// echo is an agent behind that answers a message with its own parts.
type echo struct{}

func (echo) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, ec.Message.Parts...), nil)
	}
}

func (echo) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

func post(t *testing.T, url string, body []byte) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// What a2a-go itself answers about a task that does not exist is what we
// answer about one of someone else.
func TestATK18_ForeignTaskLooksMissing(t *testing.T) {
	server := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echo{}, a2asrv.WithLogger(slog.New(slog.DiscardHandler)))))
	defer server.Close()
	const message = `{"message":{"messageId":"m","role":"ROLE_USER","taskId":"x","parts":[{"text":"a"}]}}`
	stamp := regexp.MustCompile(`"timestamp":"[^"]*"`)
	for method, params := range map[Method]string{
		GetTask:              `{"id":"x"}`,
		CancelTask:           `{"id":"x"}`,
		SubscribeToTask:      `{"id":"x"}`,
		SendMessage:          message,
		SendStreamingMessage: message,
	} {
		t.Run(method.String(), func(t *testing.T) {
			theirs := post(t, server.URL, []byte(`{"jsonrpc":"2.0","id":7,"method":"`+method.String()+`","params":`+params+`}`))
			denial := TaskNotFound(method, time.Unix(0, 0))
			ours := denial.JSONRPC([]byte("7"))
			if _, data, ok := strings.Cut(string(theirs), "\n"); ok && strings.HasPrefix(data, "data: ") {
				theirs, ours = []byte(data), denial.Event(JSONRPC, []byte("7"))
			}
			want := strings.TrimSpace(stamp.ReplaceAllString(string(theirs), ""))
			got := strings.TrimSpace(stamp.ReplaceAllString(string(ours), ""))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("a2a-go (-), we (+):\n%s", diff)
			}
		})
	}
}

// The stock client understands a denial, as an answer and as an event.
func TestDenialReachesClient(t *testing.T) {
	denial := Denial{Reason: "operation_not_granted", Missing: []string{"b", "a"}, DecisionID: "d1"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call, err := Decode(body, Header{Version: r.Header.Get("A2A-Version")}, testLimits)
		if err != nil {
			t.Errorf("decode: %v", err)
		}
		if call.Streaming {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(denial.Event(JSONRPC, call.ID))
			return
		}
		_, _ = w.Write(denial.JSONRPC(call.ID))
	}))
	defer server.Close()
	client, err := a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{{URL: server.URL, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}})
	if err != nil {
		t.Fatal(err)
	}
	request := &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hi"))}
	check := func(err error) {
		t.Helper()
		var denied *a2a.Error
		if !errors.Is(err, a2a.ErrUnauthorized) || !errors.As(err, &denied) {
			t.Fatalf("client got %v; want permission denied", err)
		}
		metadata, _ := denied.ErrorInfo().Value["metadata"].(map[string]string)
		want := map[string]string{"code": "operation_not_granted", "retryable": "false", "missing": `["a","b"]`, "decision": "d1", "doc": DocOf("operation_not_granted")}
		if diff := cmp.Diff(want, metadata); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		if !strings.HasPrefix(denied.Message, "Capability scope violation: {a, b}; ") {
			t.Errorf("GATE-3: the client reads %q", denied.Message)
		}
	}
	_, err = client.SendMessage(t.Context(), request)
	check(err)
	for _, err := range client.SendStreamingMessage(t.Context(), request) {
		check(err)
	}
}

// An agent of a2a-go gets skill and arguments of a composed call.
func TestComposeReachesAgent(t *testing.T) {
	server := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echo{}, a2asrv.WithLogger(slog.New(slog.DiscardHandler)))))
	defer server.Close()
	body := Compose(InvokeParams{Skill: "read", Arguments: value(t, []byte(`{"handle":"rh_001"}`))}, []byte(`"i"`), Version1, "m1")
	answer := string(post(t, server.URL, body))
	if want := `"parts":[{"data":{"arguments":{"handle":"rh_001"},"skill":"read"}}]`; !strings.Contains(answer, want) {
		t.Errorf("the agent got %s; want %s", answer, want)
	}
}
