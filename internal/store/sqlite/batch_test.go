package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// In batches the last record of each chain that is written is signed, also where
// a change after it failed, and covers those before.
func TestEXT23_BatchesEndSigned(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	f.config.Batches = true
	s := openStore(t, f.config)
	held, begun := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.Update(t.Context(), func(issuer.Tx) error { close(begun); <-held; return nil })
	}()
	<-begun
	failed := errors.New("the last change fails")
	results := make(chan error, 20)
	for i := range 10 {
		s.changes <- &change{ctx: t.Context(), answer: func(err error) { results <- err }, run: func(tx *transaction) error {
			r := record(fmt.Sprintf("rec_%d", i))
			r.AgentID = fmt.Sprintf("agent-%d", i%2)
			if _, err := tx.Append(r); err != nil {
				return err
			}
			if i >= 8 {
				return failed
			}
			return nil
		}}
	}
	close(held)
	for i := range 10 {
		if err := <-results; (err != nil) != (i >= 8) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if err := appendOne(t, s, record("rec_alone")); err != nil {
		t.Fatal(err)
	}
	var bundle bytes.Buffer
	if err := s.Export(t.Context(), &bundle, []evidence.Key{f.key}); err != nil {
		t.Fatal(err)
	}
	f.trust.Batches = true
	report, err := evidence.Verify(&bundle, f.trust)
	if err != nil || report.Verdict() != evidence.OK || report.Records != 9 || report.Covered != 6 {
		t.Errorf("%d of %d covered, %v %v", report.Covered, report.Records, err, report.Problems)
	}
}
