package remote

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// adviseSpool says what to do about a damaged spool.
func adviseSpool(err error, state string) error {
	if !errors.Is(err, spool.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w. Powerbox keeps no record back in silence, so the gateway does not start. See what is whole: powerbox gateway spool check %s. "+
		"Then send what is whole, and put on record what is lost: powerbox gateway spool salvage %s", err, state, state)
}

// stateOf is the state directory of a gateway, given that or the spool in it.
func stateOf(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "enrolment.json")); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Clean(dir)), "enrolment.json")); err == nil {
			return filepath.Dir(filepath.Clean(dir))
		}
	}
	return dir
}

// SpoolOf holds the names and keys by which the spool in a state directory is opened and
// verified.
type SpoolOf struct {
	Keys     *Keys
	Enrolled Enrolment
	Config   spool.Config
	Key      evidence.Key
}

// OpenSpoolOf opens the spool of an enrolled state, with its keys.
func OpenSpoolOf(dir, passphrase string, now func() time.Time) (*SpoolOf, error) {
	s := &SpoolOf{}
	state := stateOf(dir)
	if _, err := os.Stat(filepath.Join(state, "enrolment.json")); err != nil {
		return nil, fmt.Errorf("%s is not the state directory of a gateway: %w", state, err)
	}
	var err error
	if s.Keys, err = OpenKeys(state, passphrase, "", now); err != nil {
		return nil, err
	}
	if s.Enrolled, err = s.Keys.enrolled(); err != nil {
		return nil, err
	}
	signer, key, err := s.Keys.Ring.Evidence(s.Enrolled.algorithm(), s.Enrolled.Gateway)
	s.Key = key
	s.Config = spool.Config{Dir: filepath.Join(state, "spool"), Agent: s.Enrolled.Agent, Recorder: s.Enrolled.Gateway, Signer: signer, Random: rand.Reader}
	return s, err
}
