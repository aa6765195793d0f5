package postgres

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuer"
)

// EXT-25, EXT-27: a node that stands still in the middle of a change does not keep
// the others from theirs, and makes its own anew when it goes on: nothing is written
// over what they wrote meanwhile.
func TestEXT25_ANodeThatStandsStill(t *testing.T) {
	j := newJoint(t)
	still, other := j.node(t), j.node(t)
	begun, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	runs := 0
	go func() {
		done <- still.Update(t.Context(), func(tx issuer.Tx) error {
			if runs++; runs == 1 {
				close(begun)
				<-goOn
			}
			_, err := tx.Append(record("rec_still", "documents"))
			return err
		})
	}()
	<-begun
	for _, id := range []string{"rec_1", "rec_2"} {
		if err := appendTo(t.Context(), other, record(id, "documents")); err != nil {
			t.Errorf("%s, while another node stands still: %v", id, err)
		}
	}
	close(goOn)
	if err := <-done; err != nil || runs != 2 {
		t.Errorf("%v after %d runs", err, runs)
	}
	j.wantLog(t, other, 1, map[string]bool{"rec_1": true, "rec_2": true, "rec_still": true})
}
