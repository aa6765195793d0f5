package postgres

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// EXT-25, EXT-27: a node that stands still in the middle of a change does not keep
// the others from theirs, and makes its own anew when it continues: nothing is written
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

// slow takes its time, longer than a change may stand still, before it takes something.
type slow struct {
	bytes.Buffer
	waits int
}

func (s *slow) Write(p []byte) (int, error) {
	if s.waits > 0 && s.Len() > 0 {
		s.waits--
		<-time.After(time.Second)
	}
	return s.Buffer.Write(p)
}

// EXT-41: an export is whole however slowly it is read.
func TestEXT41_ASlowReader(t *testing.T) {
	j := newJoint(t)
	err := j.node(t).Update(t.Context(), func(tx issuer.Tx) error {
		for n := range 1200 { // several pages
			if _, err := tx.Append(record(fmt.Sprint("rec_", n), "documents")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := j.node(t, func(c *Config) { c.Stillness = 200 * time.Millisecond })
	out := &slow{waits: 2}
	if err := s.Export(t.Context(), out, []evidence.Key{j.key}); err != nil || out.waits != 0 {
		t.Fatalf("%v; %d waits were not made", err, out.waits)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n < 1200 {
		t.Errorf("%d lines for 1200 records", n)
	}
}
