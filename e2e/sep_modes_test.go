package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// ambient makes a call that says that it relies on ambient authority.
func (c *caller) ambient(agent string, body []byte) answer {
	c.w.t.Helper()
	url := c.w.agentURL(agent)
	h := c.headers(url)
	h.Set("Powerbox-Ambient", "true")
	return c.w.post(url, body, h)
}

// inMode expects what became of a call: whether it was let through, how it is
// recorded, and for what reason, if any.
func (w *town) inMode(t *testing.T, a answer, through bool, mode, code string) recorded {
	t.Helper()
	if (a.Error == nil) != through {
		t.Errorf("let through: %t; want %t\n%s", a.Error == nil, through, a.Raw)
	}
	d := w.decided(a)
	if d.Powerbox.Mode != mode || code != "" && !d.has(code) {
		t.Errorf("recorded as %s in %q with %+v; want mode %q and %q", d.Decision, d.Powerbox.Mode, d.Powerbox.Reasons, mode, code)
	}
	return d
}

func TestSEP18_Observe(t *testing.T) {
	w := start(t, options{mode: "observe"})
	alice := w.caller(aliceToken)
	if !strings.Contains(string(w.get(w.agentURL("documents")+"/.well-known/agent-card.json")), `"documents:read"`) {
		t.Error("the grants are not shown")
	}
	body := invoke("delete_document", map[string]any{"resourceHandle": "x"}, "")
	for name, a := range map[string]answer{
		"SEP-18 undeclared": alice.send("documents", body), "SEP-18 nobody": w.post(w.agentURL("documents"), body, http.Header{}),
	} {
		t.Run(name, func(t *testing.T) {
			d := w.inMode(t, a, true, "observe", "ambient_not_declared")
			if d.Decision != "ABSTAIN" || !d.has("capability_required") {
				t.Errorf("what would be denied is not recorded: %+v", d)
			}
		})
	}
	t.Run("SEP-18 declared", func(t *testing.T) {
		if d := w.inMode(t, alice.ambient("documents", body), true, "observe", "capability_required"); d.has("ambient_not_declared") {
			t.Error("declared use is recorded as a violation")
		}
	})
	t.Run("SEP-18 an overstepped capability", func(t *testing.T) {
		c := alice.reports()
		args := map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}
		a := alice.present("documents", invoke("delete_document", args, ""), proven{chain: []string{c.Token}, operation: opDelete, arguments: args})
		w.inMode(t, a, true, "observe", "operation_not_granted")
	})
	t.Run("SEP-18 a kept capability", func(t *testing.T) {
		c := alice.reports()
		if d := w.inMode(t, alice.under([]string{c.Token}, c.ResourceHandles[0].Handle), true, "observe/capability", ""); d.Decision != "ALLOW" {
			t.Errorf("recorded as %s", d.Decision)
		}
	})
}

func TestSEP18_Scoped(t *testing.T) {
	key := newKey(t)
	w := start(t, options{mode: "scoped", extra: named(t, map[string]*token.PrivateKey{"orchestrator": key}) +
		"scopes:\n  orchestrator:\n    documents: [documents:read/retrieve, documents:read/search]\n"})
	known, stranger := &caller{w, key, aliceToken}, w.caller(aliceToken)
	search, remove := invoke("search_documents", nil, ""), invoke("delete_document", map[string]any{"resourceHandle": "x"}, "")
	t.Run("SEP-18 outside its scope", func(t *testing.T) {
		w.inMode(t, known.send("documents", remove), false, "scoped", "outside_caller_scope")
	})
	t.Run("SEP-18 a caller without a scope", func(t *testing.T) {
		w.inMode(t, stranger.send("documents", search), false, "scoped", "outside_caller_scope")
	})
	t.Run("SEP-18 at another agent", func(t *testing.T) {
		if a := known.send("mail", invoke("send_mail", nil, "")); a.reason() != "outside_caller_scope" {
			t.Errorf("%s", a.Raw)
		}
	})
	if n := len(w.documents.got()) + len(w.mail.got()); n > 0 {
		t.Errorf("%d calls reached an agent", n)
	}
	t.Run("SEP-18 within its scope", func(t *testing.T) {
		w.inMode(t, known.send("documents", search), true, "scoped/standing", "")
	})
	t.Run("SEP-18 a present capability is enforced", func(t *testing.T) {
		c := known.reports()
		child := capabilities(t, known.attenuate(c.ID, map[string]any{"operations": []string{"retrieve"}}))[0]
		a := known.present("documents", search, proven{chain: []string{child.Token}, operation: opSearch})
		w.inMode(t, a, false, "scoped", "operation_not_granted")
	})
}

func TestSEP18_Prefer(t *testing.T) { everywhere(t, trySEP18Prefer) }

func trySEP18Prefer(t *testing.T, on wire) {
	w := start(t, options{on: on, mode: "prefer"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	args := map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}
	remove := invoke("delete_document", args, "")
	t.Run("SEP-18 a present capability is enforced", func(t *testing.T) {
		a := alice.present("documents", remove, proven{chain: []string{c.Token}, operation: opDelete, arguments: args})
		w.inMode(t, a, false, "prefer", "operation_not_granted")
		a = alice.send("documents", invoke("delete_document", args, c.ID))
		w.inMode(t, a, false, "prefer", "operation_not_granted")
		w.inMode(t, alice.send("documents", invoke("delete_document", args, "cap_unknown")), false, "prefer", "capability_unknown")
		if len(w.documents.got()) > 0 {
			t.Error("a refused call reached the agent")
		}
	})
	t.Run("SEP-18 a missing one falls back, undeclared", func(t *testing.T) {
		w.inMode(t, alice.send("documents", remove), true, "prefer/ambient", "ambient_not_declared")
	})
	t.Run("SEP-18 a missing one falls back, declared", func(t *testing.T) {
		byMember := rpc("SendMessage", map[string]any{
			"message":  map[string]any{"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": "hello"}}},
			"metadata": map[string]any{extension: map[string]any{"ambient": true}},
		})
		for _, a := range []answer{alice.ambient("documents", remove), alice.send("documents", byMember)} {
			if d := w.inMode(t, a, true, "prefer/ambient", ""); d.has("ambient_not_declared") {
				t.Error("declared use is recorded as undeclared")
			}
		}
	})
}

func TestSEP18_PreferRefusesUndeclared(t *testing.T) {
	w := start(t, options{mode: "prefer", agent: "    refuse_undeclared: true"})
	alice := w.caller(aliceToken)
	body := invoke("search_documents", nil, "")
	w.refused(t, alice.send("documents", body), "ambient_not_declared")
	w.inMode(t, alice.ambient("documents", body), true, "prefer/ambient", "")
}

func TestSEP18_Require(t *testing.T) { overTools(t, trySEP18Require) }

func trySEP18Require(t *testing.T, on wire) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	body := invoke("search_documents", nil, "")
	w.inMode(t, alice.send("documents", body), false, "require", "capability_required")
	w.inMode(t, alice.ambient("documents", body), false, "require", "capability_required")
	w.refused(t, w.post(w.agentURL("documents"), body, http.Header{}), "capability_required")
	c := alice.reports()
	w.inMode(t, alice.under([]string{c.Token}, c.ResourceHandles[0].Handle), true, "require/capability", "")
}

// A mode can be changed while the server runs, and holds for a share of the
// callers.
func TestSEP18_SwitchAndCanary(t *testing.T) {
	w := start(t, options{mode: "observe", agent: "    canary: 50"})
	w.operator(http.MethodPut, "/v1/agents/documents/mode", map[string]string{"mode": "require"})
	body := invoke("search_documents", nil, "")
	held, observed := 0, 0
	for range 24 {
		c := w.caller(aliceToken)
		first, second := c.send("documents", body), c.send("documents", body)
		if (first.Error == nil) != (second.Error == nil) {
			t.Error("one caller is treated in two ways")
		}
		if first.Error == nil {
			observed++
			w.inMode(t, first, true, "observe", "capability_required")
		} else {
			held++
		}
	}
	if held == 0 || observed == 0 {
		t.Errorf("the mode held for %d of 24 callers; want about half", held)
	}
}

// Policy that changed after issue vetoes at use; it never adds.
func TestSEP7_PolicyVetoesAtUse(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c, searching := alice.reports(), alice.reports()
	handles := map[string]string{}
	for _, h := range c.ResourceHandles {
		handles[h.DisplayName] = h.Handle
	}
	byID := func() answer {
		_, body := retrieve(handles["Q1 Sales Report"])
		return alice.send("documents", []byte(strings.Replace(string(body), `"skill"`, `"capabilityId":"`+c.ID+`","skill"`, 1)))
	}
	search := func() answer {
		return alice.present("documents", invoke("search_documents", nil, ""), proven{chain: []string{searching.Token}, operation: opSearch})
	}
	allowed(t, alice.under([]string{c.Token}, handles["Q1 Sales Report"]))
	w.again(func() {
		w.write("policies.cedar", `
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports") when { resource.attributes.owner == "alice" };
permit(principal == User::"user:alice", action in Action::"documents/documents:write", resource in Collection::"documents/reports");
`)
	})
	w.settle(alice)
	reached := len(w.documents.got())
	for name, a := range map[string]answer{"by chain": alice.under([]string{c.Token}, handles["Q1 Sales Report"]), "by reference": byID()} {
		if a.reason() != "policy_veto" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	args := map[string]any{"resourceHandle": handles["Q1 Financial Summary"]}
	if a := alice.present("documents", invoke("delete_document", args, ""), proven{chain: []string{c.Token}, operation: opDelete, arguments: args}); a.reason() != "operation_not_granted" {
		t.Errorf("policy added something: %s", a.Raw)
	}
	if len(w.documents.got()) != reached {
		t.Error("a vetoed call reached the agent")
	}
	allowed(t, alice.under([]string{c.Token}, handles["Q1 Financial Summary"]))
	allowed(t, search())
	if got := w.sent().Handles; len(got) != 1 {
		t.Errorf("a search may touch %v", got)
	}
	w.again(func() {
		w.write("policies.cedar", `
@approval("human")
permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/reports");
`)
	})
	w.settle(alice)
	if a := search(); a.reason() != "policy_veto" {
		t.Errorf("what needs an approval now: %s", a.Raw)
	}
}
