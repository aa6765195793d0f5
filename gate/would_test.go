package gate_test

import (
	"testing"

	"github.com/powerbox-project/powerbox/gate"
)

// TestWouldUsesNothingUp: a call that presents a capability, or has a proof, is not tried, as
// trying would use the proof up or say something of a call that cannot be made.
func TestWouldUsesNothingUp(t *testing.T) {
	for name, call := range map[string]*gate.Call{
		"a capability": {Target: &gate.Target{}, Presented: []gate.Presented{{Reference: "cap_1"}}},
		"a proof":      {Target: &gate.Target{}, Caller: gate.Caller{ProofID: "p"}},
	} {
		if v := new(gate.Gate).Would(t.Context(), call); v.Allowed || len(v.Reasons) != 1 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
