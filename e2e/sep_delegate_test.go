package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// attenuate asks the issuer for a child.
func (c *caller) attenuate(id string, constraints map[string]any) answer {
	c.w.t.Helper()
	return c.call("documents", "a2a/capabilities/attenuate", map[string]any{"capabilityId": id, "constraints": constraints})
}

func TestSEP12_Attenuate(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	first, second := c.ResourceHandles[0].Handle, c.ResourceHandles[1].Handle
	until := time.Now().Add(10 * time.Minute).UTC().Truncate(time.Second)
	child := capabilities(t, alice.attenuate(c.ID, map[string]any{
		"resourceHandles": []string{first}, "operations": []string{"retrieve"}, "expires": until.Format(time.RFC3339),
	}))[0]
	if child.ID == c.ID || len(child.ResourceHandles) != 1 || !cmp.Equal(child.Operations, []string{"retrieve"}) || !child.Expires.Equal(until) {
		t.Fatalf("the child is %+v", child)
	}
	for name, wider := range map[string]map[string]any{
		"resourceHandles": {"resourceHandles": []string{second}},
		"operations":      {"operations": []string{"search"}},
		"expires":         {"expires": until.Add(time.Minute).Format(time.RFC3339)},
	} {
		a := alice.attenuate(child.ID, wider)
		if a.reason() != "attenuation_wider" || !strings.Contains(a.Error.Message, name) {
			t.Errorf("SEP-12 wider %s: %s", name, a.Raw)
		}
	}
	w.refused(t, alice.under([]string{child.Token}, second), "handle_not_granted")
	w.refused(t, alice.present("documents", invoke("search_documents", nil, ""), proven{chain: []string{child.Token}, operation: opSearch}), "operation_not_granted")
	w.refused(t, w.caller(aliceToken).attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}), "capability_unknown")
	allowed(t, alice.under([]string{child.Token}, first))
	// Offline, by the holder alone.
	sub := w.caller("")
	chain := alice.derive("documents", []string{c.Token}, token.Narrowing{
		Holder: sub.key.Public(), Tools: slices.DeleteFunc(alice.verified("documents", c.Token).Tools(), func(cl powerbox.Clause) bool { return cl.Pattern.Name() == opSearch }),
	})
	allowed(t, sub.under(chain, second))
	if a := sub.present("documents", invoke("search_documents", nil, ""), proven{chain: chain, operation: opSearch}); a.reason() != "operation_not_granted" {
		t.Errorf("SEP-12 offline: %s", a.Raw)
	}
	if a := alice.under(chain, second); a.reason() != "proof_signature" {
		t.Errorf("SEP-12 the parent's holder presents the child: %s", a.Raw)
	}
}

// A grant that is not attenuable makes tokens that cannot be passed on, online
// or offline.
func TestSEP12_NotAttenuable(t *testing.T) {
	w := start(t, options{})
	w.again(func() { w.rewrite("powerbox.yaml", "maximum_depth: 3", "maximum_depth: 3, attenuable: false") })
	alice := w.settled(aliceToken)
	c := alice.reports()
	w.refused(t, alice.attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}), "not_attenuable")
	v := alice.verified("documents", c.Token)
	if _, err := token.Derive(v, alice.key, token.Narrowing{ID: nonce(), Now: time.Now(), Tools: v.Tools(), Holder: alice.key.Public()}); err == nil {
		t.Error("the token can be passed on")
	}
	allowed(t, alice.under([]string{c.Token}, c.ResourceHandles[0].Handle))
}

// sent is what the agent behind documents learned with the last call.
func (w *town) sent() token.Context {
	w.t.Helper()
	got := w.documents.got()
	if len(got) == 0 {
		w.t.Fatal("nothing reached the agent")
	}
	last := got[len(got)-1]
	c, err := token.VerifyContext(last.header.Get("Powerbox-Context"), w.keySet("documents"), "documents", time.Now(), last.body)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestSEP13_TaskSend(t *testing.T) {
	agent := newKey(t) // of the documents agent itself
	w := start(t, options{agent: "    enforces: context", extra: named(t, map[string]*token.PrivateKey{"documents": agent})})
	alice := w.caller(aliceToken)
	read := alice.reports()
	mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell the board"})[0]
	until := time.Now().Add(5 * time.Minute).UTC().Truncate(time.Second)
	message := map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "Summarize this document"}}}
	send := func(capabilities []string, attenuations map[string]any) answer {
		return alice.call("documents", "a2a/task/send", map[string]any{"message": message, "capabilities": capabilities, "attenuations": attenuations})
	}
	t.Run("SEP-13 an attenuation of what is not listed", func(t *testing.T) {
		w.refused(t, send([]string{read.ID}, map[string]any{mail.ID: map[string]any{"operations": []string{"send"}}}), "attenuation_not_listed")
	})
	t.Run("SEP-13 a wider attenuation", func(t *testing.T) {
		w.refused(t, send([]string{read.ID}, map[string]any{read.ID: map[string]any{"operations": []string{"delete"}}}), "attenuation_wider")
	})
	t.Run("SEP-13 somebody else's capability", func(t *testing.T) {
		w.refused(t, send([]string{w.caller(bobToken).reports().ID}, nil), "capability_unknown")
	})
	t.Run("SEP-13 nothing for this agent", func(t *testing.T) { w.refused(t, send([]string{mail.ID}, nil), "capability_required") })
	t.Run("SEP-13 one of two that are handed over is wider", func(t *testing.T) {
		other := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell the staff"})[0]
		before := w.operator(http.MethodGet, "/v1/capabilities?agent=mail", nil)
		w.refused(t, send([]string{read.ID, mail.ID, other.ID}, map[string]any{other.ID: map[string]any{"operations": []string{"delete"}}}), "attenuation_wider")
		if after := w.operator(http.MethodGet, "/v1/capabilities?agent=mail", nil); string(after) != string(before) {
			t.Errorf("before the refusal\n%s\nand after it\n%s", before, after)
		}
	})
	t.Run("SEP-13 the attenuated set", func(t *testing.T) {
		allowed(t, send([]string{read.ID, mail.ID}, map[string]any{
			read.ID: map[string]any{"operations": []string{"retrieve"}, "expires": until.Format(time.RFC3339)},
			mail.ID: map[string]any{"operations": []string{"send"}, "expires": until.Format(time.RFC3339)},
		}))
		c := w.sent()
		if names := c.Authority.Names(); slices.Contains(names, opSearch) || !slices.Contains(names, opRetrieve) || !c.Authority.Window().Until.Equal(until) {
			t.Errorf("the task runs under %v until %s", names, c.Authority.Window().Until)
		}
		if c.Root != read.ID || c.Capability == read.ID {
			t.Errorf("the task runs under %s of root %s, not under a child", c.Capability, c.Root)
		}
		for _, r := range w.documents.got() {
			if strings.Contains(string(r.body), read.Token) || strings.Contains(string(r.body), mail.Token) {
				t.Error("the parent's token was handed on")
			}
		}
	})
	handed := w.sent().Delegated
	if len(handed) != 1 || handed[0].Agent != w.agentURL("mail") || handed[0].Capability == mail.ID {
		t.Fatalf("SEP-13 handed over: %+v", handed)
	}
	recipient := &caller{w, agent, ""}
	use := invoke("send_mail", nil, handed[0].Capability)
	t.Run("SEP-13 the sender does not hold the child", func(t *testing.T) {
		if a := alice.send("mail", use); a.reason() != "capability_unknown" {
			t.Errorf("%s", a.Raw)
		}
	})
	t.Run("SEP-13 the recipient holds the child", func(t *testing.T) {
		a := recipient.send("mail", use)
		allowed(t, a)
		if d := w.decided(a); d.Powerbox.Requester != "documents" {
			t.Errorf("recorded for %q", d.Powerbox.Requester)
		}
	})
	t.Run("SEP-13 the parent takes the child with it", func(t *testing.T) {
		alice.call("mail", "a2a/capabilities/revoke", map[string]any{"revocationId": mail.RevocationID})
		if a := recipient.send("mail", use); a.reason() != "revoked" {
			t.Errorf("%s", a.Raw)
		}
	})
}

// The same members ride in the request metadata of SendMessage, and a holder
// can hand over a chain that it derived offline.
func TestSEP13_SendMessageMetadata(t *testing.T) {
	agent := newKey(t)
	w := start(t, options{agent: "    enforces: context", extra: named(t, map[string]*token.PrivateKey{"documents": agent})})
	alice := w.caller(aliceToken)
	read := alice.reports()
	mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell the board"})[0]
	chain := alice.derive("mail", []string{mail.Token}, token.Narrowing{Holder: agent.Public()})
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		allowed(t, alice.send("documents", rpc(method, map[string]any{
			"message": map[string]any{"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": "Summarize this document"}}},
			"metadata": map[string]any{extension: map[string]any{
				"capabilities": []string{read.ID, mail.ID},
				"attenuations": map[string]any{read.ID: map[string]any{"operations": []string{"retrieve"}}},
				"delegations":  []any{map[string]any{"agent": w.agentURL("mail"), "chain": chain}},
			}},
		})))
		c := w.sent()
		if slices.Contains(c.Authority.Names(), opSearch) || len(c.Delegated) != 1 {
			t.Errorf("SEP-13 %s: %v, %+v", method, c.Authority.Names(), c.Delegated)
		}
		recipient := &caller{w, agent, ""}
		allowed(t, recipient.send("mail", invoke("send_mail", nil, c.Delegated[0].Capability)))
		got := w.documents.got()
		if !strings.Contains(string(got[len(got)-1].body), chain[1]) {
			t.Error("SEP-13 the chain did not pass through")
		}
		allowed(t, recipient.present("mail", invoke("send_mail", nil, ""), proven{chain: chain, operation: opMail}))
	}
}

func TestSEP20_RevokeAndList(t *testing.T) {
	revoke := func(c *caller, id string) answer {
		return c.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": id})
	}
	for name, by := range map[string]func(*town, *caller, granted) answer{
		"SEP-20 by the holder":    func(_ *town, holder *caller, c granted) answer { return revoke(holder, c.RevocationID) },
		"SEP-20 by the principal": func(w *town, _ *caller, c granted) answer { return revoke(w.caller(aliceToken), c.RevocationID) },
		"SEP-20 by an operator": func(w *town, _ *caller, c granted) answer {
			w.operator(http.MethodPost, "/v1/revocations", map[string]any{"target": c.RevocationID})
			return answer{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, options{})
			alice := w.caller(aliceToken)
			c, kept := alice.reports(), alice.reports()
			child := capabilities(t, alice.attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}))[0]
			link := alice.derive("documents", []string{child.Token}, token.Narrowing{Holder: alice.key.Public()})
			for _, a := range []answer{revoke(w.caller(bobToken), c.RevocationID), revoke(w.caller(bobToken), "rv_unknown")} {
				if a.reason() != "capability_unknown" {
					t.Errorf("by a stranger: %s", a.Raw)
				}
			}
			if a := by(w, alice, c); a.Error != nil {
				t.Fatalf("%s", a.Raw)
			}
			handle := c.ResourceHandles[0].Handle
			w.refused(t, alice.under([]string{c.Token}, handle), "revoked")
			w.refused(t, alice.under([]string{child.Token}, handle), "revoked")
			w.refused(t, alice.under(link, handle), "revoked")
			_, body := retrieve(handle)
			w.refused(t, alice.send("documents", []byte(strings.Replace(string(body), `"skill"`, `"capabilityId":"`+child.ID+`","skill"`, 1))), "revoked")
			w.refused(t, alice.attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}), "capability_revoked")
			held := capabilities(t, alice.call("documents", "a2a/capabilities/list", map[string]any{}))
			if len(held) != 1 || held[0].ID != kept.ID {
				t.Errorf("list: %+v", held)
			}
			if others := capabilities(t, w.caller(aliceToken).call("documents", "a2a/capabilities/list", map[string]any{})); len(others) != 0 {
				t.Errorf("another holder sees %+v", others)
			}
			allowed(t, alice.under([]string{kept.Token}, kept.ResourceHandles[0].Handle))
		})
	}
}

// begun starts a task under a capability and returns its id.
func (c *caller) begun(held granted) string {
	c.w.t.Helper()
	a := c.present("documents", text("SendMessage", "task open"), proven{chain: []string{held.Token}, operation: opMessage})
	id := between(string(a.Raw), `"taskId":"`, `"`)
	if id == "" {
		id = between(string(a.Raw), `"task":{"id":"`, `"`)
	}
	if id == "" {
		id = between(string(a.Raw), `"id":"`, `"`)
	}
	if id == "" {
		c.w.t.Fatalf("no task: %s", a.Raw)
	}
	return id
}

func between(s, before, after string) string {
	_, rest, ok := strings.Cut(s, before)
	if !ok {
		return ""
	}
	found, _, _ := strings.Cut(rest, after)
	return found
}

// onTask is a message to a task.
func onTask(task, s string) []byte {
	return rpc("SendMessage", map[string]any{"message": map[string]any{
		"messageId": nonce(), "role": "ROLE_USER", "taskId": task, "parts": []any{map[string]any{"text": s}},
	}})
}

func TestSEP22_CapabilityIsForItsTask(t *testing.T) { everywhere(t, trySEP22CapabilityIsForItsTask) }

func trySEP22CapabilityIsForItsTask(t *testing.T, on wire) {
	w := start(t, options{on: on, agent: "    enforces: context"})
	alice := w.caller(aliceToken)
	whole := alice.reports()
	task, other := alice.begun(whole), alice.begun(whole)
	ask := map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": quarter("2025-Q1"), "task": task}
	for name, c := range map[string]*caller{"SEP-22 another user": w.caller(bobToken), "SEP-22 another holder": w.caller(aliceToken)} {
		if a := c.call("documents", "a2a/capabilities/request", ask); a.reason() != "task_unknown" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	ask["task"] = "no-such-task"
	if a := alice.call("documents", "a2a/capabilities/request", ask); a.reason() != "task_unknown" {
		t.Errorf("SEP-22 no task: %s", a.Raw)
	}
	ask["task"] = task
	a := alice.call("documents", "a2a/capabilities/request", ask)
	c := capabilities(t, a)[0]
	if !strings.Contains(string(a.Raw), `"task":"`+task+`"`) {
		t.Errorf("SEP-22 the capability does not name its task: %s", a.Raw)
	}
	child := capabilities(t, alice.attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}))[0]
	handle := c.ResourceHandles[0].Handle
	about := func(held granted, task, s string) answer {
		body := rpc("SendMessage", map[string]any{"message": map[string]any{"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": s}}}})
		args := map[string]any{}
		if task != "" {
			body, args = onTask(task, s), map[string]any{"task": task}
		}
		return alice.present("documents", body, proven{chain: []string{held.Token}, operation: opMessage, arguments: args})
	}
	if a := about(c, other, "go on"); a.Error == nil || len(w.documents.got()) != 2 {
		t.Errorf("SEP-22 another task: %s", a.Raw)
	}
	if a := about(c, "", "task open"); a.reason() != "task_not_the_capabilitys" {
		t.Errorf("SEP-22 a new task: %s", a.Raw)
	}
	allowed(t, alice.under([]string{child.Token}, handle))
	allowed(t, about(whole, task, "finish it")) // the agent completes the task, for every caller
	for name, held := range map[string]granted{"SEP-22 after the end": c, "SEP-22 a child, after the end": child} {
		if a := alice.under([]string{held.Token}, handle); a.reason() != "revoked" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	allowed(t, alice.under([]string{whole.Token}, whole.ResourceHandles[0].Handle)) // that one is for the purpose
	if a := alice.call("documents", "a2a/capabilities/request", ask); a.reason() != "task_unknown" {
		t.Errorf("SEP-22 a capability for a task that has ended: %s", a.Raw)
	}
}
