package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// searchingApart is a town with remote gateways where a person has
// to approve every search.
func searchingApart(t *testing.T, replicas int, o options) (*town, []*replica, *caller, granted) {
	t.Helper()
	o.search += ", approval: true"
	w, all := startRemote(t, replicas, o)
	alice := w.caller(aliceToken)
	return w, all, alice, alice.reports()
}

// asksToSearch sends what a person has to approve, and returns the bytes that it
// has in JSON-RPC.
func (c *caller) asksToSearch(held granted, query string) (answer, []byte) {
	c.w.t.Helper()
	arguments := map[string]any{"query": query}
	body := data("search_documents", arguments)
	return c.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch, arguments: arguments}), body
}

// searched are the calls that the agent behind has had.
func (w *town) searched() [][]byte {
	var out [][]byte
	for _, r := range w.documents.got() {
		out = append(out, r.body)
	}
	return out
}

// TestGATE3_EscalationAtAGatewayApart has two remote gateways, on
// every binding and version: the call is held at one of them, the person is asked by
// the server, either gateway tells what has become of it, and after the approval
// the agent behind has the very bytes, once.
func TestGATE3_EscalationAtAGatewayApart(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w, _, alice, held := searchingApart(t, 2, options{on: on})
		first, sent := alice.asksToSearch(held, "figures")
		task := heldIn(t, first)
		if task.State != "AUTH_REQUIRED" || !strings.HasPrefix(task.URL, w.url+"/approve/ask_") || !strings.Contains(task.Text, task.URL) {
			t.Fatalf("GATE-3 the caller got %+v\n%s", task, first.Raw)
		}
		if n := len(w.searched()); n != 0 {
			t.Fatalf("GATE-3 %d calls reached the agent before anybody approved", n)
		}
		for range 2 { // at one gateway, and at the other
			if again := heldIn(t, alice.aboutTask(held, "documents", "GetTask", task.ID)); again.State != "AUTH_REQUIRED" || again.ID != task.ID || again.URL != task.URL {
				t.Errorf("GATE-3 before the answer GetTask says %+v", again)
			}
		}
		status, q := w.asPerson("alice", http.MethodGet, "/v1/approvals/"+task.asked(), nil)
		if shown := fmt.Sprint(q); status != http.StatusOK || !strings.Contains(shown, "figures") || !strings.Contains(shown, "user:alice") {
			t.Errorf("GATE-3 the person is shown HTTP %d %s", status, shown)
		}
		w.answers("alice", task.asked(), map[string]any{})
		done := w.polled(alice, held, "documents", task.ID)
		if done.State != "COMPLETED" || !bytes.Contains(done.Answer, []byte("echo: ")) {
			t.Fatalf("GATE-3 after the approval the task is %s with %s\n%s", done.State, done.Answer, done.Raw)
		}
		if other := heldIn(t, alice.aboutTask(held, "documents", "GetTask", task.ID)); other.State != "COMPLETED" || !bytes.Equal(other.Answer, done.Answer) {
			t.Errorf("GATE-3 the other gateway says %+v", other)
		}
		got := w.searched()
		if len(got) != 1 {
			t.Fatalf("GATE-3 the agent got %d calls; want 1", len(got))
		}
		if on == (wire{}) && !sameJSON(t, got[0], sent) {
			t.Errorf("ATK-22 the agent got another call than was approved:\n%s\n%s", got[0], sent)
		}
		actions := map[string]int{}
		w.soon("the gateway's records to be at the server", func() bool {
			clear(actions)
			for _, r := range w.records("agent=documents&limit=100") {
				actions[r.Action+" "+r.Decision]++
			}
			return actions["budget.reserve ALLOW"] > 0
		})
		for _, want := range []string{"approval.ask ALLOW", "approval.answer ALLOW", "capability.once ALLOW", "budget.reserve ALLOW"} {
			if actions[want] != 1 {
				t.Errorf("SEP-9 %d records of %s; want 1: %v", actions[want], want, actions)
			}
		}
	})
}

// polledAgain is polled where the gateway was started again: proofs of the same
// second may have been used before (ATK-20).
func (w *town) polledAgain(c *caller, held granted, agent, task string) heldTask {
	w.t.Helper()
	w.soon("proofs to be believed again", func() bool { return c.aboutTask(held, agent, "GetTask", task).reason() != "proof_before_start" })
	return w.polled(c, held, agent, task)
}

// TestGATE3_DeniedAtAGatewayApart has a person refuse, a caller withdraw at the
// other gateway, and someone else ask.
func TestGATE3_DeniedAtAGatewayApart(t *testing.T) {
	w, _, alice, held := searchingApart(t, 2, options{})
	a, _ := alice.asksToSearch(held, "one")
	task := heldIn(t, a)
	w.answers("alice", task.asked(), map[string]any{"deny": true, "reason": "not now"})
	if done := w.polled(alice, held, "documents", task.ID); done.State != "FAILED" || !strings.Contains(done.Text, "not now") {
		t.Errorf("GATE-3 after the denial the task is %+v", done)
	}
	a, _ = alice.asksToSearch(held, "two")
	task = heldIn(t, a)
	bob := w.caller(bobToken)
	for range 2 {
		if other := bob.aboutTask(bob.reports(), "documents", "GetTask", task.ID); other.Error == nil || other.Error.Code != -32001 {
			t.Errorf("ATK-18 somebody else reads the task: %s", other.Raw)
		}
	}
	if got := heldIn(t, alice.aboutTask(held, "documents", "CancelTask", task.ID)); got.State != "CANCELED" && got.State != "CANCELLED" {
		t.Errorf("GATE-3 after CancelTask the task is %+v", got)
	}
	if ids := w.waiting("alice", "confirmations"); len(ids) != 0 {
		t.Errorf("GATE-3 a withdrawn call still waits: %v", ids)
	}
	if n := len(w.searched()); n != 0 {
		t.Errorf("GATE-3 %d calls reached the agent", n)
	}
}

// TestGATE3_AGatewayApartIsKilled kills the gateway while a call waits, which is
// approved meanwhile and is made after the restart; and while one is made, whose
// outcome stays unknown: it is not made again.
func TestGATE3_AGatewayApartIsKilled(t *testing.T) {
	w, all, alice, held := searchingApart(t, 1, options{})
	first, _ := alice.asksToSearch(held, "one")
	task := heldIn(t, first)
	killed(t, all[0].process)
	w.answers("alice", task.asked(), map[string]any{})
	all[0].boot()
	if done := w.polledAgain(alice, held, "documents", task.ID); done.State != "COMPLETED" {
		t.Fatalf("GATE-3 approved while the gateway was away, the task is %+v\n%s", done, all[0].log)
	}
	var reached atomic.Int32
	stuck := make(chan struct{})
	w.documents.answers(func(_ http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	})
	defer close(stuck)
	first, _ = alice.asksToSearch(held, "two")
	task = heldIn(t, first)
	w.answers("alice", task.asked(), map[string]any{})
	w.soon("the call to reach the agent", func() bool { return reached.Load() == 1 })
	killed(t, all[0].process)
	all[0].boot()
	if done := w.polledAgain(alice, held, "documents", task.ID); done.State != "FAILED" || !strings.Contains(done.Text, "outcome is unknown") {
		t.Errorf("GATE-3 after the gateway was killed the task is %+v\n%s", done, all[0].log)
	}
	w.documents.answers(nil)
	first, _ = alice.asksToSearch(held, "three")
	task = heldIn(t, first)
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "documents", task.ID); done.State != "COMPLETED" {
		t.Errorf("GATE-3 the next call: %+v", done)
	}
	if n := reached.Load(); n != 1 {
		t.Errorf("GATE-3 the call was made %d times; want once", n)
	}
}

// TestGATE3_TheServerIsAwayFromAGateway kills the server: no new call is held. A
// held call is made once the server is back and a person has approved it.
func TestGATE3_TheServerIsAwayFromAGateway(t *testing.T) {
	w, _, alice, held := searchingApart(t, 1, options{})
	first, _ := alice.asksToSearch(held, "one")
	task := heldIn(t, first)
	killed(t, w.process)
	if a, _ := alice.asksToSearch(held, "two"); a.Error == nil {
		t.Errorf("GATE-3 a call is held though nobody can be asked: %s", a.Raw)
	}
	w.boot()
	ids := w.waiting("alice", "confirmations")
	if len(ids) != 1 || ids[0] != task.asked() {
		t.Fatalf("GATE-3 after the restart %v wait for alice; want %s", ids, task.asked())
	}
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "documents", task.ID); done.State != "COMPLETED" {
		t.Errorf("GATE-3 after the server's restart the task is %+v", done)
	}
	if n := len(w.searched()); n != 1 {
		t.Errorf("GATE-3 the agent got %d calls; want 1", n)
	}
}

// TestATK42_AtAGatewayApart spends a budget at two gateways that do not keep it, by
// calls at one time: the server that gave it keeps it, so that no more goes through
// than it holds, and nothing while the server cannot be asked.
func TestATK42_AtAGatewayApart(t *testing.T) {
	w, _ := startRemote(t, 2, options{reads: ", uses: 5"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	var through, spent, other atomic.Int32
	var calls sync.WaitGroup
	for range 12 {
		calls.Go(func() {
			switch a := alice.searches(held); {
			case a.Error == nil:
				through.Add(1)
			case a.reason() == "limit_exceeded":
				spent.Add(1)
			default:
				other.Add(1)
				t.Errorf("ATK-42 %s", a.Raw)
			}
		})
	}
	calls.Wait()
	if through.Load() != 5 || spent.Load() != 7 {
		t.Errorf("ATK-42 of 12 calls %d went through, %d were refused and %d failed; want 5 and 7", through.Load(), spent.Load(), other.Load())
	}
	if n := len(w.documents.got()); n != 5 {
		t.Errorf("ATK-42 %d calls reached the agent; want 5", n)
	}
	// Another capability of the same grant has its own budget, which cannot be
	// checked while the server is away.
	second := alice.reports()
	for range 2 { // at one gateway, and at the other
		if a := alice.searches(second); a.Error != nil {
			t.Fatalf("ATK-42 %s", a.Raw)
		}
	}
	killed(t, w.process)
	for range 2 {
		if a := alice.searches(second); a.reason() != "authorization_unavailable" || !strings.Contains(string(a.Raw), "whether the budget of the capability holds it") {
			t.Errorf("ATK-42 while the server is away: %s", a.Raw)
		}
	}
	if n := len(w.documents.got()); n != 7 {
		t.Errorf("ATK-42 %d calls reached the agent; want 7", n)
	}
}

// TestATK46_ApprovalAtAGatewayApart tries to get more out of an approval than was
// given: the capability with other bytes, and again.
func TestATK46_ApprovalAtAGatewayApart(t *testing.T) {
	w, _, alice, held := searchingApart(t, 1, options{})
	first, _ := alice.asksToSearch(held, "one")
	task := heldIn(t, first)
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "documents", task.ID); done.State != "COMPLETED" {
		t.Fatalf("ATK-46 the approved call is %+v", done)
	}
	once := ""
	for _, r := range w.records("agent=documents&limit=100") {
		if r.Action == "capability.once" {
			once = r.Powerbox.Capability
		}
	}
	if once == "" {
		t.Fatal("ATK-46 no capability for one call is on record")
	}
	for name, query := range map[string]string{"changed": "two", "replayed": "one"} {
		a := alice.send("documents", invoke("search_documents", map[string]any{"query": query}, once))
		if reason := a.reason(); reason != "approval_other_request" && reason != "argument_constraint" {
			t.Errorf("ATK-46 %s: %q\n%s", name, reason, a.Raw)
		}
	}
	if n := len(w.searched()); n != 1 {
		t.Errorf("ATK-46 %d calls reached the agent; want 1", n)
	}
}
