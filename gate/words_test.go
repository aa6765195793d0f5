package gate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// TestReasonsAreWorded: a reason names what it is about and has one sentence, wherever it
// was found, and the gate's sentences name no method of a protocol.
func TestReasonsAreWorded(t *testing.T) {
	for code, want := range map[powerbox.Code]string{
		powerbox.CodeExpired:   "the authority has expired",
		CodeApproval:           "a person has to approve this call",
		CodeHandle:             `operation "a.b": "file" is not a handle of the capability`,
		CodeArgumentNumber:     "argument file holds a number that readers with double precision take for another one; send it as a string",
		CodeSpelling:           `operation "a.b": some readers take argument "file" for one that is spelt with other letter case; use the spelling of the operation`,
		CodeMessageNotBound:    "free text cannot be held to a capability with constrained operations at this agent; name the skill and its arguments, and send nothing beside",
		"no_code_of_any_table": "no_code_of_any_table",
	} {
		got := Worded(powerbox.Reason{Code: code, Operation: "a.b", Argument: "file", ConstraintType: "range"})
		if diff := cmp.Diff(evidence.Reason{Code: string(code), Operation: "a.b", Argument: "file", Constraint: "range", Message: want}, got); diff != "" {
			t.Error(diff)
		}
	}
	seen := map[string]string{}
	for code, sentence := range sentences {
		if other, twice := seen[sentence]; twice || strings.Contains(sentence, "a2a/") {
			t.Errorf("%s says %q, which is of %q or of a protocol", code, sentence, other)
		}
		seen[sentence] = code
	}
}
