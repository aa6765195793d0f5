package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/premises"
)

// TestEXT31_ProcurementOverSeveralVendors runs the example as a reader does.
func TestEXT31_ProcurementOverSeveralVendors(t *testing.T) {
	var out bytes.Buffer
	got, err := run(t.Context(), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := []string{
		"", "", "", "", "operation_not_granted", "delegate_not_caller", "scope_escalation", "exceeds_max_depth", "revoked", "revoked", "",
	}
	if diff := cmp.Diff(want, got.Reasons()); diff != "" || got.orders.Count() != 1 {
		t.Errorf("%d orders\n%s", got.orders.Count(), diff)
	}
	if diff := cmp.Diff([]premises.Finding{{Verifier: "powerbox", Whole: "ok", Changed: "tampered"}, {Verifier: "verify.mjs", Whole: "ok", Changed: "tampered"}}, got.audit.Found); diff != "" {
		t.Errorf("the verdicts, which take Node.js:\n%s", diff)
	}
	by := func(name, operation string) premises.Deed {
		return premises.Deed{Requester: got.vendors[name].Requester(), Operation: "purchasing/" + operation}
	}
	done := []premises.Deed{
		by("anvil", "supply:offer/quote"), by("borealis", "supply:offer/quote"), by("cobalt", "supply:offer/quote"),
		by("borealis", "supply:deliver/order"), by("anvil", "supply:offer/quote"),
	}
	if diff := cmp.Diff(done, got.audit.Done); diff != "" {
		t.Errorf("who did what, by the evidence:\n%s", diff)
	}
	if diff := cmp.Diff(want[4:10], got.audit.Refused); diff != "" {
		t.Errorf("what was refused, by the evidence:\n%s", diff)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 20 {
		t.Errorf("%d lines are too many to read at once", n)
	}
}
