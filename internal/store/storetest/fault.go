package storetest

import (
	"errors"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// act does what an action does to the store: state and its record.
func act(s Store, t *testing.T, agent string) error {
	return s.Update(t.Context(), func(tx issuer.Tx) error {
		if err := tx.SetMode(agent, "require"); err != nil {
			return err
		}
		_, err := tx.Append(record("rec_" + agent))
		return err
	})
}

func modeOf(t *testing.T, s Store, agent string) (mode string) {
	t.Helper()
	err := s.View(t.Context(), func(r issuer.Reader) error { modes, err := r.Modes(); mode = modes[agent]; return err })
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

// What cannot be signed is not written.
func withoutASignatureNothingHappens(t *testing.T, place Place) {
	f := newFixture(t, place)
	f.keys.Signer = brokenSigner{f.keys.Signer}
	s := f.open(t)
	if err := act(s, t, "agent"); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
	if mode := modeOf(t, s, "agent"); mode != "" {
		t.Errorf("the action happened: %q", mode)
	}
}

type brokenSigner struct{ evidence.Signer }

func (brokenSigner) Sign([]byte) ([]byte, error) { return nil, errors.New("the key is gone") }

func aClosedStoreWritesNothing(t *testing.T, place Place) {
	f := newFixture(t, place)
	s := f.open(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := act(s, t, "agent"); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v; want ErrNotWritten", err)
	}
}
