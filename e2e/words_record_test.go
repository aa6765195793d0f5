package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exported is the whole log of a server, as an auditor gets it.
func exported(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command(binary, "evidence", "export", "--out", "-", "-c", filepath.Join(dir, "powerbox.yaml")).CombinedOutput()
	if err != nil {
		t.Fatalf("powerbox evidence export: %v\n%s", err, out)
	}
	return string(out)
}

// TestATK84_AgentsWordsWaitForAnApproval has agents write words of their own into every
// member of a request that they choose, in both flows. Records have none of them, until
// something is approved or issued with them.
func TestATK84_AgentsWordsWaitForAnApproval(t *testing.T) {
	t.Run("Agent Auth", func(t *testing.T) {
		b := newBank(t, bankOptions{})
		host := newOKP(t)
		marked := func(name string) map[string]any {
			return within("transfer_money", args("to", args("in", []any{"WORDS-" + name + strings.Repeat("x", 4000)})))
		}
		_, long := b.register(newOKP(t), map[string]any{"name": "Long", "capabilities": []any{within("transfer_money", args("to", strings.Repeat("x", 5000)))}})
		b.want("constraints beyond the bounds of a capability", long, http.StatusBadRequest, "invalid_request")
		m, r := b.register(host, map[string]any{"name": "WORDS-name", "reason": "WORDS-reason", "capabilities": []any{marked("first")}})
		b.want("register", r, http.StatusOK, "")
		b.want("approve", b.approve("alice", m.code, map[string]any{}), http.StatusOK, "")
		asked := m.request(marked("denied"), within("list_accounts", args("WORDS-field", "WORDS-value")))
		b.want("request", asked, http.StatusOK, "")
		b.want("deny", b.approve("alice", codeOf(asked), map[string]any{"deny": true}), http.StatusOK, "")
		// A host that is known: the default is given at once, without asking a person.
		_, r = b.register(host, map[string]any{"name": "Second", "capabilities": []any{within("check_balance", args("account_id", args("in", []any{"WORDS-default"})))}})
		b.want("register at once", r, http.StatusOK, "")
		if grantsOf(r)["check_balance"] != "active" {
			t.Fatalf("the default is not given at once: %s", r.Raw)
		}
		log := exported(t, b.dir)
		for _, words := range []string{"WORDS-name", "WORDS-reason", "WORDS-denied", "WORDS-field", "WORDS-value", "WORDS-default"} {
			if strings.Contains(log, words) {
				t.Errorf("ATK-84 the log has %s, which nobody approved", words)
			}
		}
		if strings.Count(log, "WORDS-first") != 1 || !strings.Contains(log, "constraints_digest") || !strings.Contains(log, "constraints_bytes") {
			t.Errorf("ATK-84 the log has what was approved %d times; want once, and the digest and length of everything", strings.Count(log, "WORDS-first"))
		}
	})
	t.Run("capabilities", func(t *testing.T) {
		w := start(t, options{policies: asking})
		alice := w.caller(aliceToken)
		asks := func(purpose string, more map[string]any) answer {
			t.Helper()
			params := map[string]any{"grants": []string{"documents:read"}, "purpose": purpose, "resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}}}
			for k, v := range more {
				params[k] = v
			}
			return alice.call("documents", "a2a/capabilities/request", params)
		}
		denied := pendingIn(t, asks("WORDS-denied", nil))
		w.answers("alice", denied, map[string]any{"deny": true})
		for name, more := range map[string]map[string]any{
			"grant": {"grants": []string{"WORDS-grant"}}, "task": {"task": "WORDS-task"}, "collection": {"resourceQuery": map[string]any{"collection": "WORDS-collection"}},
		} {
			if a := asks("WORDS-purpose", more); a.Error == nil {
				t.Errorf("a request with an unknown %s was answered with %s", name, a.Raw)
			}
		}
		if a := alice.call("documents", "a2a/capabilities/attenuate", map[string]any{"capability": "WORDS-parent", "operations": []string{"WORDS-operation"}}); a.Error == nil {
			t.Errorf("an unknown capability was attenuated: %s", a.Raw)
		}
		approved := pendingIn(t, asks("WORDS-approved", nil))
		if strings.Contains(w.run("evidence", "export", "--out", "-"), "WORDS-approved") {
			t.Error("ATK-84 the log has a purpose before anybody approved it")
		}
		w.answers("alice", approved, map[string]any{})
		capabilities(t, asks("WORDS-approved", nil))
		log := w.run("evidence", "export", "--out", "-")
		for _, words := range []string{"WORDS-denied", "WORDS-grant", "WORDS-task", "WORDS-collection", "WORDS-purpose", "WORDS-parent", "WORDS-operation"} {
			if strings.Contains(log, words) {
				t.Errorf("ATK-84 the log has %s, which nobody approved", words)
			}
		}
		if strings.Count(log, "WORDS-approved") != 1 || !strings.Contains(log, "purpose_heard") {
			t.Errorf("ATK-84 the log has the purpose of what was issued %d times; want once (SEP-9)", strings.Count(log, "WORDS-approved"))
		}
	})
}
