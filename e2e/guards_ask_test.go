package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// askingGuards is a server where a person must approve payments by refunds and writes
// to records.
func askingGuards(t *testing.T) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir()}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	w.write("guard.token", guardToken+"\n")
	w.write("other.token", strings.ToUpper(guardToken))
	w.write("policies.cedar", certificationPolicies)
	c := fmt.Sprintf(guardedConfiguration, port, w.url, aliceToken, "scoped")
	for old, with := range map[string]string{
		"operation: pay}":         "operation: pay, approval: true}",
		"operation: write}":       "operation: write, approval: true}",
		"agents: [mailer]}":       "agents: [mailer, triage]}",
		"refunds: [refund/look],": "refunds: [refund/look, refund/pay],",
		"  dev: [":                "  dev: [{name: carol, token: carol-session-token}, ",
	} {
		c = strings.ReplaceAll(c, old, with)
	}
	w.write("powerbox.yaml", c+"approvals: {rules: [{agent: refunds, approvers: [\"user:carol\"]}]}\n")
	w.boot()
	return w
}

// askedOf is what an answer says of the person who is asked.
func (o opinion) askedOf(t *testing.T) (p guard.Pending) {
	t.Helper()
	var said struct {
		Context struct {
			Pending guard.Pending `json:"pending"`
		} `json:"context"`
	}
	if err := json.Unmarshal([]byte(o.raw), &said); err != nil {
		t.Fatal(err)
	}
	return said.Context.Pending
}

func pays(amount string) string {
	return `{"subject":{"type":"agent","id":"triage"},"action":{"name":"pay","properties":{"arguments":{"amount":"` + amount + `","to":"bob"}}},"resource":{"type":"agent","id":"refunds"},"context":{"purpose":"Refund"}}`
}

// GATE-3: a stock client of AuthZEN tries what a person has to approve. It is told where
// the person is asked; the same attempt is then allowed once, and no other one.
func TestGATE3_AGuardAsksAPerson(t *testing.T) {
	asGiven(t)
	w := askingGuards(t)
	try := func(body string) opinion { return w.asks("evaluation", guardToken, body) }
	waits := func(what, body string) guard.Pending {
		t.Helper()
		o := try(body)
		p := o.askedOf(t)
		if *o.Decision || p.ID == "" || p.URL != w.url+"/approve/"+p.ID || p.Interval < 1 || !strings.Contains(o.Context.Text, p.URL) ||
			len(o.Context.Reasons) != 1 || o.Context.Reasons[0].Code != "approval_required" {
			t.Fatalf("GATE-3 %s: %s", what, o.raw)
		}
		if r := w.record(o.Context.ID); r.Decision != "ABSTAIN" {
			t.Errorf("GATE-3 %s is on record as %s", what, r.Decision)
		}
		return p
	}
	refused := func(what, body, code string) {
		t.Helper()
		if o := try(body); *o.Decision || len(o.Context.Reasons) == 0 || o.Context.Reasons[0].Code != code {
			t.Errorf("GATE-3 %s: %s; want %s", what, o.raw, code)
		} else if r := w.record(o.Context.ID); r.Decision != "DENY" {
			t.Errorf("GATE-3 %s is on record as %s", what, r.Decision)
		}
	}
	allowed := func(what, body string) opinion {
		t.Helper()
		o := try(body)
		if !*o.Decision {
			t.Fatalf("GATE-3 %s: %s", what, o.raw)
		}
		return o
	}
	ten, twenty := waits("an attempt", pays("10")), waits("another one", pays("20"))
	again := waits("the same in another order", strings.Replace(pays("10"), `"amount":"10","to":"bob"`, `"to":"bob","amount":"10"`, 1))
	if again.ID != ten.ID || twenty.ID == ten.ID || len(w.waiting("carol", "reviews")) != 2 {
		t.Errorf("GATE-3 the questions are %s, %s and %s", ten.ID, again.ID, twenty.ID)
	}
	w.answers("carol", ten.ID, map[string]any{})
	if o := w.asks("evaluation", strings.ToUpper(guardToken), pays("10")); *o.Decision || o.askedOf(t).ID == ten.ID {
		t.Errorf("GATE-3 another guard uses the approval: %s", o.raw)
	}
	waits("an attempt that nobody has approved", pays("20"))
	w.again(func() {})
	o := allowed("after the approval, and a restart", pays("10"))
	if told := w.asks("outcome", guardToken, `{"id":"`+o.Context.ID+`","status":"ACHIEVED"}`); told.status != http.StatusOK {
		t.Errorf("GATE-3 the outcome: %s", told.raw)
	}
	if r := w.record(o.Context.ID); r.Decision != "ALLOW" || r.Powerbox.Capability == "" {
		t.Errorf("GATE-3 the approved attempt is on record as %+v", r)
	}
	if once := waits("the same attempt a second time", pays("10")); once.ID == ten.ID {
		t.Error("ATK-46 an answered question is asked again")
	}
	w.answers("carol", twenty.ID, map[string]any{"deny": true})
	refused("what a person refused", pays("20"), "approval_denied")
	if n := len(w.waiting("carol", "reviews")); n != 2 {
		t.Errorf("GATE-3 %d questions are open after a no; want that of the other guard and that of the second time", n)
	}

	thirty := waits("an attempt of several at once", pays("30"))
	w.answers("carol", thirty.ID, map[string]any{})
	var all sync.WaitGroup
	granted := make(chan bool, 8)
	for range cap(granted) {
		all.Go(func() { granted <- *try(pays("30")).Decision })
	}
	all.Wait()
	close(granted)
	n := 0
	for yes := range granted {
		if yes {
			n++
		}
	}
	if n != 1 {
		t.Errorf("ATK-46 an approval was used %d times", n)
	}
	frozen := waits("an attempt of an agent that is stopped then", pays("40"))
	w.answers("carol", frozen.ID, map[string]any{})
	w.run("freeze", "agent:triage", "--reason", "r")
	refused("an approved attempt of a frozen agent", pays("40"), "frozen")
}

// GATE-3: people are not asked about calls that are denied anyway.
func TestGATE3_AGuardAsksOnlyWhatIsMissing(t *testing.T) {
	asGiven(t)
	w := askingGuards(t)
	body := strings.Replace(pays("10"), `"id":"triage"`, `"id":"refunds"`, 1) // which has no scope at itself
	if o := w.asks("evaluation", guardToken, body); *o.Decision || o.askedOf(t).ID != "" || len(o.Context.Missing) == 0 {
		t.Errorf("GATE-3 outside the scope: %s", o.raw)
	}
	if open := w.waiting("carol", "reviews"); len(open) != 0 {
		t.Errorf("GATE-3 people are asked in vain: %v", open)
	}
	w.run("mode", "refunds", "observe")
	if o := w.asks("evaluation", guardToken, pays("10")); !*o.Decision {
		t.Errorf("GATE-3 observe holds an attempt back: %s", o.raw)
	}
}

// GATE-3: a user is asked about an attempt in the user's own name.
func TestGATE3_AGuardAsksTheUser(t *testing.T) {
	asGiven(t)
	w := askingGuards(t)
	body := `{"subject":{"type":"user","id":"alice"},"action":{"name":"write"},"resource":{"type":"record","id":"record-1"}}`
	p := w.asks("evaluation", guardToken, body).askedOf(t)
	if mine := w.waiting("alice", "confirmations"); !slices.Equal(mine, []string{p.ID}) {
		t.Fatalf("GATE-3 %q waits for alice; want %q", mine, p.ID)
	}
	_, shown := w.asPerson("alice", http.MethodGet, "/v1/approvals/"+p.ID, nil)
	if text := fmt.Sprint(shown); !strings.Contains(text, "record-1") {
		t.Errorf("GATE-3 the user is not shown which resource: %s", text)
	}
	w.answers("alice", p.ID, map[string]any{})
	if o := w.asks("evaluation", guardToken, strings.Replace(body, "record-1", "record-3", 1)); *o.Decision || o.askedOf(t).ID == p.ID {
		t.Errorf("ATK-46 another resource: %s", o.raw)
	}
	if o := w.asks("evaluation", guardToken, body); !*o.Decision {
		t.Errorf("GATE-3 after the confirmation: %s", o.raw)
	}
}

// GATE-3: the clients in Go and Python wait for the person, and run an approved call once.
func TestGATE3_ClientsWaitForAPerson(t *testing.T) {
	asGiven(t)
	w := askingGuards(t)
	g := w.gate()
	attempt := guard.Attempt{From: "triage", To: "refunds", Skill: "pay", Arguments: json.RawMessage(`{"amount":"from Go"}`)}
	var refused *guard.Refused
	if d, err := g.Check(t.Context(), attempt); !errors.As(err, &refused) || d.Pending == nil || !strings.Contains(err.Error(), d.Pending.URL) {
		t.Fatalf("GATE-3 %+v %v", d, err)
	}
	asked := []string{}
	d, err := g.Wait(t.Context(), attempt, func(p guard.Pending) {
		asked = append(asked, p.ID)
		w.answers("carol", p.ID, map[string]any{})
	})
	if err != nil || !d.Allowed || len(asked) != 1 || g.Outcome(t.Context(), d, nil) != nil {
		t.Errorf("GATE-3 %+v %v, asked %v", d, err, asked)
	}
	_, err = g.Wait(t.Context(), attempt, func(p guard.Pending) { w.answers("carol", p.ID, map[string]any{"deny": true}) })
	if !errors.As(err, &refused) || refused.Code() != "approval_denied" {
		t.Errorf("GATE-3 after a no: %v", err)
	}

	module, err := filepath.Abs("../integrations/python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-B", "testdata/guards_ask.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+module, "GATE="+w.url, "TOKEN="+guardToken, "ASKED="+filepath.Join(w.dir, "asked"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.soon("the question of the program in Python", func() bool { _, err := os.Stat(filepath.Join(w.dir, "asked")); return err == nil })
	w.answers("carol", w.waiting("carol", "reviews")[0], map[string]any{})
	if err := cmd.Wait(); err != nil || out.String() != "ok\n" {
		t.Errorf("GATE-3 %v\n%s", err, out.String())
	}
}
