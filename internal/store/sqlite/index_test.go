package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// found returns the ids that a search finds.
func found(t *testing.T, s *Store, q issuer.RecordQuery) (ids []string) {
	t.Helper()
	if err := s.View(t.Context(), func(r issuer.Reader) error {
		page, err := r.Records(q)
		for _, one := range page.Records {
			ids = append(ids, one.Record().ID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// counted returns the number of rows of a table.
func counted(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.reads.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A process that ends while it adds to the index changes no search, after each of its
// transactions, and the next one adds the segment as a whole.
func TestAnIndexThatWasCutHidesNoRecord(t *testing.T) {
	s := openStore(t, newFixture(filepath.Join(t.TempDir(), "powerbox.db")).config)
	const names, records = 700, 2100
	if err := s.Update(t.Context(), func(tx issuer.Tx) error {
		for i := range records {
			r := record(fmt.Sprintf("rec_%04d", i))
			r.Details.Principal = fmt.Sprintf("pair:%d", i%names)
			if _, err := tx.Append(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	queries := []issuer.RecordQuery{{Principals: []string{"pair:0"}}, {Principals: []string{"pair:699"}}, {Agent: "documents", Limit: 50}}
	var want [][]string
	for _, q := range queries {
		want = append(want, found(t, s, q))
	}
	cut, transactions := errors.New("the process ended"), 0
	view := func(look func(rows.Reader) error) error {
		return s.view(t.Context(), func(r settled) error { return look(r.Reader) })
	}
	for at := 0; ; at++ {
		transactions = 0
		_, err := rows.Index(view, func(change func(rows.Tx) error) error {
			if transactions == at {
				return cut
			}
			transactions++
			return s.update(t.Context(), func(tr *transaction) error { return change(tr.Tx) })
		})
		for i, q := range queries {
			if diff := cmp.Diff(want[i], found(t, s, q)); diff != "" {
				t.Fatalf("cut after %d transactions, %+v:\n%s", transactions, q, diff)
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, cut) {
			t.Fatal(err)
		}
	}
	// 700 users and one agent are 701 lists, 256 a transaction, and one transaction ends the segment.
	if n := counted(t, s, "posting"); transactions != 4 || n != names+1 {
		t.Errorf("%d transactions and %d lists; want 4 and %d", transactions, n, names+1)
	}
}

// What the index has of archived records is removed with its next step.
func TestTheIndexForgetsArchivedRecords(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	add := func(name string, records int) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx issuer.Tx) error {
			for i := range records {
				r := record(fmt.Sprintf("rec_%s_%04d", name, i))
				r.Details.Principal = fmt.Sprintf("pair:%s%d", name, i)
				if _, err := tx.Append(r); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	step := func(want int) {
		t.Helper()
		if _, err := s.Index(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := counted(t, s, "posting"); n != want {
			t.Errorf("%d lists; want %d", n, want)
		}
	}
	add("a", 2048)
	step(2049)
	if err := s.Update(t.Context(), func(tx issuer.Tx) error {
		p, err := tx.ClosePeriod(nil, noon)
		if err != nil {
			return err
		}
		return tx.ArchivePeriod(p)
	}); err != nil {
		t.Fatal(err)
	}
	step(0)
	add("b", 2047)
	step(0)
	add("c", 1)
	step(2049)
}
