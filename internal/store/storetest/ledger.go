package storetest

import (
	"bytes"
	"testing"
)

// A ledger is kept over a restart, whole. One of fewer records does not replace it.
func aLedgerIsKeptAsAWhole(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	want := func(s Store, body []byte) {
		t.Helper()
		if got, err := s.Ledger(t.Context()); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%d bytes; want %d: %v", len(got), len(body), err)
		}
	}
	keep := func(place int64, body []byte) {
		t.Helper()
		if err := s.KeepLedger(t.Context(), place, body); err != nil {
			t.Fatal(err)
		}
	}
	want(s, nil)
	small, large := []byte("small"), bytes.Repeat([]byte("large"), 200_000)
	keep(3, small)
	want(s, small)
	keep(10, large)
	want(s, large)
	keep(10, small)
	keep(9, small)
	want(s, large)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = f.open(t)
	want(s, large)
	keep(11, small)
	want(s, small)
	keep(0, nil)
	want(s, nil)
	keep(1, large)
	want(s, large)
}
