package a2a

import "testing"

// TestPausedIsFound: what the search before it is sure of must not hide a state.
func TestPausedIsFound(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"result":{"task":{"id":"t","status":{"state":"TASK_STATE_PAUSED"}}}}`: true,
		`{"result":{"kind":"task","id":"t","status":{"state":"paused"}}}`:       true,
		`{"result":{"kind":"task","id":"t","status":{"state":"working"}}}`:      false,
	} {
		if got := BehaviourOf([]byte(answer)).Paused; got != want {
			t.Errorf("%s: paused is %t; want %t", answer, got, want)
		}
	}
}
