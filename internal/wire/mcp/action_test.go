package mcp

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/action"
)

// TestEveryMethodHasAnActionType: a request of any method is a call on record, of its own
// action type.
func TestEveryMethodHasAnActionType(t *testing.T) {
	seen := map[action.Type]string{}
	for _, m := range []string{"Unknown", "response", "GET", "DELETE"} {
		seen[action.OfMCP(m)] = m
	}
	for m := range methods {
		of := action.OfMCP(m)
		if other, twice := seen[of]; twice || of.Class() != action.Call {
			t.Errorf("%s and %s are %q of class %q on record; add the method to internal/action", m, other, of, of.Class())
		}
		seen[of] = m
	}
	if len(seen) != len(methods)+4 {
		t.Errorf("%d action types of %d methods", len(seen), len(methods))
	}
}
