package remote

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
)

// Keys are the keys of a remote gateway.
type Keys struct {
	State   string
	Ring    *keyring.Ring
	Own     signed.Key        // speaks to the server
	Context *token.PrivateKey // signs contexts for the agent behind
}

// Enrolment is the result of enrolling that a gateway keeps.
type Enrolment struct {
	Server  string        `json:"server"`
	Gateway string        `json:"gateway"`
	Agent   string        `json:"agent"`
	Feed    signed.Public `json:"feed"`
	Signs   string        `json:"record_algorithm,omitempty"` // of its records; absent for Ed25519
	// Keys are the ids of the gateway's keys by their files; absent where an earlier
	// version enrolled it.
	Keys map[string]string `json:"keys,omitempty"`
}

// known are the keys that an enrolled gateway must have.
func (e Enrolment) known() map[string]string {
	if len(e.Keys) > 0 {
		return e.Keys
	}
	return map[string]string{"gateway.secret": "", "agent-context.jwk": "", keyring.EvidenceName(e.algorithm()) + ".secret": ""}
}

// adviseEnrolling says what to do when a gateway has lost its key.
func (e Enrolment) adviseEnrolling(string) string {
	return fmt.Sprintf("if it cannot be restored, close the gateway at the server (powerbox gateway close %s) and enroll a new --state (powerbox gateway enroll). "+
		"Records that this gateway has not sent stay in its spool folder: powerbox gateway spool check", e.Gateway)
}

// algorithm is that of the signatures of the gateway's records.
func (e Enrolment) algorithm() string {
	if e.Signs == "" {
		return evidence.Ed25519
	}
	return e.Signs
}

// OpenKeys makes or reads the keys of a gateway, in a directory that is
// its owner's alone.
func OpenKeys(state, passphraseFile string) (*Keys, error) {
	passphrase, err := app.ReadPassphrase(passphraseFile)
	if err != nil {
		return nil, fmt.Errorf("--passphrase-file: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(state)
	if err != nil {
		return nil, err
	}
	if filemode.Others(info.Mode()) != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %o); run chmod 700 %s", state, info.Mode().Perm(), state)
	}
	ring, err := keyring.Open(filepath.Join(state, "keys"), rand.Reader, passphrase)
	if err != nil {
		return nil, err
	}
	k := &Keys{State: state, Ring: ring}
	if err := k.expect(); err != nil {
		return nil, err
	}
	if k.Own, err = ring.Gateway(); err != nil {
		return nil, err
	}
	if k.Context, err = ring.Agent("context"); err != nil {
		return nil, err
	}
	return k, nil
}

// expect has the keys of an enrolled gateway be those that it was enrolled with.
func (k *Keys) expect() error {
	if _, err := os.Stat(filepath.Join(k.State, "enrolment.json")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	e, err := k.enrolled()
	if err != nil {
		return err
	}
	k.Ring.Advice = e.adviseEnrolling
	return k.Ring.Expect(e.known())
}

// Keep writes the enrolment to the state, whole or not at all.
func (k *Keys) Keep(e Enrolment) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(k.State, "enrolment.json")
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// enrolled reads the enrolment from its file.
func (k *Keys) enrolled() (Enrolment, error) {
	var e Enrolment
	name := filepath.Join(k.State, "enrolment.json")
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return e, fmt.Errorf("there is no %s; enroll the gateway first: powerbox gateway enroll, or correct --state", name)
	}
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	return e, err
}
