package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asPerson is a call to the interface of people, by a built-in user.
func (w *town) asPerson(who, method, path string, body any) (int, map[string]any) {
	w.t.Helper()
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, w.url+path, payload)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Powerbox-Dev-User", who)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	out := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		w.t.Fatalf("%s %s: %s: %v", method, path, r.Status, err)
	}
	return r.StatusCode, out
}

// waiting are the ids of what waits for a built-in user, in one of the queues.
func (w *town) waiting(who, queue string) []string {
	w.t.Helper()
	status, all := w.asPerson(who, http.MethodGet, "/v1/approvals", nil)
	list, ok := all[queue].([]any)
	if status != http.StatusOK || !ok {
		w.t.Fatalf("approvals of %s: HTTP %d %v", who, status, all)
	}
	out := []string{}
	for _, one := range list {
		out = append(out, one.(map[string]any)["id"].(string))
	}
	return out
}

// answers a question and expects that it is taken.
func (w *town) answers(who, id string, body map[string]any) map[string]any {
	w.t.Helper()
	status, q := w.asPerson(who, http.MethodPost, "/v1/approvals/"+id, body)
	if status != http.StatusOK {
		w.t.Fatalf("%s answers %s: HTTP %d %v", who, id, status, q)
	}
	return q
}

// heldTask is a task of the gateway's own, in whatever form.
type heldTask struct {
	ID, Context, State, Text, URL string
	Answer                        json.RawMessage
	Raw                           string
}

// heldIn reads a task out of an answer.
func heldIn(t *testing.T, a answer) heldTask {
	t.Helper()
	raw := a.Result
	var sent struct {
		Task json.RawMessage `json:"task"`
	}
	if json.Unmarshal(raw, &sent) == nil && sent.Task != nil {
		raw = sent.Task
	}
	var task struct {
		ID      string `json:"id"`
		Context string `json:"contextId"`
		Status  struct {
			State           string
			Message, Update struct {
				Parts, Content []struct {
					Text string `json:"text"`
				}
			}
		} `json:"status"`
		Metadata map[string]struct {
			URL    string          `json:"approvalUrl"`
			Answer json.RawMessage `json:"answer"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &task); err != nil || task.ID == "" {
		t.Fatalf("no task: %v\n%d %s", err, a.Status, a.Raw)
	}
	h := heldTask{ID: task.ID, Context: task.Context, State: strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(task.Status.State, "TASK_STATE_"), "-", "_")), Raw: string(raw)}
	for _, part := range append(append(task.Status.Message.Parts, task.Status.Message.Content...), append(task.Status.Update.Parts, task.Status.Update.Content...)...) {
		h.Text += part.Text
	}
	for _, m := range task.Metadata {
		h.URL, h.Answer = m.URL, m.Answer
	}
	return h
}

// polled polls a held task until it no longer waits for a person.
func (w *town) polled(c *caller, held granted, agent, task string) heldTask {
	w.t.Helper()
	var got heldTask
	w.soon("the task to be over", func() bool {
		got = heldIn(w.t, c.aboutTask(held, agent, "GetTask", task))
		return got.State != "AUTH_REQUIRED" && got.State != "WORKING"
	})
	return got
}

// soon waits for a condition that comes true without further calls.
func (w *town) soon(what string, is func() bool) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited for %s in vain\n%s", what, w.log)
		}
	}
}

// aboutTask is a call about a task under a capability.
func (c *caller) aboutTask(held granted, agent, method, task string) answer {
	c.w.t.Helper()
	op := map[string]string{"GetTask": "a2a.task.read", "CancelTask": "a2a.task.cancel"}[method]
	return c.present(agent, rpc(method, map[string]any{"id": task}), proven{chain: []string{held.Token}, operation: op, arguments: map[string]any{"task": task}})
}

// mailing is a town where a person has to approve every mail.
func mailing(t *testing.T, o options) (*town, *caller, granted) {
	t.Helper()
	o.mail += ", approval: true"
	w := start(t, o)
	alice := w.caller(aliceToken)
	return w, alice, alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob about the figures"})[0]
}

func (c *caller) mailsUnder(held granted, to string) answer {
	c.w.t.Helper()
	a, _ := c.mailsBytes(held, to)
	return a
}

// mailsBytes also returns the sent bytes, in JSON-RPC.
func (c *caller) mailsBytes(held granted, to string) (answer, []byte) {
	c.w.t.Helper()
	arguments := map[string]any{"to": to, "body": "The figures"}
	body := data("send_mail", arguments)
	return c.present("mail", body, proven{chain: []string{held.Token}, operation: opMail, arguments: arguments}), body
}

// TestGATE3_EscalationOnEveryBinding sends a mail that a person has to approve, on
// every binding and version: nothing continues, the caller gets a task in
// AUTH_REQUIRED that names the page, and after the approval the agent behind has
// the very bytes, once, and the task its answer.
func TestGATE3_EscalationOnEveryBinding(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w, alice, held := mailing(t, options{on: on})
		first, sent := alice.mailsBytes(held, "bob@example.org")
		task := heldIn(t, first)
		id := task.URL[strings.LastIndexByte(task.URL, '/')+1:]
		if task.State != "AUTH_REQUIRED" || !strings.HasPrefix(task.URL, w.url+"/approve/ask_") || !strings.Contains(task.Text, task.URL) {
			t.Fatalf("GATE-3 the caller got %+v\n%s", task, first.Raw)
		}
		if n := len(w.mail.got()); n != 0 {
			t.Fatalf("GATE-3 %d calls reached the agent before anybody approved", n)
		}
		if r := w.decided(first); r.Decision != "ABSTAIN" || !r.has("approval_required") {
			t.Errorf("GATE-3 the record says %s %v; want ABSTAIN for approval_required", r.Decision, r.Powerbox.Reasons)
		}
		if again := heldIn(t, alice.aboutTask(held, "mail", "GetTask", task.ID)); again.State != "AUTH_REQUIRED" || again.ID != task.ID {
			t.Errorf("GATE-3 before the answer GetTask says %+v", again)
		}
		if ids := w.waiting("alice", "confirmations"); len(ids) != 1 || ids[0] != id {
			t.Fatalf("GATE-3 %v wait for alice; want %s", ids, id)
		}
		w.answers("alice", id, map[string]any{})
		done := w.polled(alice, held, "mail", task.ID)
		if done.State != "COMPLETED" || !bytes.Contains(done.Answer, []byte("echo: ")) || !strings.Contains(done.Raw, `"artifacts"`) {
			t.Errorf("GATE-3 after the approval the task is %s with %s\n%s", done.State, done.Answer, done.Raw)
		}
		got := w.mail.got()
		if len(got) != 1 {
			t.Fatalf("GATE-3 the agent got %d calls; want 1", len(got))
		}
		if on == (wire{}) && !sameJSON(t, got[0].body, sent) {
			t.Errorf("ATK-22 the agent got another call than was approved:\n%s\n%s", got[0].body, sent)
		}
		// Every link is on record: asked, answered, given, decided, done.
		actions := map[string]int{}
		for _, r := range w.records("agent=mail&limit=50") {
			actions[r.Action+" "+r.Decision]++
		}
		// And it is one story.
		told := w.run("trace", first.Header.Get("Powerbox-Decision"))
		for _, want := range []string{"approval.ask", "approval.answer", "capability.once", "user:alice", "waits", opMail, "granted  by user:alice (" + id + "), by policy sha256:"} {
			if !strings.Contains(told, want) {
				t.Errorf("AAP-Z4 the trace of a held call does not tell of %q:\n%s", want, told)
			}
		}
		for _, want := range []string{"approval.ask ALLOW", "approval.answer ALLOW", "capability.once ALLOW"} {
			if actions[want] != 1 {
				t.Errorf("SEP-9 %d records of %s; want 1: %v", actions[want], want, actions)
			}
		}
	})
}

// TestGATE3_EscalationDenied has a person refuse, and another call withdrawn.
func TestGATE3_EscalationDenied(t *testing.T) { onStores(t, tryGATE3EscalationDenied) }

func tryGATE3EscalationDenied(t *testing.T) {
	w, alice, held := mailing(t, options{})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	id := task.URL[strings.LastIndexByte(task.URL, '/')+1:]
	w.answers("alice", id, map[string]any{"deny": true, "reason": "not now"})
	if done := w.polled(alice, held, "mail", task.ID); done.State != "FAILED" || !strings.Contains(done.Text, "not now") {
		t.Errorf("GATE-3 after the denial the task is %+v", done)
	}
	if status, q := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+id, map[string]any{}); status == http.StatusOK {
		t.Errorf("ATK-46 a denied question was answered again: %v", q)
	}
	task = heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	if got := heldIn(t, alice.aboutTask(held, "mail", "CancelTask", task.ID)); got.State != "CANCELED" && got.State != "CANCELLED" {
		t.Errorf("GATE-3 after CancelTask the task is %+v", got)
	}
	if ids := w.waiting("alice", "confirmations"); len(ids) != 0 {
		t.Errorf("GATE-3 a withdrawn call still waits: %v", ids)
	}
	if other := w.caller(bobToken); true {
		bobs := other.present("mail", rpc("GetTask", map[string]any{"id": task.ID}), proven{chain: []string{held.Token}, operation: "a2a.task.read", arguments: map[string]any{"task": task.ID}})
		if bobs.Error == nil {
			t.Errorf("ATK-18 somebody else reads the task: %s", bobs.Raw)
		}
	}
	if n := len(w.mail.got()); n != 0 {
		t.Errorf("GATE-3 %d calls reached the agent", n)
	}
}

// TestATK46_ApprovalAtTheGateway tries to get more out of an approval than was
// given: another request under the capability that was made for one, the same one
// twice, and the one after what it came under was revoked.
func TestATK46_ApprovalAtTheGateway(t *testing.T) { onStores(t, tryATK46ApprovalAtTheGateway) }

func tryATK46ApprovalAtTheGateway(t *testing.T) {
	w, alice, held := mailing(t, options{})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	id := task.URL[strings.LastIndexByte(task.URL, '/')+1:]
	w.answers("alice", id, map[string]any{})
	if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" {
		t.Fatalf("ATK-46 the approved call is %+v", done)
	}
	var once string
	for _, r := range w.records("agent=mail&limit=50") {
		if r.Action == "capability.once" {
			once = r.Powerbox.Capability
		}
	}
	if once == "" {
		t.Fatal("ATK-46 no capability for one call is on record")
	}
	// The holder knows its id, and presents it itself: with other bytes, and again.
	for name, arguments := range map[string]map[string]any{"changed": {"to": "mallory@example.org", "body": "The figures"}, "replayed": {"to": "bob@example.org", "body": "The figures"}} {
		a := alice.send("mail", invoke("send_mail", arguments, once))
		if reason := a.reason(); reason != "approval_other_request" && reason != "argument_constraint" {
			t.Errorf("ATK-46 %s: %q\n%s", name, reason, a.Raw)
		}
	}
	if n := len(w.mail.got()); n != 1 {
		t.Errorf("ATK-46 %d calls reached the agent; want 1", n)
	}
	// Revoked between the question and the answer: the call is not made.
	task = heldIn(t, alice.mailsUnder(held, "carol@example.org"))
	if a := alice.call("mail", "a2a/capabilities/revoke", map[string]any{"revocationId": held.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	w.answers("alice", task.URL[strings.LastIndexByte(task.URL, 0x2f)+1:], map[string]any{})
	w.soon("ATK-46 the call under a revoked capability to be denied on record", func() (failed bool) {
		for _, r := range w.records("agent=mail&decision=DENY&limit=20") {
			failed = failed || r.has("revoked")
		}
		return failed
	})
	if n := len(w.mail.got()); n != 1 {
		t.Errorf("ATK-46 %d calls reached the agent after the revocation; want 1", n)
	}
}

// asking is a policy that leaves reading reports to a person.
const asking = `
@approval("human") permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
permit(principal == User::"user:alice", action in Action::"documents/documents:write", resource in Collection::"documents/reports");
`

func (c *caller) asksForReports() answer {
	c.w.t.Helper()
	return c.call("documents", "a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Summarize <b>quarterly</b> reports",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})
}

// pendingIn reads a pending result.
func pendingIn(t *testing.T, a answer) (id string) {
	t.Helper()
	var result struct {
		Pending struct {
			ID          string    `json:"id"`
			ApprovalURL string    `json:"approvalUrl"`
			Expires     time.Time `json:"expires"`
			Interval    int       `json:"interval"`
		} `json:"pending"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || !strings.HasSuffix(result.Pending.ApprovalURL, "/approve/"+result.Pending.ID) || result.Pending.ID == "" || result.Pending.Interval < 1 || result.Pending.Expires.Before(time.Now()) {
		t.Fatalf("SEP-27 no pending result: %v %s", err, a.Raw)
	}
	return result.Pending.ID
}

// TestSEP27_PendingUntilAPersonAnswers asks for what policy leaves to a person:
// the same call is pending, and after the person has narrowed and approved it, it
// returns the narrower capability, again and again.
func TestSEP27_PendingUntilAPersonAnswers(t *testing.T) {
	onStores(t, trySEP27PendingUntilAPersonAnswers)
}

func trySEP27PendingUntilAPersonAnswers(t *testing.T) {
	w := start(t, options{policies: asking})
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	if again := pendingIn(t, alice.asksForReports()); again != id {
		t.Errorf("SEP-27 the same call asks anew: %s and %s", id, again)
	}
	status, q := w.asPerson("alice", http.MethodGet, "/v1/approvals/"+id, nil)
	shown, _ := json.Marshal(q)
	for _, want := range []string{"Summarize quarterly reports", "Q1 Financial Summary", "Q1 Sales Report", "retrieve", "search", "user:alice"} {
		if status != http.StatusOK || !bytes.Contains(shown, []byte(want)) {
			t.Errorf("SEP-9 the person is not shown %q: HTTP %d %s", want, status, shown)
		}
	}
	if bytes.Contains(shown, []byte("Salary")) {
		t.Errorf("SEP-5 the person is shown what the request does not select: %s", shown)
	}
	if status, _ := w.asPerson("bob", http.MethodPost, "/v1/approvals/"+id, map[string]any{}); status != http.StatusNotFound {
		t.Errorf("SEP-27 somebody else answers: HTTP %d; want 404", status)
	}
	if status, _ := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+id, map[string]any{"operations": []string{"delete"}}); status != http.StatusBadRequest {
		t.Errorf("SEP-27 approved what was not asked: HTTP %d; want 400", status)
	}
	w.answers("alice", id, map[string]any{"operations": []string{"retrieve"}, "resources": []string{"Q1 Sales Report"}})
	got := capabilities(t, alice.asksForReports())
	if len(got) != 1 || len(got[0].Operations) != 1 || got[0].Operations[0] != "retrieve" || len(got[0].ResourceHandles) != 1 || got[0].ResourceHandles[0].DisplayName != "Q1 Sales Report" {
		t.Fatalf("SEP-27 after the answer: %+v", got)
	}
	if twice := capabilities(t, alice.asksForReports()); len(twice) != 1 || twice[0].ID != got[0].ID {
		t.Errorf("SEP-27 an answer that was lost: %+v; want %s again", twice, got[0].ID)
	}
	arguments := map[string]any{"resourceHandle": got[0].ResourceHandles[0].Handle}
	if a := alice.present("documents", data("retrieve_document", arguments), proven{chain: []string{got[0].Token}, operation: opRetrieve, arguments: arguments}); a.Error != nil {
		t.Errorf("SEP-27 what was approved: %s", a.Raw)
	}
	// The record of the approval names the person, and the digest of the answer.
	var answered bool
	for _, r := range w.records("agent=documents&limit=50") {
		answered = answered || r.Action == "approval.answer" && r.Decision == "ALLOW"
	}
	if !answered {
		t.Error("SEP-9 the answer is not on record")
	}
	// Another purpose is another request, whatever was approved before (ATK-46).
	other := alice.call("documents", "a2a/capabilities/request", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Something else",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})
	second := pendingIn(t, other)
	w.answers("alice", second, map[string]any{"deny": true, "reason": "one is enough"})
	for range 2 {
		denied := alice.call("documents", "a2a/capabilities/request", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "Something else",
			"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
		})
		if denied.reason() != "approval_denied" || !strings.Contains(denied.Error.Message, "one is enough") {
			t.Errorf("SEP-27 after a denial: %s", denied.Raw)
		}
	}
	// A caller with another key does not get the capability approved for this one.
	if mallory := w.caller(aliceToken); true {
		if third := pendingIn(t, mallory.asksForReports()); third == id {
			t.Error("ATK-46 another holder's request is answered by the same approval")
		}
	}
}

// TestGATE3_StockClientWaits has the JavaScript SDK, which knows nothing of us,
// send what a person has to approve: it sees AUTH_REQUIRED, and by asking for the
// task the answer.
func TestGATE3_StockClientWaits(t *testing.T) {
	asGiven(t)
	for _, on := range []wire{{}, {overREST, "1.0"}, {overGRPC, "1.0"}, {"JSON-RPC", "0.3"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := &town{t: t, dir: t.TempDir(), documents: newPolyglot(t, on, nil), grpc: map[string]string{}}
			w.deletes = ", approval: true"
			w.guard("prefer", "identity: {dev: [{name: alice, token: "+aliceToken+"}]}")
			client := jsClient(on)
			lines := client(t, w.agentURL("documents"), sent{bearer: aliceToken}, [][]string{{"skill", "delete_document", `{"document": "d1"}`}})
			var seen struct{ ID string }
			if err := json.Unmarshal([]byte(lines[0]), &seen); err != nil || seen.ID == "" || !strings.Contains(lines[0], "TASK_STATE_AUTH_REQUIRED") {
				t.Fatalf("GATE-3 the client saw %s", lines[0])
			}
			ids := w.waiting("alice", "confirmations")
			if len(ids) != 1 {
				t.Fatalf("GATE-3 %v wait for alice\n%s", ids, w.log)
			}
			// Words could ask for the same, and this agent would do it.
			if lines := client(t, w.agentURL("documents"), sent{bearer: aliceToken}, [][]string{{"send", "please delete d1"}}); !strings.Contains(lines[0], "TASK_STATE_AUTH_REQUIRED") {
				t.Errorf("GATE-3 free text went on: %s", lines[0])
			}
			w.answers("alice", ids[0], map[string]any{})
			w.soon("GATE-3 the client to see the answer", func() bool {
				lines = client(t, w.agentURL("documents"), sent{bearer: aliceToken}, [][]string{{"get", seen.ID}})
				return strings.Contains(lines[0], "TASK_STATE_COMPLETED") && strings.Contains(lines[0], "heard: ")
			})
		})
	}
}
