package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func record(id string) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: "documents", ActionType: action.CapabilityRequest.String(), Intent: evidence.Intent{Operation: "documents/documents:read/retrieve"},
		Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: "serve"},
	}
}

func appendsByManyProducersFormOneChain(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
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

// AFailedChangeLeavesNothing says that a change that fails leaves neither state nor
// evidence (EXT-27).
func AFailedChangeLeavesNothing(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
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
	if err := s.Export(t.Context(), &bytes.Buffer{}, nil); !errors.Is(err, issuer.ErrNoEvidence) {
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
