package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuer"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openStore(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(id string) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: "documents", ActionType: "capability.request", Intent: evidence.Intent{Operation: "documents/documents:read/retrieve"},
		Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: "serve"},
	}
}

func TestEXT25_AppendsByManyProducersFormOneChain(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	var wg sync.WaitGroup
	for p := range 16 {
		wg.Go(func() {
			for i := range 10 {
				err := s.Update(t.Context(), func(tx issuer.Tx) error {
					_, err := tx.Append(record(fmt.Sprintf("rec_%d_%d", p, i)))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	report := f.verify(t, s)
	if report.Verdict() != evidence.OK || report.Records != 160 || report.Size != 160 || len(report.Chains) != 1 {
		t.Errorf("%+v", report)
	}
}

func TestEXT27_AFailedChangeLeavesNothing(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	s := openStore(t, f.config)
	boom := errors.New("boom")
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if _, err := tx.Append(record("rec_1")); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if err := s.Export(t.Context(), &bytes.Buffer{}, nil); !errors.Is(err, ErrNoEvidence) {
		t.Errorf("evidence of a change that did not happen: %v", err)
	}
	err = s.Update(t.Context(), func(tx issuer.Tx) error {
		sealed, err := tx.Append(record("rec_1"))
		if err == nil && sealed.Record().Details.Sequence != 0 {
			t.Errorf("sequence %d after a change that was taken back", sealed.Record().Details.Sequence)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneProcessOneStore(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	openStore(t, f.config)
	if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("second open: %v", err)
	}
}
