package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// A change for which no call waits shares its commit with the next one, is written in time
// without one, and is not lost when the store is closed.
func TestLazyChangesShareACommit(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	f.config.Spool = true
	commits := make(chan int, 9)
	f.config.Committed, f.config.Now = func(changes int, _ time.Duration) { commits <- changes }, func() time.Time { return time.Time{} }
	s := openStore(t, f.config)
	s.lazyTime = time.Hour
	lazily := func(id string) chan error {
		result := make(chan error, 1)
		err := s.hand(&change{ctx: t.Context(), lazy: issuer.IsLazy(issuer.Lazy(t.Context())), answer: func(err error) { result <- err }, run: func(x *transaction) error {
			_, err := x.Append(record(id))
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	first := lazily("rec_1")
	if err := appendOne(t, s, record("rec_2")); err != nil {
		t.Fatal(err)
	}
	if err, n := <-first, <-commits; err != nil || n != 2 {
		t.Errorf("a commit of %d changes, %v; want both", n, err)
	}
	last := lazily("rec_3")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err, n := <-last, <-commits; err != nil || n != 1 {
		t.Errorf("at the end a commit of %d changes, %v", n, err)
	}
	s = openStore(t, f.config)
	s.lazyTime = time.Nanosecond
	if err := <-lazily("rec_4"); err != nil {
		t.Error(err)
	}
	if n := must(s.Records(t.Context())); n != 4 {
		t.Errorf("%d records", n)
	}
}
