package evidence

import (
	"fmt"
	"hash/maphash"
	"testing"
)

// TestEntriesTellIDsApart also where two have one hash, and more than stand in a piece.
func TestEntriesTellIDsApart(t *testing.T) {
	all := newEntries()
	add := func(id string) *entry {
		before := all.first(id)
		all.add(entry{id: id})
		return before
	}
	add("first")
	all.ids[maphash.String(all.seed, "second")] = 0
	for n := range piece + 2 {
		if before := add(fmt.Sprint(n)); before != nil {
			t.Fatalf("%d was here already, as %q", n, before.id)
		}
	}
	if before := add("second"); before != nil {
		t.Errorf("an id with the hash of another one was here already, as %q", before.id)
	}
	for _, id := range []string{"first", "second", "0", fmt.Sprint(piece + 1)} {
		if before := add(id); before == nil || before.id != id {
			t.Errorf("%q was not found again: %v", id, before)
		}
	}
	for e := range all.all() {
		if e.id != "first" {
			t.Errorf("the first one is %q", e.id)
		}
		break
	}
}
