package token

import "testing"

// Holders are everyone that a chain was given to, in order.
func TestHoldersOfAChain(t *testing.T) {
	f := newFamily(t, 2)
	got := f.verify(t).Holders()
	if len(got) != 3 {
		t.Fatalf("%d holders; want 3", len(got))
	}
	for i, h := range f.holders {
		if got[i] != h.Public() {
			t.Errorf("holder %d is %s; want %s", i, got[i].Thumbprint(), h.Public().Thumbprint())
		}
	}
	if (Verified{}).Holders() != nil {
		t.Error("no chain has holders")
	}
}
