package issuer_test

import (
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// TestSEP12_SeveralAreNarrowedTogether: if one of them is refused, none is issued.
func TestSEP12_SeveralAreNarrowedTogether(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	one, two := w.read(alice), w.read(alice)
	held := func() (ids []string) {
		t.Helper()
		page, _, err := w.issuer.InForce(t.Context(), issuer.LiveQuery{Principal: "user:alice", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			ids = append(ids, c.ID)
		}
		return ids
	}
	before := held()
	search, wider := issuer.Narrowing{Operations: []string{"search"}}, issuer.Narrowing{Operations: []string{"delete"}}
	_, err := w.issuer.NarrowAll(t.Context(), alice, []issuer.Part{{Of: "documents", Parent: one.ID, Narrowing: search}, {Of: "documents", Parent: two.ID, Narrowing: wider}})
	if refusal(t, err) != issuer.CodeWider || !slices.Equal(held(), before) {
		t.Errorf("SEP-12 the second is wider: %v; %v are in force, %v were before", err, held(), before)
	}
	children, err := w.issuer.NarrowAll(t.Context(), alice, []issuer.Part{{Of: "documents", Parent: one.ID, Narrowing: search}, {Of: "documents", Parent: two.ID, Narrowing: search}})
	if err != nil || len(children) != 2 || children[0].Root != one.ID || children[1].Root != two.ID || len(held()) != len(before)+2 {
		t.Errorf("SEP-12 both within their parents: %+v, %v", children, err)
	}
}
