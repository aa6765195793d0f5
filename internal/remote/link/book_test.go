package link

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGATE3_BookOfHeldCalls starts a book again after each state that a crash can
// leave: an unannounced call is withdrawn, a waiting one continues to wait, and one
// that may have been forwarded is never made again.
func TestGATE3_BookOfHeldCalls(t *testing.T) {
	name := filepath.Join(t.TempDir(), "held")
	b, err := OpenBook(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []HeldState{HeldAsking, HeldWaits, HeldWithdrawing, HeldMaking, HeldDone} {
		e := HeldEntry{Task: "task_pb_" + string(s), State: s, Request: []byte("secret"), Owner: Owner{Root: "cap_1"}, Since: noon}
		if s == HeldDone {
			e.Request, e.Result = nil, &HeldResult{Answer: []byte(`{"a":1}`)}
		}
		if err := b.Put(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the book is readable for others: %v %v", info.Mode(), err)
	}
	if b, err = OpenBook(name); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	all, err := b.All()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range all {
		got[e.Task] = string(e.State)
		if e.Result != nil {
			got[e.Task] += fmt.Sprint(" ", e.Result.Failed, " ", strings.Contains(e.Result.Text, "outcome is unknown"))
		}
	}
	want := map[string]string{
		"task_pb_asking": "withdrawing", "task_pb_waits": "waits", "task_pb_withdrawing": "withdrawing", "task_pb_making": "done true true", "task_pb_done": "done false false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	e, known, err := b.Get("task_pb_waits")
	if err != nil || !known || string(e.Request) != "secret" || e.Owner.Root != "cap_1" {
		t.Errorf("what waits lost its bytes: %+v %v %v", e, known, err)
	}
	if err := b.Delete("task_pb_waits"); err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Get("task_pb_waits"); known || err != nil {
		t.Errorf("it is still there: %v", err)
	}
}

// TestGATE3_BookIsBounded fills a book: further calls are refused, and its
// entries can still change.
func TestGATE3_BookIsBounded(t *testing.T) {
	b, err := OpenBook(filepath.Join(t.TempDir(), "held"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	b.db.NoSync = true // it is about the number
	for n := range maxHeld {
		if err := b.Put(HeldEntry{Task: fmt.Sprint("task_pb_", n), State: HeldAsking}); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := b.Put(HeldEntry{Task: "task_pb_more", State: HeldAsking}); !errors.Is(err, ErrBookFull) {
		t.Errorf("one more: %v", err)
	}
	if err := b.Put(HeldEntry{Task: "task_pb_1", State: HeldWaits}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}
