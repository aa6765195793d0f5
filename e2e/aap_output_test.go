package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestAAPC9_ResultsAreCheckedToo has the service behind answer as the output schema of a
// capability says, and otherwise: in an answer, and as the result of a job. The broken
// answer is an error on record, and nothing of it reaches the agent. What another service
// executes is listed as unchecked.
func TestAAPC9_ResultsAreCheckedToo(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: `
        - {name: sound, description: Answers as it says, sensitivity: read, output: {type: object, required: [did], properties: {did: {const: sound}}}}
        - {name: broken, description: Answers otherwise, sensitivity: read, output: {type: object, required: [balance], properties: {balance: {type: number}}}}
        - {name: reports, description: A job that ends otherwise, sensitivity: read, output: {type: object, properties: {pages: {type: string}}}}
        - {name: elsewhere, description: At another place, sensitivity: read, location: "https://statements.example/run", output: {type: object}}
`})
	m := b.active("alice", "sound", "broken", "reports", "elsewhere")
	b.want("AAP-C9 a result as the schema says", m.execute("sound", args()), http.StatusOK, "")
	r := b.want("AAP-C9 a result that breaks the schema", m.execute("broken", args()), http.StatusInternalServerError, "internal_error")
	if !strings.Contains(r.text("message"), "breaks the output schema") || strings.Contains(r.Raw, `"did"`) {
		t.Errorf("AAP-C9 the agent is told %s; want why, and nothing of the answer", r.Raw)
	}
	if b.did("broken") != 1 {
		t.Errorf("the service was asked %d times; want 1", b.did("broken"))
	}
	job := b.want("AAP-C9 a job", m.execute("reports", args()), http.StatusAccepted, "")
	b.soon("the job to be over", func() bool {
		r := b.ask(http.MethodGet, job.text("status_url"), m.token(b.url+"/capability/execute"), nil)
		if r.Status == http.StatusOK && r.text("status") == "completed" {
			t.Fatalf("AAP-C9 a job's result that breaks the schema passed: %s", r.Raw)
		}
		return r.text("error") == "internal_error" && strings.Contains(r.text("message"), "breaks the output schema") && !strings.Contains(r.Raw, "pages")
	})
	failed := 0
	for _, r := range b.records("limit=100") {
		if r.Status == "FAILED" && r.Outcome.Cause == "output" {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("AAP-C9 %d failed outcomes are on record; want 2", failed)
	}
	for name, want := range map[string]string{"sound": "checked", "elsewhere": "unchecked", "check_balance": ""} {
		r := b.ask(http.MethodGet, "/capability/describe?name="+name, m.token(b.url), nil)
		if got := r.text("output_validation"); got != want {
			t.Errorf("AAP-C9 %s is described with output_validation %q; want %q\n%s", name, got, want, r.Raw)
		}
	}
}

// TestAAPA5_EachDenialHasItsReason denies two of three capabilities, with a reason for one
// of them and another one for the rest.
func TestAAPA5_EachDenialHasItsReason(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance", "list_accounts", "transfer_money"}})
	b.want("register", r, http.StatusOK, "")
	b.want("answer", b.approve("alice", m.code, map[string]any{"only": []string{"check_balance"}, "reason": "not needed", "reasons": map[string]any{"transfer_money": "too much money"}}), http.StatusOK, "")
	got := map[string]string{}
	for _, g := range m.state().Body["agent_capability_grants"].([]any) {
		one := g.(map[string]any)
		reason, _ := one["reason"].(string)
		got[one["capability"].(string)] = one["status"].(string) + ": " + reason
	}
	for name, want := range map[string]string{"check_balance": "active: ", "list_accounts": "denied: not needed", "transfer_money": "denied: too much money"} {
		if got[name] != want {
			t.Errorf("AAP-A5 the agent is told of %s %q; want %q", name, got[name], want)
		}
	}
	if wrong := b.approve("alice", m.code, map[string]any{"reasons": map[string]any{"transfer_money": 1}}); wrong.Status == http.StatusOK {
		t.Errorf("a reason that is no text was taken: %s", wrong.Raw)
	}
}
