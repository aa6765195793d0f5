package e2e

import "testing"

// TestATK42_AtAGatewayApart presents a capability with a budget at a gateway that
// does not keep it, and calls there what a person has to approve: both are refused,
// and nothing reaches the agent.
func TestATK42_AtAGatewayApart(t *testing.T) {
	w, _ := startApart(t, 1, options{reads: ", uses: 5", search: ", approval: true"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	if a := alice.searches(held); a.reason() != "budget_elsewhere" {
		t.Errorf("ATK-42 a budget at a gateway apart: %s", a.Raw)
	}
	if n := len(w.documents.got()); n != 0 {
		t.Errorf("ATK-42 %d calls reached the agent", n)
	}
}

// TestGATE3_AtAGatewayApart calls at a gateway apart what a person has to approve.
func TestGATE3_AtAGatewayApart(t *testing.T) {
	w, _ := startApart(t, 1, options{search: ", approval: true"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	arguments := map[string]any{"query": "x"}
	if a := alice.present("documents", data("search_documents", arguments), proven{chain: []string{held.Token}, operation: opSearch, arguments: arguments}); a.reason() != "approval_required" {
		t.Errorf("GATE-3 at a gateway apart: %s", a.Raw)
	}
	if n := len(w.documents.got()); n != 0 {
		t.Errorf("GATE-3 %d calls reached the agent", n)
	}
}
