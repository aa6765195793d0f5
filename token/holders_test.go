package token

import (
	"slices"
	"testing"
)

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
	if (Verified{}).Holders() != nil || (Verified{}).HolderNames() != nil {
		t.Error("no chain has holders")
	}
}

// The names of holders are the same whether a chain was seen before or not.
func TestHolderNames(t *testing.T) {
	f := newFamily(t, 2)
	var want []string
	for _, h := range f.holders {
		want = append(want, "key:"+h.Public().Thumbprint())
	}
	memo := NewMemo(1 << 20)
	for use := range 2 {
		v, err := memo.Verify(JoinChain(f.tokens), f.anchors, quiet(at))
		if err != nil {
			t.Fatal(err)
		}
		if got := v.HolderNames(); !slices.Equal(got, want) {
			t.Errorf("use %d: %q; want %q", use+1, got, want)
		}
	}
	if got := f.verify(t).HolderNames(); !slices.Equal(got, want) {
		t.Errorf("without a memo: %q; want %q", got, want)
	}
}
