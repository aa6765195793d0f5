package e2e

import (
	"net/http"
	"slices"
	"testing"
)

// TestATK149_PeopleAnswerByTheRolesOfNow lets the role of an approver end while a question is
// open: the label of the agent changes, and another tenant's approver answers.
func TestATK149_PeopleAnswerByTheRolesOfNow(t *testing.T) {
	onStores(t, tryATK149PeopleAnswerByTheRolesOfNow)
}

func tryATK149PeopleAnswerByTheRolesOfNow(t *testing.T) {
	w := start(t, options{
		policies: asking, dev: reviewers,
		agent: `    tenant: ours
  - {id: one, upstream: "http://127.0.0.1:9", tenant: ours}
  - {id: other, upstream: "http://127.0.0.1:9", tenant: theirs}
`,
		extra: `approvals:
  rules: [{agent: documents, approvers: ["role:approver"]}]
operators:
  roles:
    - {role: approver, who: ["user:mallory"], tenants: [ours]}
    - {role: approver, who: ["group:finance"], tenants: [theirs]}
`,
	})
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	if !slices.Contains(w.waiting("mallory", "reviews"), id) || slices.Contains(w.waiting("carol", "reviews"), id) {
		t.Fatal("ATK-149 the question is not for the approver of the tenant")
	}
	w.rewrite("powerbox.yaml", "tenant: ours\n", "tenant: theirs\n")
	w.run("config", "reload")
	if slices.Contains(w.waiting("mallory", "reviews"), id) {
		t.Error("ATK-149 a person whose role has ended is still asked")
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if status, _ := w.asPerson("mallory", method, "/v1/approvals/"+id, map[string]any{}); status != http.StatusNotFound {
			t.Errorf("ATK-149 %s by a person whose role has ended: HTTP %d; want 404", method, status)
		}
	}
	pendingIn(t, alice.asksForReports())
	w.answers("carol", id, map[string]any{})
	if got := capabilities(t, alice.asksForReports()); len(got) != 1 {
		t.Errorf("ATK-149 the approver of now gave %d capabilities; want 1", len(got))
	}
}

// TestATK149_AYesOfAFrozenPersonDoesNotCount has one of two people approve, and freezes that
// person: the other's yes is not enough, and a third one's is.
func TestATK149_AYesOfAFrozenPersonDoesNotCount(t *testing.T) {
	onStores(t, tryATK149AYesOfAFrozenPersonDoesNotCount)
}

func tryATK149AYesOfAFrozenPersonDoesNotCount(t *testing.T) {
	w := start(t, options{policies: asking, dev: reviewers, extra: `approvals:
  rules: [{agent: documents, approvers: ["group:finance", "user:dora", "user:eve"], people: 2}]
`})
	alice := w.caller(aliceToken)
	for verb, undo := range map[string]bool{"person": false, "freeze": true} {
		id := pendingIn(t, alice.asksForReports())
		w.answers("carol", id, map[string]any{})
		if undo {
			w.must("freeze", "user:carol", "--reason", "her passkey was stolen")
		} else {
			w.must("person", "freeze", "user:carol", "--reason", "her passkey was stolen")
		}
		if q := w.answers("dora", id, map[string]any{}); q["status"] != "pending" {
			t.Errorf("ATK-149 %s: the yes of a frozen person counts: %v", verb, q["status"])
		}
		if q := w.answers("eve", id, map[string]any{}); q["status"] != "approved" {
			t.Errorf("ATK-149 %s: after two of two who are not frozen: %v", verb, q["status"])
		}
		if undo {
			w.must("thaw", "user:carol", "--reason", "it was found")
		} else {
			w.must("person", "thaw", "user:carol", "--reason", "it was found")
		}
		for _, c := range capabilities(t, alice.asksForReports()) {
			w.must("revoke", c.ID)
		}
	}
}

// TestATK149_AYesThatCountsNoMoreIsGivenAgain changes the rules while a question waits for its
// second person. The first person's yes counted by a group, which the server does not know any
// more. That person can approve again, and is still one person.
func TestATK149_AYesThatCountsNoMoreIsGivenAgain(t *testing.T) {
	onStores(t, tryATK149AYesThatCountsNoMoreIsGivenAgain)
}

func tryATK149AYesThatCountsNoMoreIsGivenAgain(t *testing.T) {
	w := start(t, options{
		policies: asking, dev: reviewers,
		agent: `    tenant: first
  - {id: one, upstream: "http://127.0.0.1:9", tenant: first}
  - {id: two, upstream: "http://127.0.0.1:9", tenant: second}
  - {id: three, upstream: "http://127.0.0.1:9", tenant: third}
`,
		extra: `approvals:
  rules: [{agent: documents, approvers: ["role:approver"], people: 2}]
operators:
  roles:
    - {role: approver, who: ["group:finance", "user:dora"], tenants: [first]}
    - {role: approver, who: ["group:finance", "user:eve"], tenants: [second]}
    - {role: approver, who: ["user:carol", "user:eve"], tenants: [third]}
`,
	})
	label := func(from, to string) {
		t.Helper()
		w.rewrite("powerbox.yaml", "    tenant: "+from+"\n", "    tenant: "+to+"\n")
		w.run("config", "reload")
	}
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	w.answers("carol", id, map[string]any{})
	if slices.Contains(w.waiting("carol", "reviews"), id) {
		t.Error("ATK-149 the question waits for a person whose yes counts")
	}
	label("first", "second")
	if !slices.Contains(w.waiting("carol", "reviews"), id) {
		t.Error("ATK-149 the question does not wait for a person whose yes counts no more")
	}
	if q := w.answers("carol", id, map[string]any{}); q["status"] != "pending" || len(q["answers"].([]any)) != 1 {
		t.Errorf("ATK-149 after one person's yes, given twice: %v %v", q["status"], q["answers"])
	}
	label("second", "third") // carol is named, and is one person
	if status, q := w.asPerson("carol", http.MethodPost, "/v1/approvals/"+id, map[string]any{}); status == http.StatusOK {
		t.Errorf("ATK-149 a yes that counts was given again: %v", q)
	}
	if q := w.answers("eve", id, map[string]any{}); q["status"] != "approved" {
		t.Errorf("ATK-149 after two of two: %v", q["status"])
	}
}
