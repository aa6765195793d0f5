package doors_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestEventsOfATaskPassTheGatewayAndNoDoor: with ext_proc the agent gets the gateway's address in
// place of the caller's, and the caller sees its own. Elsewhere that is denied. An event that
// comes to a door is not posted: a door makes no calls.
func TestEventsOfATaskPassTheGatewayAndNoDoor(t *testing.T) {
	w := newTown(t, "prefer")
	var posted behind
	hook := "http://" + serve(t, &posted) + "/hook"
	said := `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"task-1","contextId":"c-1","status":{"state":"TASK_STATE_WORKING"}}}}`
	if p := w.process(t, w.signs(t, post("notes", skill("read_note", 1))), buffered, 200, answers(said), said); p.refusal != nil {
		t.Fatalf("the task: %s", p.refusal.GetBody())
	}
	set := post("notes", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"task-1","id":"p","url":"`+hook+`"}}`)
	if a := w.check(t, w.signs(t, set).checkRequest()); reason(a.GetDeniedResponse().GetBody()) != "answer_not_seen" {
		t.Errorf("ext_authz: %v", a)
	}
	p := w.process(t, w.signs(t, set), buffered, 0, nil, "")
	if p.refusal != nil || strings.Contains(p.body, hook) || !strings.Contains(p.body, w.url+"/agents/notes/") {
		t.Fatalf("ext_proc forwards %s %s", p.body, p.refusal.GetBody())
	}
	_, config, _ := strings.Cut(p.body, `"params":`)
	config = strings.TrimSuffix(config, "}")
	echo := `{"jsonrpc":"2.0","id":1,"result":` + config + `}`
	get := w.signs(t, post("notes", `{"jsonrpc":"2.0","id":1,"method":"GetTaskPushNotificationConfig","params":{"taskId":"task-1","id":"p"}}`))
	if shown := w.process(t, get, buffered, 200, answers(echo), echo); shown.refusal != nil || !strings.Contains(shown.answer, hook) {
		t.Errorf("the caller is shown %s %s", shown.answer, shown.refusal.GetBody())
	}
	_, relay, _ := strings.Cut(config, `"`+w.url)
	relay, _, _ = strings.Cut(relay, `"`)
	event := post("notes", `{"statusUpdate":{"taskId":"task-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"}}}`)
	if event.path = relay; !strings.HasPrefix(relay, "/agents/notes/") {
		t.Fatalf("no address of the gateway in %s", config)
	}
	code, _, _ := w.ask(t, http.MethodPost, "/ext_authz"+relay, event.body, event.header.Clone())
	refused := w.process(t, event, buffered, 0, nil, "")
	if got, _ := posted.took(); code < 400 || refused.refusal.GetStatus().GetCode() != http.StatusNotFound || len(got) != 0 {
		t.Errorf("an event at a door: %d, %v; posted %q", code, refused.refusal, got)
	}
}

// TestARequestOfAnMCPServerIsNotPassedOn: the gateway would tell the server that its client takes no
// such requests. A door makes no calls, so the answer is withheld, and the outcome is on record.
func TestARequestOfAnMCPServerIsNotPassedOn(t *testing.T) {
	w := newTown(t, "scoped")
	const asks = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[],\"maxTokens\":1}}\n\n"
	const result = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"secret\"}]}}\n\n"
	events := func(body string) http.Header {
		h := answers(body)
		h.Set("Content-Type", "text/event-stream")
		return h
	}
	if p := w.process(t, w.signs(t, post("tools", tool("read_file"))), buffered, 200, events(result), result); p.refusal != nil || !strings.Contains(p.answer, "secret") {
		t.Fatalf("an answer as events: %s %s", p.answer, p.refusal.GetBody())
	}
	p := w.process(t, w.signs(t, post("tools", tool("read_file"))), buffered, 200, events(asks+result), asks+result)
	if p.refusal != nil || strings.Contains(p.answer, "secret") || strings.Contains(p.answer, "createMessage") || !strings.Contains(p.answer, "outcome_unknown") {
		t.Errorf("the server asks its client: %s %s", p.answer, p.refusal.GetBody())
	}
	if got, _ := w.tools.took(); len(got) != 0 || len(w.outcomes(t, p.decision)) != 1 {
		t.Errorf("the gateway called the server: %q; outcomes %v", got, w.outcomes(t, p.decision))
	}
}

// TestATaskThatWaitsForAPersonIsAnsweredAtADoor: a call that the gateway holds is a task of the
// gateway's own. Doors that can carry an answer have it; the others name the gateway.
func TestATaskThatWaitsForAPersonIsAnsweredAtADoor(t *testing.T) {
	w := newTown(t, "scoped")
	held := w.signs(t, post("notes", skill("archive_note", 1)))
	status, body := w.send(t, held)
	_, task, found := strings.Cut(body, `"id":"task_pb_`)
	task, _, _ = strings.Cut(task, `"`)
	if status != http.StatusOK || !found {
		t.Fatalf("the gateway: %d %s", status, body)
	}
	task = "task_pb_" + task
	about := func(method string) call {
		return post("notes", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"id":"`+task+`"}}`)
	}
	waits := func(door, body string) {
		t.Helper()
		if !strings.Contains(body, "TASK_STATE_AUTH_REQUIRED") || !strings.Contains(body, task) {
			t.Errorf("%s: %s", door, body)
		}
	}
	waits("ext_authz", w.check(t, w.signs(t, about("GetTask")).checkRequest()).GetDeniedResponse().GetBody())
	waits("ext_proc", string(w.process(t, w.signs(t, about("GetTask")), buffered, 0, nil, "").refusal.GetBody()))
	denied := func(door, body, code string) {
		t.Helper()
		if reason(body) != code || strings.Contains(body, "AUTH_REQUIRED") {
			t.Errorf("%s: %s; want %s", door, body, code)
		}
	}
	c := w.signs(t, about("GetTask"))
	_, _, over := w.ask(t, http.MethodPost, "/ext_authz"+c.path, c.body, c.header)
	denied("ext_authz over HTTP", over, "door_cannot_answer")
	follows := string(w.process(t, w.signs(t, about("SubscribeToTask")), buffered, 0, nil, "").refusal.GetBody())
	denied("ext_proc, a stream", strings.TrimPrefix(follows, "data: "), "door_cannot_answer")
	if other := w.process(t, about("GetTask"), buffered, 0, nil, ""); other.refusal == nil || strings.Contains(string(other.refusal.GetBody()), "AUTH_REQUIRED") {
		t.Errorf("a stranger: %v", other.refusal)
	}
	withdrawn := w.process(t, w.signs(t, about("CancelTask")), buffered, 0, nil, "")
	if !strings.Contains(string(withdrawn.refusal.GetBody()), "TASK_STATE_CANCELED") {
		t.Errorf("CancelTask: %s", withdrawn.refusal.GetBody())
	}
	if got, _ := w.notes.took(); len(got) != 0 {
		t.Errorf("the agent has heard of it: %q", got)
	}
}

// send makes a call at the gateway itself.
func (w *town) send(t *testing.T, c call) (int, string) {
	t.Helper()
	at, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	status, body, _ := through(t, at.String(), c)
	return status, body
}

// TestAnApprovedToolCallIsForTheSameCallOnce: the page comes with the denial. After the approval
// the same tool call is allowed once, at whichever door, and forwarded by the proxy alone.
func TestAnApprovedToolCallIsForTheSameCallOnce(t *testing.T) {
	w := newTown(t, "scoped")
	again := func() processed {
		return w.process(t, w.signs(t, post("tools", tool("archive_file"))), buffered, 0, nil, "")
	}
	p := again()
	body := string(p.refusal.GetBody())
	_, page, found := strings.Cut(body, `"approvalUrl":"`)
	page, _, _ = strings.Cut(page, `"`)
	if reason(body) != "approval_required" || !found {
		t.Fatalf("%s", body)
	}
	if a := w.check(t, w.signs(t, post("tools", tool("archive_file"))).checkRequest()); !strings.Contains(a.GetDeniedResponse().GetBody(), page) {
		t.Errorf("at another door the same call has another page: %v", a)
	}
	w.approve(t, page)
	other := post("tools", strings.Replace(tool("archive_file"), `"path":"a"`, `"path":"b"`, 1))
	if p := w.process(t, w.signs(t, other), buffered, 0, nil, ""); p.refusal == nil {
		t.Error("another call is allowed by the approval")
	}
	if p := again(); p.refusal != nil || !strings.Contains(p.body, "archive_file") {
		t.Errorf("after the approval: %s", p.refusal.GetBody())
	}
	if p := again(); p.refusal == nil {
		t.Error("the approval is used twice")
	}
	if got, _ := w.tools.took(); len(got) != 0 {
		t.Errorf("the gateway called the server: %q", got)
	}
}
