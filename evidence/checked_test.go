package evidence

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
)

// TestEXT26_WhatWasCheckedIsNotCheckedAgain verifies a bundle that is cut off, and
// then the whole one: each signature is checked once, and all else every time.
func TestEXT26_WhatWasCheckedIsNotCheckedAgain(t *testing.T) {
	l := newTestLog(t).fill(6, 1, 2)
	var found []tlog.Hash
	verify := func(bundle []byte, known ...tlog.Hash) []string {
		found = nil
		trust := l.trust()
		trust.Checked = NewChecked(func(leaf tlog.Hash) { found = append(found, leaf) }, known...)
		report, err := Verify(bytes.NewReader(bundle), trust)
		must(t, err)
		return kinds(report)
	}
	parts := lines(l.bundle())
	if diff := cmp.Diff([]string{"missing_tail@4"}, verify(join(parts[:3]...))); diff != "" || len(found) != 2 {
		t.Errorf("cut off: %d signatures held %s", len(found), diff)
	}
	first := found
	if got := verify(l.bundle(), first...); got != nil || len(found) != 4 {
		t.Errorf("the whole one: %v, %d further signatures held", got, len(found))
	}
	all := append(first, found...)
	if got := verify(l.bundle(), all...); got != nil || len(found) != 0 {
		t.Errorf("again: %v, %d further signatures held", got, len(found))
	}
	// The memory holds one record with one signature, and no verdict.
	for _, test := range tampers[:6] {
		spoilt := join(test.spoil(l, lines(l.bundle()))...)
		if diff := cmp.Diff(test.want, verify(spoilt, all...)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
