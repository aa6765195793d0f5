package e2e

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// asked is the id of the question behind a held task.
func (h heldTask) asked() string { return h.URL[strings.LastIndexByte(h.URL, '/')+1:] }

// TestGATE3_EscalationSurvivesARestart has the server end while a call waits, and
// answers it after that.
func TestGATE3_EscalationSurvivesARestart(t *testing.T) {
	w, alice, held := mailing(t, options{})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	w.again(func() {})
	if got := heldIn(t, alice.aboutTask(held, "mail", "GetTask", task.ID)); got.State != "AUTH_REQUIRED" {
		t.Fatalf("GATE-3 after a restart the task is %+v", got)
	}
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" {
		t.Errorf("GATE-3 after a restart and the approval the task is %+v", done)
	}
	if n := len(w.mail.got()); n != 1 {
		t.Errorf("GATE-3 %d calls reached the agent; want 1", n)
	}
}

// TestGATE3_NoAnswerIsANo lets a question expire: the call fails, and a waiting
// client is told so.
func TestGATE3_NoAnswerIsANo(t *testing.T) {
	w, alice, held := mailing(t, options{extra: "approvals: {timeout: 3s}", policies: asking + `permit(principal == User::"user:alice", action in Action::"mail/mail:send", resource == Agent::"mail");`})
	pendingIn(t, alice.asksForReports())
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	if done := w.polled(alice, held, "mail", task.ID); done.State != "FAILED" || !strings.Contains(done.Text, "in time") {
		t.Errorf("GATE-3 without an answer the task is %+v", done)
	}
	if status, _ := w.asPerson("alice", http.MethodPost, "/v1/approvals/"+task.asked(), map[string]any{}); status == http.StatusOK {
		t.Error("ATK-46 a question whose time is over was answered")
	}
	if a := alice.asksForReports(); a.reason() != "approval_expired" {
		t.Errorf("SEP-27 without an answer: %s", a.Raw)
	}
	if n := len(w.mail.got()); n != 0 {
		t.Errorf("GATE-3 %d calls reached the agent", n)
	}
}

// TestGATE3_WhatCannotBeHeld is refused, and not let through: a credential for the
// agent behind, which would be kept.
func TestGATE3_WhatCannotBeHeld(t *testing.T) {
	w, alice, held := mailing(t, options{})
	arguments := map[string]any{"to": "bob@example.org"}
	body := data("send_mail", arguments)
	h := alice.proof("mail", body, proven{chain: []string{held.Token}, operation: opMail, arguments: arguments})
	h.Set("Authorization", "Basic c2VjcmV0OnNlY3JldA==")
	if a := w.post(w.agentURL("mail"), body, h); a.reason() != "approval_required" {
		t.Errorf("GATE-3 with a credential of the agent's own: %s", a.Raw)
	}
	if n := len(w.mail.got()); n != 0 {
		t.Errorf("GATE-3 %d calls reached the agent", n)
	}
}

// byReference sends a mail under a capability by its id.
func (c *caller) byReference(held granted, amount any) answer {
	c.w.t.Helper()
	return c.send("mail", invoke("send_mail", map[string]any{"to": "bob@example.org", "amount": amount}, held.ID))
}

// TestATK42_BudgetsOfCapabilities spends the budget of a capability by many calls at
// one time, and by capabilities narrowed from it: the calls that continue never
// exceed the budget.
func TestATK42_BudgetsOfCapabilities(t *testing.T) {
	w := start(t, options{offer: ", uses: 5"})
	alice := w.caller(aliceToken)
	held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Send five letters"})[0]
	if held.Token != held.ID {
		t.Errorf("ATK-42 a capability with a budget has a token, which nobody else could count: %s", held.Token)
	}
	child := capabilities(t, alice.call("mail", "a2a/capabilities/attenuate", map[string]any{"capabilityId": held.ID, "constraints": map[string]any{"operations": []string{"send"}}}))[0]
	var wg sync.WaitGroup
	var mu sync.Mutex
	sent, spent := 0, 0
	url := w.agentURL("mail")
	for n := range 12 {
		one := held
		if n%2 == 0 {
			one = child
		}
		body, headers := invoke("send_mail", map[string]any{"to": "bob@example.org", "amount": 1}, one.ID), alice.headers(url)
		wg.Add(1)
		go func() {
			defer wg.Done()
			a := w.post(url, body, headers)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.Error == nil:
				sent++
			case a.reason() == "limit_exceeded":
				spent++
			default:
				t.Errorf("ATK-42 %s", a.Raw)
			}
		}()
	}
	wg.Wait()
	if n := len(w.mail.got()); sent != 5 || spent != 7 || n != 5 {
		t.Errorf("ATK-42 %d went on, %d were refused, %d reached the agent; want 5, 7, 5", sent, spent, n)
	}
	// After a restart it is still spent.
	w.again(func() {})
	if a := alice.byReference(held, 1); a.reason() != "limit_exceeded" {
		t.Errorf("ATK-42 after a restart: %s", a.Raw)
	}
}

// TestATK42_SumsOfArguments adds up an argument exactly, and gives back nothing
// for calls that were made: a failed call may have had its effect.
func TestATK42_SumsOfArguments(t *testing.T) {
	w := start(t, options{offer: ", sum: {amount: 0.3}"})
	alice := w.caller(aliceToken)
	held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Spend little"})[0]
	for _, amount := range []any{0.1, 0.2} {
		if a := alice.byReference(held, amount); a.Error != nil {
			t.Errorf("ATK-42 %v: %s", amount, a.Raw)
		}
	}
	for _, c := range []struct {
		amount any
		want   string
	}{{0.1, "limit_exceeded"}, {-1, "argument_constraint"}, {"1", "argument_constraint"}, {nil, "argument_constraint"}} {
		if a := alice.byReference(held, c.amount); a.reason() != c.want {
			t.Errorf("ATK-42 %v: %s; want %s", c.amount, a.Raw, c.want)
		}
	}
	if a := alice.byReference(held, 0); a.Error != nil {
		t.Errorf("ATK-42 nothing: %s", a.Raw)
	}
	// Another capability has its own budget.
	second := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Spend little again"})[0]
	if a := alice.byReference(second, 0.3); a.Error != nil {
		t.Errorf("ATK-42 %s", a.Raw)
	}
	if n := len(w.mail.got()); n != 4 {
		t.Errorf("ATK-42 %d calls reached the agent; want 4", n)
	}
}

// searches calls the tool that searches, under a capability by its id.
func (c *caller) searches(held granted) answer {
	c.w.t.Helper()
	return c.send("documents", invoke("search_documents", map[string]any{"query": "x"}, held.ID))
}

// TestGATE3_ToolsCannotWait calls a tool over MCP that a person has to approve: it is
// refused, since a call of a tool has no task that could wait.
func TestGATE3_ToolsCannotWait(t *testing.T) {
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, search: ", approval: true"})
	alice := w.caller(aliceToken)
	if a := alice.searches(alice.reports()); a.reason() != "approval_required" {
		t.Errorf("GATE-3 over MCP: %s", a.Raw)
	}
	for _, r := range w.documents.got() {
		if strings.Contains(string(r.body), "tools/call") {
			t.Errorf("GATE-3 it reached the server: %s", r.body)
		}
	}
}

// TestATK42_BudgetsOverMCP spends a budget by calls of a tool.
func TestATK42_BudgetsOverMCP(t *testing.T) {
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, reads: ", uses: 2"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	for range 2 {
		if a := alice.searches(held); a.Error != nil {
			t.Errorf("ATK-42 within the budget: %s", a.Raw)
		}
	}
	if a := alice.searches(held); a.reason() != "limit_exceeded" {
		t.Errorf("ATK-42 beyond the budget: %s", a.Raw)
	}
}

// TestGATE3_InvocationsWait has a2a/skill/invoke, under a capability by its id, wait
// for a person, and complete; in observe nothing waits, and the record says that it
// would.
func TestGATE3_InvocationsWait(t *testing.T) {
	w, alice, held := mailing(t, options{})
	task := heldIn(t, alice.byReference(held, 1))
	if task.State != "AUTH_REQUIRED" {
		t.Fatalf("GATE-3 an invocation: %+v", task)
	}
	out, code := w.cli("explain", w.records("agent=mail&decision=ABSTAIN&limit=1")[0].ID)
	if code != 3 || !strings.Contains(out, "held until a person approves it") || !strings.Contains(out, "powerbox approval list") {
		t.Errorf("GATE-3 what explain says of a held call:\n%s", out)
	}
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" || !strings.Contains(done.Raw, "echo") {
		t.Errorf("GATE-3 after the approval: %+v", done)
	}
	w.operator(http.MethodPut, "/v1/agents/mail/mode", map[string]string{"mode": "observe"})
	a := alice.byReference(held, 1)
	if a.Error != nil || strings.Contains(string(a.Raw), "AUTH_REQUIRED") {
		t.Errorf("GATE-3 in observe: %s", a.Raw)
	}
	if r := w.decided(a); !r.has("approval_required") {
		t.Errorf("GATE-3 in observe the record does not say that a person would be asked: %+v", r.Powerbox.Reasons)
	}
}

// TestGATE3_TheContextOfAnApprovedCall reads what the agent behind is told of a call
// that a person approved: it may do this, with these arguments, and nothing else. Of
// a call of another skill it may not do what a person would have to approve.
func TestGATE3_TheContextOfAnApprovedCall(t *testing.T) {
	w := start(t, options{search: ", approval: true"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	keys := token.NewKeySet(w.agentKey("documents").Public())
	may := func(r received, operation string, arguments map[string]any) bool {
		t.Helper()
		c, err := token.VerifyContext(r.header.Get("Powerbox-Context"), keys, "documents", time.Now(), r.body)
		if err != nil {
			t.Fatal(err)
		}
		op, err := powerbox.ParseOperation(operation)
		if err != nil {
			t.Fatal(err)
		}
		attempt, err := powerbox.Invocation(op, value(t, arguments))
		if err != nil {
			t.Fatal(err)
		}
		return powerbox.Decide(attempt, c.Authority, time.Now()).Allowed
	}
	arguments := map[string]any{"resourceHandle": held.ResourceHandles[0].Handle}
	allowed(t, alice.present("documents", data("retrieve_document", arguments), proven{chain: []string{held.Token}, operation: opRetrieve, arguments: arguments}))
	if first := w.documents.got()[0]; !may(first, opRetrieve, arguments) || may(first, opSearch, map[string]any{"query": "q"}) {
		t.Error("GATE-3 a call of another skill carries what a person would have to approve")
	}
	w.documents.forget()
	task := heldIn(t, alice.searches(held))
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "documents", task.ID); done.State != "COMPLETED" {
		t.Fatalf("GATE-3 %+v", done)
	}
	second := w.documents.got()[0]
	if !may(second, opSearch, map[string]any{"query": "x"}) {
		t.Error("GATE-3 the agent behind may not do what was approved")
	}
	if may(second, opSearch, map[string]any{"query": "y"}) || may(second, opRetrieve, arguments) {
		t.Error("GATE-3 the agent behind may do more than was approved")
	}
}

// TestGATE3_AtTheURLOfASkill has a stock client, which can only send words, call at
// the URL of a skill that a person has to approve.
func TestGATE3_AtTheURLOfASkill(t *testing.T) {
	w, alice, held := mailing(t, options{})
	body := text("SendMessage", "tell Bob")
	url := w.agentURL("mail") + "/skills/send_mail"
	h := alice.proof("mail", body, proven{chain: []string{held.Token}, operation: opMail, arguments: map[string]any{}, url: url})
	task := heldIn(t, w.post(url, body, h))
	if task.State != "AUTH_REQUIRED" {
		t.Fatalf("GATE-3 at the URL of a skill: %+v", task)
	}
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" || !strings.Contains(done.Raw, "tell Bob") {
		t.Errorf("GATE-3 after the approval: %+v", done)
	}
}

// TestGATE3_StreamsWait sends calls that a person has to approve as messages that are
// answered by a stream, on every binding. The stream stays open in AUTH_REQUIRED, tells the
// agent's answer or the person's denial, and ends with the task. A revocation ends it, too.
func TestGATE3_StreamsWait(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w, alice, held := mailing(t, options{on: on})
		arguments := map[string]any{"to": "bob@example.org"}
		begins := func() (told chan answer, question string) {
			t.Helper()
			body := parted("SendStreamingMessage", []any{skillPart("send_mail", arguments)}, nil, nil)
			told = w.begins(w.agentURL("mail"), body, alice.proof("mail", body, proven{chain: []string{held.Token}, operation: opMail, arguments: arguments}))
			ids := w.waiting("alice", "confirmations")
			if len(ids) != 1 {
				t.Fatalf("GATE-3 %v wait for alice\n%s", ids, w.log)
			}
			select {
			case a := <-told:
				t.Fatalf("GATE-3 the stream is over before anybody has answered: %s", a.Raw)
			case <-time.After(300 * time.Millisecond):
			}
			return told, ids[0]
		}
		for n, c := range []struct {
			answer map[string]any
			says   string
		}{{map[string]any{}, "echo: "}, {map[string]any{"deny": true, "reason": "it is not needed"}, "it is not needed"}} {
			told, question := begins()
			if got := len(w.mail.got()); got != n {
				t.Fatalf("GATE-3 %d calls reached the agent before the answer; want %d", got, n)
			}
			w.answers("alice", question, c.answer)
			got := soon(t, "GATE-3 the stream does not end with the call", told)
			if first := heldIn(t, got); first.State != "AUTH_REQUIRED" || first.asked() != question || got.Header.Get("Powerbox-Outcome") != "held" || got.Header.Get("Powerbox-Decision") == "" {
				t.Errorf("GATE-3 the stream begins with %+v, and %v", first, got.Header)
			}
			if !strings.Contains(string(got.Raw), c.says) {
				t.Errorf("GATE-3 the stream does not end with %q: %s", c.says, got.Raw)
			}
		}
		if n := len(w.mail.got()); n != 1 {
			t.Errorf("GATE-3 %d calls reached the agent; want 1", n)
		}
		told, _ := begins()
		if a := alice.call("mail", "a2a/capabilities/revoke", map[string]any{"revocationId": held.RevocationID}); a.Error != nil {
			t.Fatalf("%s", a.Raw)
		}
		if got := soon(t, "ATK-23 the stream goes on with a capability that was revoked", told); !strings.Contains(string(got.Raw), "revoked") && got.reason() != "revoked" {
			t.Errorf("ATK-23 the stream ended without a reason: %s %v", got.Raw, got.Error)
		}
	})
}

// TestGATE3_WhoLeavesAHeldStream: a caller that leaves the stream withdraws nothing. The
// call is made after the approval, and its task has the answer.
func TestGATE3_WhoLeavesAHeldStream(t *testing.T) {
	w, alice, held := mailing(t, options{})
	arguments := map[string]any{"to": "bob@example.org"}
	body := parted("SendStreamingMessage", []any{skillPart("send_mail", arguments)}, nil, nil)
	h := alice.proof("mail", body, proven{chain: []string{held.Token}, operation: opMail, arguments: arguments})
	h.Set("A2A-Version", "1.0")
	r, _ := w.encode(w.agentURL("mail"), body)
	res := w.send(r, h)
	first := make([]byte, 64<<10)
	n, err := res.Body.Read(first)
	task := regexp.MustCompile(`task_pb_[\w-]+`).FindString(string(first[:n]))
	if err = errors.Join(err, res.Body.Close()); err != nil || task == "" {
		t.Fatalf("GATE-3 the stream begins with %s: %v", first[:n], err)
	}
	w.answers("alice", w.waiting("alice", "confirmations")[0], map[string]any{})
	if done := w.polled(alice, held, "mail", task); done.State != "COMPLETED" || !strings.Contains(done.Raw, "echo: ") {
		t.Errorf("GATE-3 after the approval: %+v", done)
	}
}
