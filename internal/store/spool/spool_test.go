package spool

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

func config(t *testing.T, dir string) Config {
	t.Helper()
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return Config{Dir: dir, Agent: "documents", Recorder: "gw_1", Signer: signer, Random: rand.Reader, Segment: 4096}
}

func open(t *testing.T, c Config) *Spool {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(id string) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: "documents", ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: "read"},
		Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: "gw_1"},
	}
}

// fill appends records and returns their ids.
func fill(t *testing.T, s *Spool, n int) []string {
	t.Helper()
	var ids []string
	for range n {
		id := fmt.Sprintf("rec_%d", s.Next())
		if _, err := s.Record(t.Context(), record(id)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// server takes records as a server does.
type server struct {
	mu   sync.Mutex
	ids  []string
	head evidence.Head
	fail int // shipments that fail, after they were taken
}

func (s *server) send(_ context.Context, records [][]byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		sealed, err := evidence.ParseSealed(r)
		if err != nil {
			return 0, err
		}
		switch d := sealed.Record().Details; {
		case d.Sequence < s.head.Sequence:
			continue
		case d.Sequence > s.head.Sequence || sealed.Prev() != s.head.Hash:
			return s.head.Sequence, nil
		}
		s.ids, s.head = append(s.ids, sealed.Record().ID), sealed.Head()
	}
	if s.fail > 0 {
		s.fail--
		return 0, errors.New("the answer was lost")
	}
	return s.head.Sequence, nil
}

func (s *server) got() []string { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.ids) }

// drained sends everything that waits.
func drained(t *testing.T, s *Spool, to *server) {
	t.Helper()
	for {
		sent, err := s.shipOnce(t.Context(), to.send)
		if err != nil {
			t.Fatal(err)
		}
		if !sent {
			return
		}
	}
}

// Many records at once, over restarts and segments: each is one link of one
// chain, and the server gets them in order, once.
func TestEXT27_WhatWasAnsweredIsKept(t *testing.T) {
	c := config(t, t.TempDir())
	var want []string
	for range 3 {
		s := open(t, c)
		var wg sync.WaitGroup
		var mu sync.Mutex
		base := s.Next()
		for p := range 8 {
			wg.Go(func() {
				for i := range 10 {
					id := fmt.Sprintf("rec_%d_%d_%d", base, p, i)
					sealed, err := s.Record(t.Context(), record(id))
					if err != nil || sealed.Record().ID != id {
						t.Error(err)
					}
					mu.Lock()
					want = append(want, id)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, c)
	if len(s.segments) < 3 {
		t.Errorf("%d segments; the test wants several", len(s.segments))
	}
	srv := &server{}
	drained(t, s, srv)
	got := srv.got()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the server has %d records of %d", len(got), len(want))
	}
	if len(s.segments) != 1 {
		t.Errorf("%d segments are kept after everything was shipped", len(s.segments))
	}
	// The chain continues from the remaining records.
	_ = s.Close()
	s = open(t, c)
	fill(t, s, 2)
	drained(t, s, srv)
	if len(srv.got()) != len(want)+2 {
		t.Error("the chain does not go on after a restart")
	}
}

// TestEXT27_ATornTailIsCut cuts the last batch at every byte: records
// acknowledged before it stay.
func TestEXT27_ATornTailIsCut(t *testing.T) {
	c := config(t, t.TempDir())
	s := open(t, c)
	fill(t, s, 3)
	_ = s.Close()
	path := s.segments[0].path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := 0
	for range 2 {
		f, _ := readFrame(whole[start:])
		start += f.size
	}
	for cut := start; cut < len(whole)-markSize; cut += 7 {
		for _, tail := range []string{"", "\x00\x00\x00\x00", "PBR1garbage"} {
			err := os.WriteFile(path, append(slices.Clone(whole[:cut]), tail...), 0o600)
			if err := errors.Join(err, os.Remove(filepath.Join(c.Dir, endName))); err != nil { // it was killed
				t.Fatal(err)
			}
			s, err := Open(c)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if s.Next() != 2 {
				t.Fatalf("cut at %d: record %d comes next", cut, s.Next())
			}
			fill(t, s, 1)
			_ = s.Close()
		}
	}
}

// TestEXT24_DamageIsNotATornTail flips bytes of records that were acknowledged:
// nothing is cut off, nothing continues.
func TestEXT24_DamageIsNotATornTail(t *testing.T) {
	c := config(t, t.TempDir())
	s := open(t, c)
	fill(t, s, 40)
	_ = s.Close()
	if len(s.segments) < 2 {
		t.Fatal("want several segments")
	}
	for n, g := range s.segments {
		whole, err := os.ReadFile(g.path)
		if err != nil {
			t.Fatal(err)
		}
		end := len(whole)
		if n == len(s.segments)-1 {
			end -= markSize // without the last mark nothing is lost
		}
		for at := 0; at < end; at += 61 {
			changed := slices.Clone(whole)
			changed[at] ^= 1
			if err := os.WriteFile(g.path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(c); !errors.Is(err, ErrDamaged) {
				t.Errorf("segment %d, byte %d: %v", n, at, err)
				if err == nil {
					_ = s.Close()
				}
			}
		}
		if err := os.WriteFile(g.path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A segment that is missing, and files that are other than they were.
	for name, change := range map[string]func(){
		"a segment that is gone": func() { _ = os.Remove(s.segments[1].path) },
		"a segment renamed":      func() { _ = os.Rename(s.segments[0].path, filepath.Join(c.Dir, "00000000000000000001.seg")) },
		"another chain":          func() { _ = os.WriteFile(filepath.Join(c.Dir, "chain"), []byte(strings.Repeat("0", 32)), 0o600) },
		"no chain id":            func() { _ = os.WriteFile(filepath.Join(c.Dir, "chain"), []byte("x"), 0o600) },
		"shipped too far":        func() { _ = os.WriteFile(filepath.Join(c.Dir, "shipped"), []byte("41"), 0o600) },
		"a file of another name": func() { _ = os.WriteFile(filepath.Join(c.Dir, "x.seg"), nil, 0o600) },
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(c.Dir)); err != nil {
			t.Fatal(err)
		}
		change()
		if s, err := Open(c); err == nil {
			t.Errorf("%s: opened at %d", name, s.Next())
			_ = s.Close()
		}
		if err := errors.Join(os.RemoveAll(c.Dir), os.CopyFS(c.Dir, os.DirFS(copied))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEXT27_WhatCannotBeWrittenIsRefused(t *testing.T) {
	c := config(t, t.TempDir())
	c.Limit = 6000
	s := open(t, c)
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "is locked") {
		t.Errorf("opened twice: %v", err)
	}
	other := record("rec_x")
	other.AgentID = "mail"
	broken := record("")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"of another agent": second(s.Record(t.Context(), other)), "without an id": second(s.Record(t.Context(), broken)),
	} {
		if !errors.Is(err, evidence.ErrNotWritten) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := second(s.Record(gone, record("rec_y"))); err == nil {
		t.Error("for a caller that has gone")
	}
	var err error
	for range 100 {
		if err = second(s.Record(t.Context(), record(fmt.Sprint("rec_", s.Next())))); err != nil {
			break
		}
	}
	if !errors.Is(err, evidence.ErrNotWritten) || !strings.Contains(err.Error(), "is the server reached?") {
		t.Errorf("beyond the limit: %v", err)
	}
	// It continues when the server has them.
	drained(t, s, &server{})
	fill(t, s, 1)
	// A file that fails is not written to again.
	path := s.file.Name()
	_ = s.file.Close()
	for range 2 {
		if err := second(s.Record(t.Context(), record("rec_z"))); !errors.Is(err, evidence.ErrNotWritten) || !strings.Contains(err.Error(), "opened anew") {
			t.Errorf("on a file that is gone: %v", err)
		}
		// A disk that can be written again changes nothing: its content is not known.
		s.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	if err := second(s.Record(t.Context(), record("rec_z"))); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("on a closed spool: %v", err)
	}
}

func second(_ evidence.Sealed, err error) error { return err }

// Shipping continues over lost answers and over servers that are behind.
func TestEXT25_ShippingIsInOrderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := config(t, dir)
		s, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		ids := fill(t, s, 300)
		srv := &server{fail: 2}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		var log bytes.Buffer
		go func() { defer close(done); s.Ship(ctx, srv.send, slog.New(slog.NewTextHandler(&log, nil))) }()
		<-time.After(time.Minute)
		ids = append(ids, fill(t, s, 3)...)
		<-time.After(time.Minute)
		if got := srv.got(); !slices.Equal(got, ids) {
			t.Errorf("%d of %d records", len(got), len(ids))
		}
		cancel()
		<-done
		if !strings.Contains(log.String(), "the answer was lost") {
			t.Errorf("log: %s", log.String())
		}
		// The spool forgets that it shipped records: it sends all again, and the server takes each once.
		_ = s.Close()
		if err := os.Remove(filepath.Join(dir, "shipped")); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(c); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		for _, next := range []int64{-1, 304} {
			if s.Shipped(next) == nil {
				t.Errorf("the server says %d", next)
			}
		}
		drained(t, s, srv)
		if got := srv.got(); !slices.Equal(got, ids) {
			t.Errorf("again: %d of %d records", len(got), len(ids))
		}
	})
}

func FuzzSegment(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 1, false, []byte("a")), 1, true, []byte("b")), true)
	f.Add([]byte("PBR1"), false)
	f.Fuzz(func(t *testing.T, data []byte, last bool) {
		frames, good, err := readSegment(data, frame{last: true}, last)
		size := 0
		for _, fr := range frames {
			size += fr.size
		}
		if err == nil && size != good {
			t.Errorf("%d frames of %d bytes, %d are good", len(frames), size, good)
		}
	})
}

// A server that was restored from an older backup gets again what it lost, as
// far as it is still here.
func TestEXT25_ARestoredServerIsSentItAgain(t *testing.T) {
	s := open(t, config(t, t.TempDir()))
	ids := fill(t, s, 3)
	srv := &server{}
	drained(t, s, srv)
	s.mu.Lock()
	shipped := s.shipped
	s.mu.Unlock()
	*srv = server{}
	ids = append(ids, fill(t, s, 1)...)
	drained(t, s, srv)
	if got := srv.got(); shipped != 3 || !slices.Equal(got, ids) {
		t.Errorf("shipped %d, then %v; want %v", shipped, got, ids)
	}
}

// EXT-26: a body stands beside its record until the server has both, over a restart, and is
// gone then. The body of a record that was never written is gone at the next start.
func TestEXT26_BodiesAreGoneOnceTheyWereShipped(t *testing.T) {
	dir := t.TempDir()
	s := open(t, config(t, dir))
	r := record("rec_said")
	body, err := evidence.NewBody(bytes.NewReader(make([]byte, 32)), []byte(`{"query":"canary"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Detach(body)
	if _, err := s.Record(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(dir, "bodies", fmt.Sprintf("%020d", 7))
	if err := os.WriteFile(stray, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, config(t, dir))
	if _, err := os.Stat(stray); err == nil {
		t.Error("EXT-26 the body of a record that was never written stays")
	}
	waiting, err := s.Waiting()
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%d records, %v", len(waiting), err)
	}
	bodies, n, err := s.Bodies(waiting)
	if err != nil || n != 1 || bodies[0] == nil || string(bodies[0].Bytes) != `{"query":"canary"}` {
		t.Errorf("EXT-26 %v, %d, %v", bodies, n, err)
	}
	drained(t, s, &server{head: evidence.Genesis(s.head.ChainID)})
	if left, err := os.ReadDir(filepath.Join(dir, "bodies")); err != nil || len(left) != 0 {
		t.Errorf("EXT-26 bodies that the server has stay: %v %v", left, err)
	}
}
