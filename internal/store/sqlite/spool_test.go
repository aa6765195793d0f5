package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func spooling(t *testing.T) fixture {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	f.config.Spool = true
	return f
}

// number is the id of the n-th record.
func number(n int) string { return fmt.Sprintf("rec_%09d", n) }

// ahead appends records from one number on, before another, and fails the test
// unless the file has no more of them than the first. It is kept from taking any
// in until free is called.
func ahead(t *testing.T, s *Store, from, to int) (free func()) {
	t.Helper()
	err := appendOne(t, s, record(number(from))) // what begins a chain is in the file
	if err == nil {
		err = s.settle(t.Context())
	}
	s.filing.Lock()
	for n := from + 1; n < to && err == nil; n++ {
		err = appendOne(t, s, record(number(n)))
	}
	if c, unread := readCheckpoint(t.Context(), s.reads); err != nil || unread != nil || c.size != int64(from)+1 {
		s.filing.Unlock()
		t.Fatalf("the file has %d records, %v, %v; want %d", c.size, err, unread, from+1)
	}
	return s.filing.Unlock
}

// A reader gets every acknowledged record.
func TestEXT25_WhatIsAheadOfTheFileIsSeen(t *testing.T) {
	for name, seen := range map[string]func(s *Store) error{
		"record": func(s *Store) error {
			return s.View(t.Context(), func(r issuer.Reader) error { _, err := r.Record(number(9)); return err })
		},
		"records": func(s *Store) error {
			return s.View(t.Context(), func(r issuer.Reader) error {
				page, err := r.Records(issuer.RecordQuery{Limit: 100})
				if err == nil && len(page.Records) != 10 {
					err = fmt.Errorf("%d records", len(page.Records))
				}
				return err
			})
		},
		"place": func(s *Store) error { _, err := s.Place(t.Context(), number(9)); return err },
		"count": func(s *Store) error {
			n, err := s.Records(t.Context())
			if n != 10 {
				err = errors.Join(err, fmt.Errorf("%d records", n))
			}
			return err
		},
		"checkpoint": func(s *Store) error {
			signed, err := s.LatestCheckpoint(t.Context())
			if err != nil {
				return err
			}
			c, err := evidence.ReadCheckpoint(signed)
			if c.Size != 10 {
				err = errors.Join(err, fmt.Errorf("of %d records", c.Size))
			}
			return err
		},
		"from": func(s *Store) error {
			all, err := s.From(t.Context(), 0)
			if len(all) != 10 {
				err = errors.Join(err, fmt.Errorf("%d records", len(all)))
			}
			return err
		},
		"a change": func(s *Store) error {
			return s.Update(t.Context(), func(tx issuer.Tx) error {
				_, err := tx.Record(number(9))
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := spooling(t)
			s := openStore(t, f.config)
			ahead(t, s, 0, 10)()
			if err := seen(s); err != nil {
				t.Error(err)
			}
			f.wantLog(t, s, 10, 1)
		})
	}
}

// Records that are ahead of the file and those that come with other changes are
// one log, in the order in which they were acknowledged.
func TestEXT25_OneLogAheadAndInTheFile(t *testing.T) {
	f := spooling(t)
	f.config.Batches, f.trust.Batches = true, true
	s := openStore(t, f.config)
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 60 {
				r := record(fmt.Sprintf("rec_%06d_%d", i, p))
				r.AgentID = fmt.Sprintf("agent-%d", p%3)
				err := s.Update(t.Context(), func(tx issuer.Tx) error {
					if i%7 == p {
						if err := tx.SetMode(r.AgentID, "require"); err != nil {
							return err
						}
					}
					_, err := tx.Append(r)
					return err
				})
				if err == nil && i%11 == p {
					_, err = s.Place(t.Context(), r.ID)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f.wantLog(t, s, 480, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.Stat(f.config.Path + spoolSuffix); err != nil || left.Size() > 1024 || left.Mode().Perm() != 0o600 {
		t.Errorf("a store that was closed leaves %v, %v; want a file of its owner alone without a record", left, err)
	}
	s = openStore(t, f.config)
	if err := appendOne(t, s, record("rec_9")); err != nil {
		t.Fatal(err)
	}
	f.wantLog(t, s, 481, 4)
}

// crash copies what a process that ends now leaves on the disk.
func (f fixture) crash(t *testing.T, names ...string) fixture {
	t.Helper()
	to := spooling(t)
	for _, suffix := range names {
		data, err := os.ReadFile(f.config.Path + suffix)
		if err == nil {
			err = os.WriteFile(to.config.Path+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// Anything that was acknowledged ahead of the file is taken in at the next start, and the
// chain continues from it.
func TestEXT27_WhatIsAheadIsTakenInAtTheStart(t *testing.T) {
	f := spooling(t)
	s := openStore(t, f.config)
	free := ahead(t, s, 0, 10)
	left := f.crash(t, "", "-wal", spoolSuffix)
	free()
	again := openStore(t, left.config)
	left.wantLog(t, again, 10, 1)
	ahead(t, again, 10, 12)()
	left.wantLog(t, again, 12, 1)
	// What the file has taken in already is passed over.
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	both := f.crash(t, "", "-wal", spoolSuffix)
	both.wantLog(t, openStore(t, both.config), 10, 1)
}

// The store refuses a file that is older than the records acknowledged after it,
// and a journal that was changed.
func TestEXT27_WhatIsMissingOrChangedIsNotPassedOver(t *testing.T) {
	f := spooling(t)
	s := openStore(t, f.config)
	ahead(t, s, 0, 3)()
	if err := s.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := f.crash(t, "", "-wal")
	ahead(t, s, 3, 6)()
	if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.SetMode("documents", "require") }); err != nil {
		t.Fatal(err)
	}
	if err := s.ahead.journal.Reset(); err != nil { // as it is when it has grown
		t.Fatal(err)
	}
	free := ahead(t, s, 6, 9)
	data, err := os.ReadFile(f.config.Path + spoolSuffix)
	free()
	if err != nil {
		t.Fatal(err)
	}
	for want, left := range map[string]struct {
		store fixture
		data  []byte
	}{
		"records are missing": {old, data},
		"damaged":             {f.crash(t, "", "-wal"), bytes.Replace(data, []byte("ALLOW"), []byte("DENY!"), 1)},
	} {
		if err := os.WriteFile(left.store.config.Path+spoolSuffix, left.data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), left.store.config)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want one that says %q", err, want)
		}
	}
}

// A journal that cannot be written acknowledges nothing.
func TestEXT27_WhatCannotGoAheadIsNotAcknowledged(t *testing.T) {
	f := spooling(t)
	s := openStore(t, f.config)
	ahead(t, s, 0, 2)()
	if err := s.ahead.journal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(t, s, record(number(2))); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
	// What failed may be on the disk, where another record must not get its place.
	if err := act(s, t, "agent"); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
	f.wantLog(t, s, 2, 1)
}

// Where the file cannot take anything in, what may wait for it is bounded, and
// nothing is lost when it can again.
func TestEXT27_WhatWaitsForTheFileIsBounded(t *testing.T) {
	f := spooling(t)
	var told sync.Once
	behind := make(chan error, 1)
	f.config.Behind = func(err error) { told.Do(func() { behind <- err }) }
	s := openStore(t, f.config)
	s.mayWait = 1000
	ahead(t, s, 0, 2)()
	s.filing.Lock()
	s.writer(t, "PRAGMA query_only = ON")
	s.filing.Unlock()
	var wg sync.WaitGroup
	var mu sync.Mutex
	next, acknowledged := 2, 2
	for range 64 {
		wg.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				err := appendOne(t, s, record(number(n)))
				if errors.Is(err, evidence.ErrNotWritten) {
					return
				}
				if err != nil || n > s.mayWait+2*maxBatch+2 {
					t.Errorf("record %d: %v", n, err)
					return
				}
				mu.Lock()
				acknowledged++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := <-behind; err == nil {
		t.Error("nobody was told")
	}
	s.filing.Lock()
	s.writer(t, "PRAGMA query_only = OFF")
	s.filing.Unlock()
	f.wantLog(t, s, acknowledged, 1)
}

// The id of a record is used once, also where the file has not seen it yet, and
// where it is no longer remembered.
func TestEXT27_AnIDThatIsAheadIsUsed(t *testing.T) {
	f := spooling(t)
	s := openStore(t, f.config)
	ahead(t, s, 0, 3)()
	if err := appendOne(t, s, record(number(2))); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("an id that is ahead: %v", err)
	}
	s.ahead.ids = ids{floor: number(2)}
	if err := appendOne(t, s, record(number(1))); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("an id that was forgotten: %v", err)
	}
	if err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if _, err := tx.Append(record(number(4))); err != nil {
			return err
		}
		_, err := tx.Append(record(number(4)))
		return err
	}); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("an id twice in one change: %v", err)
	}
	f.wantLog(t, s, 3, 1)
	var k ids
	for n := range 3 * maxIDs {
		k.use(number(n))
	}
	if k.unused(number(0)) || k.unused(number(3*maxIDs-1)) || !k.unused(number(3*maxIDs)) || k.floor == "" {
		t.Errorf("what was forgotten is below %q", k.floor)
	}
}
