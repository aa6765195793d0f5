package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
)

// Keys are the keys of a remote gateway.
type Keys struct {
	State   string
	Ring    *keyring.Ring
	Own     signed.Key   // speaks to the server
	Context token.Signer // signs contexts for the agent behind
}

const enrolmentFile = "enrolment.json"

// Enrolment is the result of enrolling that a gateway keeps.
type Enrolment struct {
	Server  string        `json:"server"`
	Gateway string        `json:"gateway"`
	Agent   string        `json:"agent"`
	Feed    signed.Public `json:"feed"`
	Signs   string        `json:"record_algorithm,omitempty"` // of its records; absent for Ed25519
	// Signer is the file that says where its signing keys are that are no files, "" for none.
	Signer string `json:"signer_file,omitempty"`
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
// its owner's alone. signerFile is that of a gateway that is about to be enrolled; an enrolled
// one knows its own.
func OpenKeys(state, passphraseFile, signerFile string, now func() time.Time) (*Keys, error) {
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
	k := &Keys{State: state}
	var e Enrolment
	_, err = os.Stat(filepath.Join(state, enrolmentFile))
	enrolled := !errors.Is(err, os.ErrNotExist)
	if enrolled {
		if e, err = k.enrolled(); err != nil {
			return nil, err
		}
		signerFile = e.Signer
	}
	ring, err := proxy.OpenRing(proxy.KeyFiles{Directory: filepath.Join(state, "keys"), Passphrase: passphraseFile, Signer: signerFile}, now)
	if err != nil {
		return nil, err
	}
	k.Ring = ring
	if enrolled {
		// Its keys are those that it was enrolled with.
		ring.Advice = e.adviseEnrolling
		if err := ring.Expect(e.known()); err != nil {
			return nil, errors.Join(err, ring.Close())
		}
	}
	if k.Own, err = ring.Gateway(); err != nil {
		return nil, err
	}
	if k.Context, err = ring.Agent("context"); err != nil {
		return nil, err
	}
	return k, nil
}

// Keep writes the enrolment to the state, whole or not at all.
func (k *Keys) Keep(e Enrolment) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(k.State, enrolmentFile)
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// enrolled reads the enrolment from its file.
func (k *Keys) enrolled() (Enrolment, error) {
	var e Enrolment
	name := filepath.Join(k.State, enrolmentFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return e, fmt.Errorf("there is no %s; enroll the gateway first: powerbox gateway enroll, or correct --state", name)
	}
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	return e, err
}
