package evidence

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// fullDisk takes some bytes and no more.
type fullDisk struct{ free int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.free -= len(p); d.free < 0 {
		return 0, errors.New("disk is full")
	}
	return len(p), nil
}

func TestEXT41_ABundleHoldsTheStoredBytes(t *testing.T) {
	l := newTestLog(t).fill(3, 1)
	for i, line := range lines(l.bundle())[1:4] {
		if want := append(bytes.Clone(l.records[i]), '\n'); !bytes.Equal(line, want) {
			t.Errorf("line %d is %s", i+2, line)
		}
	}
}

func TestEXT41_WhatCannotBeReadOrWrittenIsNoBundle(t *testing.T) {
	l := newTestLog(t).fill(60, 1)
	for name, test := range map[string]struct {
		spoil func(*Export)
		want  string
	}{
		"no checkpoint": {func(e *Export) { e.Checkpoint = nil }, "checkpoint"},
		"records fail": {func(e *Export) {
			e.Records = func(yield func([]byte, error) bool) { yield(nil, errors.New("row is gone")) }
		}, "row is gone"},
		"a record of two lines": {func(e *Export) { e.Records = sequence([][]byte{[]byte("{\n}")}) }, "line feed"},
		"leaves fail":           {func(e *Export) { e.Hashes = Hashes{} }, "leaf hashes 0 to 59"},
	} {
		t.Run(name, func(t *testing.T) {
			export := l.export()
			test.spoil(&export)
			wantError(t, WriteBundle(&bytes.Buffer{}, export), test.want)
		})
	}
	for _, free := range []int{0, 5000} {
		wantError(t, WriteBundle(&fullDisk{free: free}, l.export()), "disk is full")
	}
}

func TestEXT41_ADamagedStoreIsExportedAndFoundOut(t *testing.T) {
	l := newTestLog(t).fill(3, 1)
	l.records[1] = bytes.Replace(l.records[1], []byte("ALLOW"), []byte("DENY"), 1)
	if found := kinds(l.verify(l.bundle())); len(found) != 1 || found[0] != "hash_mismatch@3" {
		t.Error(found)
	}
	l = newTestLog(t).fill(3, 1)
	l.hashes[tlog.StoredHashIndex(0, 1)] = tlog.Hash{}
	if found := kinds(l.verify(l.bundle())); len(found) != 1 || found[0] != "root_mismatch@6" {
		t.Error(found)
	}
}

func TestWhatIsNoJSONIsNotWritten(t *testing.T) {
	if _, err := canonicalValue(make(chan int)); err == nil {
		t.Error("a channel was written")
	}
}
