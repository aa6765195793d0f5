package spool

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/powerbox-project/powerbox/evidence"
)

// A spool whose disk was full continues when there is room, with a whole chain and
// without records that were not acknowledged (EXT-27).
func TestEXT27_AFullDiskIsGotOver(t *testing.T) {
	c := config(t, t.TempDir())
	c.Segment = 1 << 20
	s := open(t, c)
	ids := fill(t, s, 5)
	info, err := os.Stat(s.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	// A file may not grow beyond the middle of its next record.
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = uint64(info.Size()) + 100
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	failed := second(s.Record(t.Context(), record("rec_lost")))
	again := second(s.Record(t.Context(), record("rec_lost_too")))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{failed, again} {
		if !errors.Is(err, evidence.ErrNotWritten) || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	ids = append(ids, fill(t, s, 3)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := &server{}
	drained(t, open(t, c), got)
	if text := fmt.Sprint(got.ids); text != fmt.Sprint(ids) || strings.Contains(text, "lost") {
		t.Errorf("shipped %s, want %v", text, ids)
	}
}

// TestATK88_NoRoomForAMark has room for a record and for some bytes of its mark: the record
// was acknowledged and stays, and the spool continues when there is room.
func TestATK88_NoRoomForAMark(t *testing.T) {
	c := config(t, t.TempDir())
	c.Segment = 1 << 20
	s := open(t, c)
	size := func() uint64 {
		info, err := os.Stat(s.segments[0].path)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(info.Size())
	}
	ids := fill(t, s, 1)
	first := size()
	ids = append(ids, fill(t, s, 1)...)
	second := size()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = second + second - first - markSize/2
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	_, err := s.Record(t.Context(), record("rec_2"))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if third := size(); err != nil || third != second+second-first-markSize {
		t.Fatalf("%v; %d bytes, then %d, then %d", err, first, second, third)
	}
	ids = append(append(ids, "rec_2"), fill(t, s, 2)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := &server{}
	drained(t, open(t, c), got)
	if text := fmt.Sprint(got.ids); text != fmt.Sprint(ids) {
		t.Errorf("shipped %s, want %v", text, ids)
	}
}
