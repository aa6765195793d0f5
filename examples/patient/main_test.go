package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/examples/premises"
)

// TestEXT31_PatientReadOnlyWithinTheEpisode runs the example as a reader does.
func TestEXT31_PatientReadOnlyWithinTheEpisode(t *testing.T) {
	var out bytes.Buffer
	got, err := run(t.Context(), &out, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := []string{
		"", "", "operation_not_granted", "handle_not_granted", "delegate_not_caller", "expired", "temporal_exceeds_parent", "scope_escalation",
	}
	if diff := cmp.Diff(want, got.Reasons()); diff != "" || got.writes.Count() != 1 {
		t.Errorf("%d writes; want Dr. Grey's\n%s", got.writes.Count(), diff)
	}
	if diff := cmp.Diff([]premises.Finding{{Verifier: "powerbox", Whole: "ok", Changed: "tampered"}, {Verifier: "verify.mjs", Whole: "ok", Changed: "tampered"}}, got.audit.Found); diff != "" {
		t.Errorf("the verdicts, which take Node.js:\n%s", diff)
	}
	done := []premises.Deed{{Requester: got.consultant.Requester(), Operation: "records/records:read/retrieve"}, {Requester: got.doctor.Requester(), Operation: "records/records:write/amend"}}
	if diff := cmp.Diff(done, got.audit.Done); diff != "" {
		t.Errorf("who did what, by the evidence:\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], got.audit.Refused); diff != "" {
		t.Errorf("what was refused, by the evidence:\n%s", diff)
	}
	if found := mentions(got.audit.Bundle); len(found) > 0 {
		t.Errorf("the evidence has %v", found)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 20 {
		t.Errorf("%d lines are too many to read at once", n)
	}
}

// TestEXT31_TheSearchFindsPatients configures records to keep arguments: the
// same search then finds the patients' words, and the example fails.
func TestEXT31_TheSearchFindsPatients(t *testing.T) {
	var out bytes.Buffer
	_, err := run(t.Context(), &out, "evidence: {arguments: full}\n")
	if err == nil || !strings.Contains(err.Error(), question) || !strings.Contains(err.Error(), patientText) {
		t.Errorf("%v\n%s", err, out.String())
	}
}
