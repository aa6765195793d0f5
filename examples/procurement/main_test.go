package main

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/premises"
)

func score(number, level string, achieved, failed int, broken bool) (s premises.Score) {
	s.Score, s.Level, s.Broken = number, level, broken
	s.Counts.Achieved, s.Counts.Failed = achieved, failed
	return s
}

// levels are how far the vendors are trusted when the tender begins. Elm is
// unknown.
var levels = map[string]premises.Score{
	"anvil":    score("1.0000", "HIGH", 4, 0, false),
	"borealis": score("1.0000", "HIGH", 4, 0, false),
	"cobalt":   score("0.8000", "MODERATE", 2, 2, false),
	"dorado":   score("0.4000", "LOW", 3, 1, true),
}

// TestEXT31_ProcurementOverSeveralVendors runs the example as a reader does: what
// was allowed and refused, by whose trust, and the same from the evidence.
func TestEXT31_ProcurementOverSeveralVendors(t *testing.T) {
	var out bytes.Buffer
	got, err := run(t.Context(), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const none = "insufficient_trust"
	want := []string{
		"", "", "", "", none, "", none, none,
		"operation_not_granted", "delegate_not_caller", "scope_escalation", "exceeds_max_depth", "revoked", "revoked", "", "",
	}
	if diff := cmp.Diff(want, got.Reasons()); diff != "" || got.orders.Count() != 1 {
		t.Errorf("%d orders\n%s", got.orders.Count(), diff)
	}
	if diff := cmp.Diff(levels, got.trusted); diff != "" {
		t.Errorf("how far the vendors were trusted:\n%s", diff)
	}
	again := maps.Clone(levels)
	again["dorado"] = score("0.8000", "MODERATE", 2, 2, false)
	if diff := cmp.Diff(again, got.recomputed); diff != "" {
		t.Errorf("the scores from the export:\n%s", diff)
	}
	if diff := cmp.Diff([]premises.Finding{{Verifier: "powerbox", Whole: "ok", Changed: "tampered"}, {Verifier: "verify.mjs", Whole: "ok", Changed: "tampered"}}, got.audit.Found); diff != "" {
		t.Errorf("the verdicts, which take Node.js:\n%s", diff)
	}
	by := func(name, operation string) premises.Deed {
		return premises.Deed{Requester: name, Operation: "purchasing/" + operation}
	}
	var done []premises.Deed
	for _, name := range known {
		for range map[bool]int{false: 4, true: 2}[unreliable[name]] {
			done = append(done, premises.Deed{Requester: got.buyer.Requester(), Operation: name + "/shop:goods/deliver"})
		}
	}
	done = append(
		done,
		by("anvil", "supply:offer/quote"), by("borealis", "supply:offer/quote"), by("borealis", "supply:deliver/order"),
		by("cobalt", "supply:offer/quote"), by("dorado", "supply:offer/read"), by("anvil", "supply:offer/quote"), by("dorado", "supply:offer/quote"),
	)
	if diff := cmp.Diff(done, got.audit.Done); diff != "" {
		t.Errorf("who did what, by the evidence:\n%s", diff)
	}
	refused := slices.DeleteFunc(want, func(reason string) bool { return reason == "" })
	if diff := cmp.Diff(refused, got.audit.Refused); diff != "" {
		t.Errorf("what was refused, by the evidence:\n%s", diff)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 30 {
		t.Errorf("%d lines are too many to read at once", n)
	}
}
