package a2a

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/action"
)

// TestEveryMethodHasAnActionType: a call of any method is a call on record, of its own
// action type.
func TestEveryMethodHasAnActionType(t *testing.T) {
	seen := map[action.Type]Method{}
	for n := range methodNames {
		m := Method(n)
		of := action.OfA2A(m.String())
		if other, twice := seen[of]; twice || of.Class() != action.Call {
			t.Errorf("%s and %s are %q of class %q on record; add the method to internal/action", m, other, of, of.Class())
		}
		seen[of] = m
	}
}
