package issuer

import "testing"

// EXT-16: events of other nodes may come here behind later ones; the state said to be
// known has none missing.
func TestEXT16_WhatIsKnownHasNoGaps(t *testing.T) {
	s := &revocations{}
	for _, step := range []struct{ came, known int64 }{{1, 1}, {3, 1}, {4, 1}, {3, 1}, {2, 4}, {1, 4}, {6, 4}, {5, 6}} {
		if s.came(step.came); s.sequence != step.known {
			t.Errorf("after %d: %d is known; want %d", step.came, s.sequence, step.known)
		}
	}
}
