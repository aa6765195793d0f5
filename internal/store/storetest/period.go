package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// closed closes a period and returns it with its bundle.
func (f fixture) closed(t *testing.T, s Store) (p issuer.Period, bundle []byte) {
	t.Helper()
	if _, err := s.Records(t.Context()); err != nil { // has a journal taken in: a period ends at the tree
		t.Fatal(err)
	}
	err := s.Update(t.Context(), func(tx issuer.Tx) (err error) {
		p, err = tx.ClosePeriod(nil, noon)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.ExportPeriod(t.Context(), &out, []evidence.Key{f.key}, p.Number, false); err != nil {
		t.Fatal(err)
	}
	return p, out.Bytes()
}

// archived takes a period out of the store, and says so in a record.
func archived(t *testing.T, s Store, p issuer.Period) {
	t.Helper()
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if err := tx.ArchivePeriod(p); err != nil {
			return err
		}
		_, err := tx.Append(record(fmt.Sprint("rec_archive_", p.Number)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n > 0; {
		err := s.Update(t.Context(), func(tx issuer.Tx) (err error) {
			n, err = tx.DeleteArchived()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Chains continue from the archived records, also those that rested, whether the writer
// remembers where they end or must read it; and the archive holds together
// with the store.
func chainsGoOnBehindAnArchive(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	var series [][]byte
	total := 0
	for round, step := range []struct {
		records, agents int
		restart         bool
	}{{30, 7, true}, {3, 1, false}, {(1 << 12) + 40, 2, true}, {20, 7, true}, {5, 5, false}} {
		fill(t, s, fmt.Sprint(round), step.records, step.agents)
		total += step.records
		p, bundle := f.closed(t, s)
		if p.Size != int64(total) || p.Number != int64(round+1) {
			t.Errorf("round %d: %+v", round, p)
		}
		series = append(series, bundle)
		archived(t, s, p)
		total++
		if step.restart {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = f.open(t)
		}
	}
	fill(t, s, "last", 14, 7)
	total += 14
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out, []evidence.Key{f.key}); err != nil {
		t.Fatal(err)
	}
	series = append(series, out.Bytes())
	var readers []io.Reader
	for _, bundle := range series {
		readers = append(readers, bytes.NewReader(bundle))
	}
	report, err := evidence.VerifySeries(f.trust, readers...)
	if err != nil || report.Verdict() != evidence.OK || report.Records != total || len(report.Chains) != 8 {
		t.Errorf("%v, %d records of %d, %d chains, %+v", err, report.Records, total, len(report.Chains), report.Problems)
	}
	if n := strings.Count(out.String(), "record_id"); n != 15 {
		t.Errorf("%d records are here, want those of the last period", n)
	}
}

// An archived record is not found, and the error says so.
func whatWasArchivedIsElsewhere(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	fill(t, s, "old", 10, 2)
	if _, err := s.Begins(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, _ := f.closed(t, s)
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		_, err := tx.ClosePeriod(nil, noon)
		return err
	})
	if !errors.Is(err, issuer.ErrNothingToClose) {
		t.Errorf("a period of nothing: %v", err)
	}
	archived(t, s, p)
	fill(t, s, "new", 10, 2)
	if begins, err := s.Begins(t.Context()); err != nil || begins != 10 {
		t.Errorf("%d %v", begins, err)
	}
	if _, err := s.Place(t.Context(), "rec_old_1"); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("its place: %v", err)
	}
	if _, err := s.Leaves(t.Context(), 8, 12); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("its leaves: %v", err)
	}
	if leaves, err := s.Leaves(t.Context(), 10, 21); err != nil || len(leaves) != 11 {
		t.Errorf("leaves that are here: %d %v", len(leaves), err)
	}
	if err := s.ExportPeriod(t.Context(), io.Discard, nil, 1, false); !errors.Is(err, issuer.ErrArchived) {
		t.Errorf("its bundle: %v", err)
	}
	if err := s.ExportPeriod(t.Context(), io.Discard, nil, 2, false); !errors.Is(err, issuer.ErrNotFound) {
		t.Errorf("a period that is not closed: %v", err)
	}
	seen := 0
	err = s.View(t.Context(), func(r issuer.Reader) error {
		for q := (issuer.RecordQuery{Scan: 3, Limit: 100}); ; {
			page, err := r.Records(q)
			if err != nil {
				return err
			}
			if seen += len(page.Records); page.Next == "" {
				return nil
			}
			q.Before = page.Next
		}
	})
	if err != nil || seen != 11 {
		t.Errorf("%d records are listed, %v", seen, err)
	}
}
