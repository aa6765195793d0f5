package spool

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// TestEXT27_ABacklogOverASlowLink has a link that carries few bytes in the time of a shipment. All
// records arrive, the most of them at the first try, and a link that is fast again gets whole
// shipments.
func TestEXT27_ABacklogOverASlowLink(t *testing.T) {
	const records = 600
	s := open(t, config(t, t.TempDir()))
	for n := range records {
		if _, err := s.Record(t.Context(), record(fmt.Sprintf("rec_%d", n))); err != nil {
			t.Fatal(err)
		}
	}
	to := &server{head: evidence.Genesis(s.head.ChainID)}
	most, tries, failed := 10_000, 0, 0
	slow := func(ctx context.Context, records [][]byte) (int64, error) {
		tries++
		size := 0
		for _, r := range records {
			size += len(r)
		}
		if size > most {
			failed++
			return 0, errors.New("not in time")
		}
		return to.send(ctx, records)
	}
	for s.Unsent() > records/2 && tries < records {
		_, _ = s.shipOnce(t.Context(), slow)
	}
	if s.Unsent() > records/2 || failed > tries/4 {
		t.Fatalf("EXT-27: of %d shipments %d failed, and %d records wait", tries, failed, s.Unsent())
	}
	most = 1 << 30
	before := tries
	for s.Unsent() > 0 {
		if _, err := s.shipOnce(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
	}
	if len(to.got()) != records || tries-before > records/4 {
		t.Errorf("EXT-27: %d records came in %d more shipments", len(to.got()), tries-before)
	}
}
