package storetest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// The public log is that of its tree, also after a start; a bundle under
// an earlier checkpoint ends where that does.
func whatIsPublicOfTheLog(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	empty := must(evidence.ReadCheckpoint(must(s.LatestCheckpoint(t.Context()))))
	if empty.Size != 0 || must(s.CosignedCheckpoint(t.Context())) != nil {
		t.Errorf("%+v", empty)
	}
	fill(t, s, "early", 5, 2)
	early := must(s.LatestCheckpoint(t.Context()))
	if err := s.KeepCosigned(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	fill(t, s, "late", 4, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = f.open(t)
	if !bytes.Equal(must(s.CosignedCheckpoint(t.Context())), early) {
		t.Error("the cosigned checkpoint is not kept")
	}
	latest := must(evidence.ReadCheckpoint(must(s.LatestCheckpoint(t.Context()))))
	for n, leaf := range must(s.Leaves(t.Context(), 0, latest.Size)) {
		proof := must(tlog.ProveRecord(latest.Size, int64(n), s.Tree(t.Context())))
		if err := latest.CheckInclusion(proof, int64(n), leaf); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Leaves(t.Context(), 8, 10); err == nil {
		t.Error("there are leaves behind the last")
	}
	if _, err := s.Place(t.Context(), "rec_nobody"); !errors.Is(err, issuer.ErrNotFound) || must(s.Place(t.Context(), "rec_late_0")) < 5 {
		t.Error(err)
	}
	var out bytes.Buffer
	if err := s.ExportCosigned(t.Context(), &out, []evidence.Key{f.key}, false); err != nil {
		t.Fatal(err)
	}
	if report := must(evidence.Verify(&out, f.trust)); report.Verdict() != evidence.OK || report.Records != 5 {
		t.Errorf("%d records: %+v", report.Records, report.Problems)
	}
	// A checkpoint of more than the file has is not one of it.
	more := latest
	more.Size++
	if err := s.KeepCosigned(t.Context(), must(evidence.SignCheckpoint(more, f.keys.Checkpoint))); err != nil {
		t.Fatal(err)
	}
	if err := s.ExportCosigned(t.Context(), &out, nil, false); err == nil || !strings.Contains(err.Error(), "not one of this") {
		t.Error(err)
	}
}
