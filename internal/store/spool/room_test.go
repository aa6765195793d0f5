package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// EXT-27: where no new segment can be made, as on a full disk, nothing is written, and
// the spool continues automatically when one can.
func TestEXT27_ASegmentThatCannotBeMade(t *testing.T) {
	s := open(t, config(t, t.TempDir()))
	ids := fill(t, s, 1)
	for s.segments[0].size < s.config.Segment {
		ids = append(ids, fill(t, s, 1)...)
	}
	inTheWay := filepath.Join(s.config.Dir, s.nextSegment())
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Record(t.Context(), record("rec_lost")); !errors.Is(err, evidence.ErrNotWritten) || !errors.Is(err, fs.ErrExist) {
			t.Errorf("without room for a segment: %v", err)
		}
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	ids = append(ids, fill(t, s, 3)...)
	got := &server{}
	drained(t, s, got)
	if len(got.ids) != len(ids) {
		t.Errorf("shipped %d records, want %d", len(got.ids), len(ids))
	}
}

// EXT-27: what the server has is deleted also where that cannot be noted, as on a disk
// that is full of it.
func TestEXT27_WhatWasShippedMakesRoom(t *testing.T) {
	s := open(t, config(t, t.TempDir()))
	for len(s.segments) < 3 {
		fill(t, s, 1)
	}
	noted := filepath.Join(s.config.Dir, "shipped")
	if err := os.MkdirAll(filepath.Join(noted, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	next := s.Next()
	if n := s.Unsent(); n != next || n == 0 {
		t.Errorf("%d of %d records are said to be on their way", n, next)
	}
	if err := s.Shipped(next); err == nil {
		t.Fatal("it was noted in the place of a folder")
	}
	if n := len(s.segments); n != 1 {
		t.Errorf("%d segments are kept of what the server has", n)
	}
	if err := os.RemoveAll(noted); err != nil {
		t.Fatal(err)
	}
	if err := s.Shipped(next); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if n := s.Unsent(); n != 0 {
		t.Errorf("%d records are said to be on their way, of those that the server has", n)
	}
}
