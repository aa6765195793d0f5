package quarterly_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/quarterly"
)

func start(t *testing.T, cfg quarterly.Config) *quarterly.Town {
	t.Helper()
	town, err := quarterly.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := town.Close(); err != nil {
			t.Error(err)
		}
	})
	return town
}

func clientOf(t *testing.T, town *quarterly.Town, agent string) *a2aclient.Client {
	t.Helper()
	direct := quarterly.Direct{HTTP: http.DefaultClient}
	client, err := direct.Client(t.Context(), quarterly.Peer{URL: town.URL(agent)}, quarterly.Incoming{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// step is one call, and the words that come back: those of the answer, or of the error behind "error: ".
type step struct {
	agent, skill string
	args         map[string]any
	want         string
}

func (s step) run(t *testing.T, town *quarterly.Town) {
	t.Helper()
	answer, err := quarterly.Invoke(t.Context(), clientOf(t, town, s.agent), s.skill, s.args)
	got := answer.Text
	if err != nil {
		got = "error: " + err.Error()
	}
	if !strings.HasPrefix(got, s.want) || s.want == "" && got != "" {
		t.Errorf("%s %s %v: %q, want %q", s.agent, s.skill, s.args, got, s.want)
	}
}

type args = map[string]any

func TestDocumentsAndMailByData(t *testing.T) {
	town := start(t, quarterly.Config{})
	for _, s := range []step{
		{"documents", "list_documents", args{"quarter": "2025-Q1", "collection": "reports"}, "Q1 Financial Summary\nQ1 Sales Report"},
		{"documents", "list_documents", args{"quartre": "2025-Q1"}, `error: unknown argument "quartre"`},
		{"documents", "list_documents", args{"quarter": 1}, `error: argument "quarter" is a float64`},
		{"documents", "search_documents", args{"query": "sales q4"}, "Q4 Sales Report\nQ1 Sales Report"},
		{"documents", "search_documents", args{}, ""},
		{"documents", "retrieve_document", args{"id": "q1-sales"}, "The first quarter of 2025 brought"},
		{"documents", "retrieve_document", args{"resourceHandle": "q1-sales"}, "error: document not found"},
		{"documents", "retrieve_document", args{"id": "q1-sales", "resourceHandle": "x"}, "error: name one document"},
		{"documents", "retrieve_document", args{}, "error: name one document"},
		{"documents", "create_document", args{"title": "Q3 Plan", "text": "More."}, "Created Q3 Plan."},
		{"documents", "create_document", args{"title": "q3 plan"}, "error: there is a document with that title"},
		{"documents", "create_document", args{}, `error: argument "title" is missing`},
		{"documents", "delete_document", args{"id": "q3-plan"}, "Deleted Q3 Plan."},
		{"documents", "delete_document", args{"id": "q3-plan"}, "error: document not found"},
		{"documents", "send_mail", nil, `error: documents has no skill "send_mail", it has search_documents`},
		{"mail", "send_mail", args{"to": "a@b.example"}, `error: a mail needs "to" and "body"`},
		{"mail", "send_mail", args{"to": "a@b.example", "body": "hi"}, "Sent to a@b.example."},
		{"summariser", "summarize", args{"document": args{"id": "q2-financial"}}, "Revenue in the second quarter"},
		{"summariser", "summarize", args{"document": args{"id": "none"}}, "error: task is TASK_STATE_FAILED: retrieve_document at documents: document not found"},
		{"summariser", "summarize", args{"document": "q1-sales"}, "error: task is TASK_STATE_FAILED: name the document"},
		{"orchestrator", "report", args{"request": "the weather report"}, `error: task is TASK_STATE_FAILED: no document matches "weather"`},
		{"orchestrator", "report", args{"request": "the report"}, "error: task is TASK_STATE_FAILED: say which report you mean"},
	} {
		s.run(t, town)
	}
	if diff := cmp.Diff(quarterly.Reports(), town.Library()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]quarterly.Letter{{To: "a@b.example", Body: "hi"}}, town.Outbox()); diff != "" {
		t.Error(diff)
	}
}

// Where handles bound a request, the agent never tells an id and knows no document without a handle.
func TestDocumentsByHandle(t *testing.T) {
	town := start(t, quarterly.Config{Handles: func(quarterly.Incoming) (map[string]string, bool, error) {
		return map[string]string{"rh_1": "q1-sales", "rh_2": "gone"}, true, nil
	}})
	for _, s := range []step{
		{"documents", "list_documents", args{}, "Q1 Sales Report"},
		{"documents", "retrieve_document", args{"resourceHandle": "rh_1"}, "The first quarter"},
		{"documents", "retrieve_document", args{"resourceHandle": "rh_2"}, "error: document not found"},
		{"documents", "retrieve_document", args{"id": "q1-sales"}, "error: document not found"},
		{"orchestrator", "report", args{"request": "Summarise the sales report"}, "The first quarter"},
	} {
		s.run(t, town)
	}
	answer, err := quarterly.Invoke(t.Context(), clientOf(t, town, "documents"), "list_documents", nil)
	want := args{"documents": []any{args{
		"resourceHandle": "rh_1", "title": "Q1 Sales Report", "collection": "reports", "quarter": "2025-Q1",
	}}}
	if diff := cmp.Diff(want, answer.Data); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAgentsUnderstandWordsAndMetadata(t *testing.T) {
	town := start(t, quarterly.Config{})
	named := func(skill, id string) args { return args{"skill": skill, "arguments": args{"id": id}} }
	bare := args{"skill": "retrieve_document"}
	for name, c := range map[string]struct {
		req  a2a.SendMessageRequest
		want string
	}{
		"words":               {say("Fetch document 'salaries'."), "Confidential."},
		"words without sense": {say("Hello."), "error: documents understands a data part"},
		"message metadata":    {with(say("x"), named("retrieve_document", "q1-sales"), nil), "The first quarter"},
		"extension member":    {with(say("x"), nil, args{"urn:x": named("retrieve_document", "q1-sales")}), "The first quarter"},
		"both agree":          {with(say("x"), named("retrieve_document", "q1-sales"), bare), "The first quarter"},
		"other skill":         {with(say("x"), named("delete_document", "q1-sales"), bare), "error: the message asks for two different things"},
		"other arguments": {
			with(say("x"), named("retrieve_document", "salaries"), named("retrieve_document", "q1-sales")),
			"error: the message asks for two different things",
		},
		"arguments are no object": {with(say("x"), args{"skill": "list_documents", "arguments": "x"}, nil), `error: unknown argument "arguments"`},
	} {
		got := ""
		result, err := clientOf(t, town, "documents").SendMessage(t.Context(), &c.req)
		if err != nil {
			got = "error: " + err.Error()
		} else {
			got = result.(*a2a.Message).Parts[0].Text()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func say(text string) a2a.SendMessageRequest {
	return a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

func with(req a2a.SendMessageRequest, message, request args) a2a.SendMessageRequest {
	req.Message.Metadata, req.Metadata = message, request
	return req
}

func TestRunRefusesUnknownAgents(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for want, agents := range map[string]map[string]quarterly.Agent{
		`there is no agent "docs"`:           {"docs": {}},
		`agent mail has a peer "postmaster"`: {"mail": {Listener: l, Peers: map[string]string{"postmaster": ""}}},
	} {
		if _, err := quarterly.Run(t.Context(), quarterly.Config{Agents: agents}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener of a town that never ran still accepts")
	}
}

// A town whose context ends is gone without Close, and a stranger's agent that does not answer cannot hold it.
func TestTownEndsWithItsContext(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	town, err := quarterly.Run(ctx, quarterly.Config{Agents: map[string]quarterly.Agent{
		"orchestrator": {Peers: map[string]string{"documents": "http://" + silent.Addr().String()}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	client, answered := clientOf(t, town, "orchestrator"), make(chan error)
	go func() { _, err := quarterly.Say(t.Context(), client, wish); answered <- err }()
	if _, err := silent.Accept(); err != nil { // the orchestrator's question, which stays unanswered
		t.Fatal(err)
	}
	cancel()
	if err := <-answered; err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error %v, want one that says that the town was canceled", err)
	}
	if err := town.Close(); err != nil {
		t.Error(err)
	}
	if calls := town.Calls(); len(calls) != 1 || !errors.Is(calls[0].Err, context.Canceled) {
		t.Errorf("calls %v, want the one that was canceled", calls)
	}
}

// The agents' tasks can be watched and asked for, as their cards say.
func TestOrchestratorStreamsItsTask(t *testing.T) {
	town := start(t, quarterly.Config{})
	client, req := clientOf(t, town, "orchestrator"), say(wish)
	var got []string
	var id a2a.TaskID
	for event, err := range client.SendStreamingMessage(t.Context(), &req) {
		if err != nil {
			t.Fatal(err)
		}
		id = event.TaskInfo().TaskID
		switch e := event.(type) {
		case *a2a.Task:
			got = append(got, e.Status.State.String())
		case *a2a.TaskStatusUpdateEvent:
			got = append(got, e.Status.State.String())
		case *a2a.TaskArtifactUpdateEvent:
			got = append(got, e.Artifact.Parts[0].Text())
		}
	}
	want := []string{"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", wantSummary, "TASK_STATE_COMPLETED"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if task, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id}); err != nil || task.Status.State != a2a.TaskStateCompleted {
		t.Errorf("task %v, %v; want it completed", task, err)
	}
	if _, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id}); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("error %v, want %v", err, a2a.ErrTaskNotCancelable)
	}
}
