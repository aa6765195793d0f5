package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

// falseGateway speaks to the server with the key of an enrolled gateway.
type falseGateway struct {
	w      *town
	client link.Client
}

// falselyAs takes the key out of a gateway's state.
func (w *town) falselyAs(state string) falseGateway {
	w.t.Helper()
	seed, err := os.ReadFile(filepath.Join(state, "keys", "gateway.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := signed.NewKey(raw(w.t, strings.TrimSpace(string(seed))))
	if err != nil {
		w.t.Fatal(err)
	}
	return falseGateway{w, link.Client{Server: w.url, Key: key, Now: time.Now}}
}

// gatewayOf enrols a gateway of an agent, which is never started.
func (w *town) gatewayOf(agent string) falseGateway {
	w.t.Helper()
	return w.falselyAs(w.enrolled(agent))
}

// enrolled is the state of a new gateway.
func (w *town) enrolled(agent string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(w.run("gateway", "token", "--agent", agent))), 0o600); err != nil {
		w.t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	if out, err := exec.CommandContext(w.t.Context(), binary, "gateway", "enroll", "--server", w.url, "--token-file", file, "--state", state).CombinedOutput(); err != nil {
		w.t.Fatalf("enroll: %v\n%s", err, out)
	}
	return state
}

func (l falseGateway) says(path string, question any) (status int, held link.HeldAnswer, budget link.BudgetAnswer) {
	l.w.t.Helper()
	var raw json.RawMessage
	if status = l.tells(path, question, &raw); status == http.StatusOK {
		_ = json.Unmarshal(raw, &held)
		_ = json.Unmarshal(raw, &budget)
	}
	return status, held, budget
}

// tells asks the server, signed, and reads what it answers.
func (l falseGateway) tells(path string, question, into any) int {
	l.w.t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		l.w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(l.w.t.Context(), http.MethodPost, l.w.url+path, bytes.NewReader(body))
	if err == nil {
		err = l.client.Sign(r, body)
	}
	if err != nil {
		l.w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		l.w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode == http.StatusOK {
		_ = json.Unmarshal(text, into)
	}
	return response.StatusCode
}

// TestATK42_AGatewayThatLies has gateways make requests that they may not make: the
// budget of another agent's capability, one that is not there, amounts that are no
// numbers, and to give back what another gateway has taken.
func TestATK42_AGatewayThatLies(t *testing.T) {
	w, all := startRemote(t, 2, options{reads: ", uses: 3", offer: ", uses: 3"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Send"})[0]
	one, other := w.falselyAs(all[0].state), w.falselyAs(all[1].state)
	take := func(of, budget, amount string) []link.BudgetTake {
		return []link.BudgetTake{{Of: of, Budget: budget, Amount: amount}}
	}
	for name, q := range map[string]link.BudgetQuery{
		"another agent's":      {Decision: "rec_1", Take: take(mail.ID, "uses", "1")},
		"not on record":        {Decision: "rec_1", Take: take("cap_none", "uses", "1")},
		"a budget that is not": {Decision: "rec_1", Take: take(held.ID, "sum:amount", "1")},
		"less than nothing":    {Decision: "rec_1", Take: take(held.ID, "uses", "-1")},
		"more than fits":       {Decision: "rec_1", Take: take(held.ID, "uses", "1e9")},
		"for no decision":      {Take: take(held.ID, "uses", "1")},
		"nothing":              {Decision: "rec_1"},
	} {
		if status, _, _ := one.says(link.PathBudget, q); status == http.StatusOK {
			t.Errorf("ATK-42 %s is reserved", name)
		}
	}
	if status, _, b := one.says(link.PathBudget, link.BudgetQuery{Decision: "rec_2", Take: take(held.ID, "uses", "3")}); status != http.StatusOK || b.Spent {
		t.Fatalf("ATK-42 its own: HTTP %d %+v", status, b)
	}
	if status, _, _ := other.says(link.PathBudget, link.BudgetQuery{Decision: "rec_2", Settle: true, Back: true}); status != http.StatusOK {
		t.Errorf("ATK-42 HTTP %d", status)
	}
	if a := alice.searches(held); a.reason() != "limit_exceeded" {
		t.Errorf("ATK-42 another gateway gave back what was taken: %s", a.Raw)
	}
	for range 2 { // given back once
		one.says(link.PathBudget, link.BudgetQuery{Decision: "rec_2", Settle: true, Back: true})
	}
	for n := range 4 {
		if a := alice.searches(held); (a.Error != nil) != (n == 3) {
			t.Errorf("ATK-42 call %d after it was given back: %s", n+1, a.Raw)
		}
	}
}

// TestGATE3_AGatewayThatLies has gateways ask about calls that others hold: one of
// the same agent can tell what has become of it, and neither make it nor end it for
// its owner; one of another agent knows of none.
func TestGATE3_AGatewayThatLies(t *testing.T) {
	w, all, alice, held := searchingApart(t, 1, options{})
	first, _ := alice.asksToSearch(held, "figures")
	task := heldIn(t, first)
	replica, stranger, own := w.gatewayOf("documents"), w.gatewayOf("mail"), w.falselyAs(all[0].state)
	tell := link.HeldQuery{Do: link.HeldTell, Task: task.ID}
	if _, a, _ := replica.says(link.PathHeld, tell); !a.Known || a.Task.State != a2a.OwnAuthRequired {
		t.Errorf("GATE-3 a replica is not told: %+v", a)
	}
	if _, a, _ := stranger.says(link.PathHeld, tell); a.Known {
		t.Errorf("ATK-18 another agent's gateway is told: %+v", a)
	}
	if _, a, _ := stranger.says(link.PathHeld, link.HeldQuery{Do: link.HeldCancel, Task: task.ID}); a.Known {
		t.Errorf("ATK-18 another agent's gateway withdraws: %+v", a)
	}
	if _, a, _ := own.says(link.PathHeld, link.HeldQuery{Do: link.HeldBegin, Task: task.ID}); a.Known {
		t.Errorf("GATE-3 a call is begun that nobody has approved: %+v", a)
	}
	killed(t, all[0].process) // so that it is not made meanwhile
	w.answers("alice", task.asked(), map[string]any{})
	if _, a, _ := replica.says(link.PathHeld, link.HeldQuery{Do: link.HeldRulings, Tasks: []string{task.ID}}); len(a.Rulings) != 1 || a.Rulings[0].Capability != "" {
		t.Errorf("GATE-3 a replica is given the capability: %+v", a)
	}
	for _, l := range []falseGateway{replica, stranger} {
		if _, a, _ := l.says(link.PathHeld, link.HeldQuery{Do: link.HeldBegin, Task: task.ID}); a.Known {
			t.Errorf("GATE-3 another gateway begins the call: %+v", a)
		}
		l.says(link.PathHeld, link.HeldQuery{Do: link.HeldMade, Task: task.ID, Result: &link.HeldResult{Text: "lies"}})
	}
	all[0].boot()
	if done := w.polledAgain(alice, held, "documents", task.ID); done.State != "COMPLETED" || strings.Contains(done.Raw, "lies") {
		t.Errorf("GATE-3 in the end the task is %+v", done)
	}
	// What a gateway asks people in the name of a capability is about its own agent.
	call := link.HeldCall{Task: "task_pb_1", Digest: "d", Holder: "key:x", Parent: held.ID, Operations: []link.HeldOperation{{Name: "mail/mail:send/send"}}, Authority: json.RawMessage(`{}`), Decision: "rec_1"}
	if status, a, _ := stranger.says(link.PathHeld, link.HeldQuery{Do: link.HeldAsk, Call: &call}); status == http.StatusOK && a.Known {
		t.Errorf("ATK-42 a gateway asks under another agent's capability: %+v", a)
	}
	call.Parent, call.Task = "", task.ID
	if status, a, _ := replica.says(link.PathHeld, link.HeldQuery{Do: link.HeldAsk, Call: &call}); status == http.StatusOK && a.Known {
		t.Errorf("GATE-3 a gateway takes over a task: %+v", a)
	}
}
