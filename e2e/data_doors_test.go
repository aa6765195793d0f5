package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// newDataDesk is a server whose guard speaks for two agents, with the rules about data.
func newDataDesk(t *testing.T) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir()}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	w.write("guard.token", guardToken+"\n")
	w.write("other.token", strings.ToUpper(guardToken))
	w.write("policies.cedar", certificationPolicies)
	c := fmt.Sprintf(guardedConfiguration, port, w.url, aliceToken, "scoped")
	for old, with := range map[string]string{
		"{skill: read_file, grant: files, operation: read, effect: read}":     "{skill: read_file, grant: files, operation: read, effect: read, yields: {source: files-of-strangers}}",
		"{skill: look_up, grant: refund, operation: look, effect: read}":      "{skill: look_up, grant: refund, operation: look, effect: read, yields: {trust: trusted, source: ledger}}",
		"{skill: pay, grant: refund, operation: pay}":                         "{skill: pay, grant: refund, operation: pay, yields: {trust: trusted}, accepts: {untrusted: refuse, deciding: [to]}}",
		"refunds: [refund/look],":                                             "refunds: [refund/look, refund/pay], mailer: [mail/send],",
		"{skill: mail.send, grant: mail, operation: send}":                    "{skill: mail.send, grant: mail, operation: send, accepts: {untrusted: ask}}",
		"{name: helpdesk, token_file: guard.token, agents: [triage, refunds]": "{name: helpdesk, token_file: guard.token, agents: [triage, refunds, mailer]",
	} {
		if !strings.Contains(c, old) {
			t.Fatalf("the configuration lacks %s", old)
		}
		c = strings.ReplaceAll(c, old, with)
	}
	w.write("powerbox.yaml", c+"data: {mode: enforce}\napprovals: {rules: [{agent: mailer, approvers: [\"user:alice\"]}]}\n")
	w.boot()
	return w
}

// attemptBy is a question of a guard about an attempt of one of its agents.
func attemptBy(agent, skill, target string) string {
	return fmt.Sprintf(`{"subject":{"type":"agent","id":%q},"action":{"name":%q,"properties":{"arguments":{"to":"bob"}}},"resource":{"type":"agent","id":%q}}`, agent, skill, target)
}

// Programs that ask for decisions are held to the rules about data: the label of what an
// attempt reads is noted with the decision, and stays with the agent that the guard names.
func TestATK113_DataOfProgramsHasAnOrigin(t *testing.T) {
	asGiven(t)
	w := newDataDesk(t)
	ask := func(body string) opinion { return w.asks("evaluation", guardToken, body) }
	yes := func(what string, o opinion) {
		t.Helper()
		if !*o.Decision {
			t.Fatalf("%s: %s", what, o.raw)
		}
	}
	no := func(what string, o opinion, code string) {
		t.Helper()
		if *o.Decision || len(o.Context.Reasons) == 0 || o.Context.Reasons[0].Code != code {
			t.Fatalf("%s: %s; want %s", what, o.raw, code)
		}
	}
	yes("after nothing", ask(attemptBy("triage", "pay", "refunds")))
	yes("a trusted reading", ask(attemptBy("triage", "look_up", "refunds")))
	yes("after a trusted reading", ask(attemptBy("triage", "pay", "refunds")))
	yes("an untrusted reading", ask(attemptBy("triage", "read_file", "files")))
	no("after an untrusted reading", ask(attemptBy("triage", "pay", "refunds")), "data_origin")
	yes("reading again", ask(attemptBy("triage", "look_up", "refunds")))
	no("what a person may approve", ask(attemptBy("triage", "mail.send", "mailer")), "approval_required")
	yes("another agent", ask(attemptBy("refunds", "mail.send", "mailer")))
	w.again(func() {})
	no("after a restart", ask(attemptBy("triage", "pay", "refunds")), "data_origin")

	out, _ := w.cli("explain", w.records("agent=refunds&decision=DENY&limit=1")[0].ID, "-c", "powerbox.yaml")
	if !strings.Contains(out, "files-of-strangers (untrusted)") {
		t.Errorf("powerbox explain does not say what was read:\n%s", out)
	}

	open := w.waiting("alice", "reviews")
	if len(open) != 1 {
		t.Fatalf("%v waits", open)
	}
	w.answers("alice", open[0], map[string]any{})
	yes("after the approval", ask(attemptBy("triage", "mail.send", "mailer")))
	no("once more", ask(attemptBy("triage", "mail.send", "mailer")), "approval_required")

	// A user has no holder, so the attempt counts as one after untrusted reading.
	user := `{"subject":{"type":"user","id":"alice"},"action":{"name":"write"},"resource":{"type":"record","id":"record-1"}}`
	no("a user's own attempt", ask(user), "approval_required")
	yes("a user's own reading", ask(strings.Replace(user, `"write"`, `"read"`, 1)))
}

// A door that does not show results notes their label with the decision, so a later call of
// the caller is held to the rules. No value of such a result vouches for anything.
func TestATK113_DataAtDoorsWithoutResultsHasAnOrigin(t *testing.T) {
	asGiven(t)
	d := newDataTown(t)
	text := (&bank{town: d.town}).file("powerbox.yaml")
	at := "127.0.0.1:" + freePort(t)
	d.again(func() {
		d.write("powerbox.yaml", text+"doors: [{name: edge, listen: \""+at+"\", routes: [{path: /agents/mail, agent: mail}, {path: /agents/contacts, agent: contacts}]}]\n")
	})
	h := http.Header{"Authorization": {"Bearer " + aliceToken}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	asked := d.post(d.agentURL("bank"), rpc("a2a/capabilities/request", map[string]any{"grants": []string{"bank:pay"}, "purpose": "pay bills"}), h)
	held := capabilities(t, asked)[0]
	tool := func(url, tool string, arguments map[string]any) answer {
		t.Helper()
		with := h.Clone()
		if strings.HasSuffix(url, "/bank") {
			with.Set("Powerbox-Capability", held.ID)
		}
		return d.post(url, rpc("tools/call", map[string]any{"name": tool, "arguments": arguments}), with)
	}
	through := func(agent, name string) {
		t.Helper()
		if a := tool("http://"+at+"/ext_authz/agents/"+agent, name, map[string]any{}); a.Status != http.StatusOK || a.Header.Get("Powerbox-Context") == "" {
			t.Fatalf("the door answers %d %s", a.Status, a.Raw)
		}
	}
	bank := d.agentURL("bank")
	allowed(t, tool(bank, "note", map[string]any{"text": "x"}))
	through("contacts", "look_up")
	denied(t, tool(bank, "pay", map[string]any{"account": "DE02BOB"}), "data_origin")
	through("mail", "read_mail")
	denied(t, tool(bank, "note", map[string]any{"text": "x"}), "approval_required")
}

// The labels of Agent Auth stay with the agent: what it executes later is held to the rules,
// and a value of a trusted result may be used.
func TestATK113_DataOfCapabilitiesHasAnOrigin(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: `
        - {name: read_mail, description: Mail of strangers, sensitivity: read, yields: {source: inbox}}
        - {name: look_up, description: The address book, sensitivity: read, yields: {trust: trusted, source: address-book}}
        - name: pay
          description: Pay an account
          sensitivity: write
          input: {type: object, properties: {to: {type: string}, note: {type: string}}}
          accepts:
            untrusted: refuse
            deciding: [to]
            from: [{argument: to, operation: bank/agent-auth/look_up, path: /did}]
        - {name: note, description: Write a note, sensitivity: write}
data: {mode: enforce}
`})
	m := b.active("alice", "read_mail", "look_up", "pay", "note", "check_balance", "slow_job", "ticker")
	other := b.active("alice", "note")
	done := func(what string, r reply) { t.Helper(); b.want(what, r, http.StatusOK, "") }
	refused := func(what string, r reply, why string) {
		t.Helper()
		b.want(what, r, http.StatusForbidden, "constraint_violated")
		if !strings.Contains(r.text("message"), why) {
			t.Errorf("%s: %s; want %q", what, r.Raw, why)
		}
	}
	inTask := func(task, name string, arguments map[string]any) reply {
		return b.ask(http.MethodPost, "/capability/execute", m.token(b.url+"/capability/execute"), map[string]any{"capability": name, "arguments": arguments}, "Powerbox-Task", task)
	}
	done("before reading", m.execute("note", args()))
	refused("a value that was not read", m.execute("pay", args("to", "look_up")), "was not read")
	done("the book", m.execute("look_up", args()))
	done("a value that was read", m.execute("pay", args("to", "look_up")))
	refused("another value", m.execute("pay", args("to", "evil")), "was not read")
	refused("the value in another task", inTask("t2", "pay", args("to", "look_up")), "was not read")
	done("the book in a task", inTask("t2", "look_up", args()))
	done("the value in that task", inTask("t2", "pay", args("to", "look_up")))
	b.want("a task without a name", inTask("a b", "look_up", args()), http.StatusBadRequest, "invalid_request")
	before := b.did("note")
	done("the mail", m.execute("read_mail", args()))
	refused("a change after the mail", m.execute("note", args("text", "x")), ", inbox)")
	done("a value that was read, after the mail", m.execute("pay", args("to", "look_up")))
	done("reading after the mail", m.execute("check_balance", args("account_id", "a")))
	done("another agent", other.execute("note", args()))
	if got := b.did("note") - before; got != 1 {
		t.Errorf("%d notes were made after the mail; want that of the other agent", got)
	}
	for what, name := range map[string]string{"a job": "slow_job", "a stream": "ticker"} {
		reader := b.active("alice", name, "note")
		go func() { b.wait <- struct{}{} }()
		reader.execute(name, args())
		refused(what, reader.execute("note", args()), "untrusted data (bank)")
	}
	read := slices.ContainsFunc(b.records("limit=50"), func(r recorded) bool { return r.Decision == "DENY" && r.has("data_origin") })
	if !read {
		t.Error("no record names the rule")
	}
}
