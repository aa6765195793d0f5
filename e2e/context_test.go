package e2e

import (
	"strings"
	"testing"
)

// TestATK18_ContextsOfClients has callers choose the ids of contexts, where the
// operator lets them: anyone who is first has it, a call that is refused takes
// nothing, and without the setting there is no such context.
func TestATK18_ContextsOfClients(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    enforces: context\n    client_contexts: true"})
		alice, bob := w.caller(aliceToken), w.caller(bobToken)
		holds := map[*caller]granted{alice: alice.reports(), bob: bob.reports()}
		say := func(c *caller, under granted, context string) answer {
			return c.present("documents", about("SendMessage", map[string]any{"contextId": context}),
				proven{chain: []string{under.Token}, operation: opMessage, arguments: map[string]any{"context": context}})
		}
		for _, try := range []struct {
			name    string
			who     *caller
			context string
			mine    bool
		}{
			{"a new one", alice, "one", true},
			{"another's", bob, "one", false},
			{"its own", alice, "one", true},
			{"a new one of another", bob, "two", true},
			{"that of the other", alice, "two", false},
		} {
			a := say(try.who, holds[try.who], try.context)
			if try.mine && a.Error != nil || !try.mine && (a.Error == nil || a.Error.Code != -32001) {
				t.Errorf("ATK-18 %s: %s", try.name, a.Raw)
			}
		}
		if a := say(bob, holds[alice], "three"); a.Error == nil {
			t.Errorf("ATK-18 under a capability of another: %s", a.Raw)
		}
		if a := say(alice, holds[alice], "three"); a.Error != nil {
			t.Errorf("ATK-18 a call that was refused took the context: %s", a.Raw)
		}
		without := start(t, options{on: on, agent: "    enforces: context"})
		c := without.caller(aliceToken)
		if a := say(c, c.reports(), "one"); a.Error == nil || a.Error.Code != -32001 {
			t.Errorf("ATK-18 without the setting: %s", a.Raw)
		}
	})
}

// TestATK18_ListsByTheFieldOfProtobuf lists tasks by context_id, which clients of
// JSON-RPC send: it counts as contextId and arrives so, and the context is the caller's
// or there is none. Both names together are refused.
func TestATK18_ListsByTheFieldOfProtobuf(t *testing.T) {
	w := start(t, options{agent: "    enforces: context"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	task, context := alice.open(alice.reports())
	const none = "00000000-0000-7000-8000-000000000000"
	list := func(c *caller, params map[string]any, of string) answer {
		held := c.reports()
		return c.present("documents", rpc("ListTasks", params), proven{chain: []string{held.Token}, operation: "a2a.task.read", arguments: map[string]any{"context": of}})
	}
	held := alice.reports()
	own, _ := alice.open(held)
	mine := alice.present("documents", rpc("ListTasks", map[string]any{}), proven{chain: []string{held.Token}, operation: "a2a.task.read"})
	if mine.Error != nil || !strings.Contains(string(mine.Raw), own) || strings.Contains(string(mine.Raw), task) {
		t.Errorf("ATK-18 the caller's own: %s", mine.Raw)
	}
	w.documents.forget()
	foreign := list(bob, map[string]any{"context_id": context}, context)
	if foreign.Error != nil || strings.Contains(string(foreign.Raw), task) {
		t.Errorf("ATK-18 another's: %s", foreign.Raw)
	}
	for _, r := range w.documents.got() {
		if s := string(r.body); strings.Contains(s, context) || strings.Contains(s, "context_id") || !strings.Contains(s, `"contextId":"`) {
			t.Errorf("ATK-18 another's: the agent is asked for %s", s)
		}
	}
	own, ofOwn := alice.open(held)
	w.documents.forget()
	mine = alice.present("documents", rpc("ListTasks", map[string]any{"context_id": ofOwn}), proven{chain: []string{held.Token}, operation: "a2a.task.read", arguments: map[string]any{"context": ofOwn}})
	if got := w.documents.got(); mine.Error != nil || !strings.Contains(string(mine.Raw), own) || len(got) != 1 || !strings.Contains(string(got[0].body), `"params":{"contextId":"`+ofOwn+`"}`) {
		t.Errorf("ATK-18 the caller's own context: %s\narrived %q", mine.Raw, got)
	}
	w.documents.forget()
	for name, second := range map[string]string{"one context under both names": context, "two contexts": none} {
		a := list(bob, map[string]any{"context_id": context, "contextId": second}, context)
		if a.reason() != "member_ambiguous" || len(w.documents.got()) > 0 {
			t.Errorf("ATK-18 %s: %s", name, a.Raw)
		}
	}
	if a := list(bob, map[string]any{"page_token": "AAAA"}, ""); a.Error == nil {
		t.Errorf("ATK-27 another field of protobuf: %s", a.Raw)
	}
}
