package issuer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// TestEXT2_ByPolicy: policy allows by role what it permits at once, on the agent itself. What it
// wants a person to approve, and what it permits on single resources, is not had by role.
func TestEXT2_ByPolicy(t *testing.T) {
	w := newTown(t)
	policy := w.rules("one")
	policy.allow["user:alice archive agent"] = issuer.Ruling{Allow: true, Approval: "finance"}
	policy.allow["user:alice search agent"] = issuer.Ruling{Approval: "finance"}
	w.config.Policy = policy
	w.restart()
	for principal, want := range map[string][]string{
		"user:alice": {issuer.OperationMessage, issuer.OperationTaskCancel, issuer.OperationTaskRead, "documents/fixed/fix"},
		"user:bob":   nil,
		"":           nil,
	} {
		var got []string
		for _, c := range w.issuer.ByPolicy("documents", identity.Caller{Principal: principal}).Clauses() {
			got = append(got, c.Pattern.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("EXT-2 %q (-want +got):\n%s", principal, diff)
		}
	}
	if a := w.issuer.ByPolicy("another", identity.Caller{Principal: "user:alice"}); len(a.Clauses()) > 0 {
		t.Errorf("EXT-2: an agent that is not served: %v", a)
	}
}
