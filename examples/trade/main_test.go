package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/premises"
)

// TestEXT31_TradeOverTwoHops runs the example as a reader does, through the
// program that it builds, and checks the allowed calls, the refused ones with
// their reasons, and the findings of an auditor.
func TestEXT31_TradeOverTwoHops(t *testing.T) {
	var out bytes.Buffer
	got, err := run(t.Context(), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := []string{
		"", "", "scope_escalation", "temporal_exceeds_parent", "operation_not_granted", "operation_not_granted",
		"delegate_not_caller", "subject_not_caller", "exceeds_max_depth", "revoked",
	}
	if diff := cmp.Diff(want, got.Reasons()); diff != "" || got.orders.Count() != 1 {
		t.Errorf("%d orders\n%s", got.orders.Count(), diff)
	}
	if diff := cmp.Diff([]premises.Finding{{Verifier: "powerbox", Whole: "ok", Changed: "tampered"}, {Verifier: "verify.mjs", Whole: "ok", Changed: "tampered"}}, got.audit.Found); diff != "" {
		t.Errorf("the verdicts, which take Node.js:\n%s", diff)
	}
	done := []premises.Deed{{Requester: got.broker.Requester(), Operation: "exchange/trade:execute/quote"}, {Requester: got.desk.Requester(), Operation: "exchange/trade:execute/order"}}
	if diff := cmp.Diff(done, got.audit.Done); diff != "" {
		t.Errorf("who did what, by the evidence:\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], got.audit.Refused); diff != "" {
		t.Errorf("what was refused, by the evidence:\n%s", diff)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 20 {
		t.Errorf("%d lines are too many to read at once", n)
	}
}
