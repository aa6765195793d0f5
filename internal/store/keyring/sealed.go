package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// identityFile holds what the other files are encrypted to, under the passphrase.
// One slow derivation opens a ring, however many keys it has.
const identityFile = "identity.age"

// workFactor is that of scrypt: a guess costs 2^18 rounds, about a second.
const workFactor = 18

// minPassphrase is the shortest passphrase, in bytes.
const minPassphrase = 12

// plainFile stays readable: the operator's token is for commands beside the server,
// and opens nothing where the server does not run.
const plainFile = "operator.secret"

// seal is what files of a ring are encrypted to, and opened with.
type seal struct{ identity *age.X25519Identity }

// unlock returns the seal of a ring with a passphrase, nil for a ring without. A
// ring that was sealed is not opened without.
func (r *Ring) unlock(passphrase []byte) (*seal, error) {
	path := filepath.Join(r.dir, identityFile)
	data, err := os.ReadFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case !missing && err == nil && blank(data):
		return nil, fmt.Errorf("keys: %s is empty, and without it no encrypted key can be read; restore it from a backup", path)
	case err != nil && !missing:
		return nil, fmt.Errorf("keys: %w", err)
	case missing && len(passphrase) == 0:
		return nil, nil
	case len(passphrase) == 0:
		return nil, fmt.Errorf("keys: those in %s are encrypted; name the file with their passphrase (issuer.passphrase_file, --passphrase-file)", r.dir)
	case missing:
		sealed, err := r.anySealed()
		if err == nil && sealed != "" {
			err = fmt.Errorf("keys: %s is gone, and without it %s cannot be read; restore it from a backup", path, sealed)
		}
		if err != nil {
			return nil, err
		}
		return r.newSeal(path, passphrase)
	}
	if info, err := os.Stat(path); err != nil || ownersAlone(path, info) != nil {
		return nil, errors.Join(err, ownersAlone(path, info))
	}
	under, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	plain, err := opened(data, under)
	if err != nil {
		return nil, fmt.Errorf("keys: %s is not opened by the passphrase", path)
	}
	identity, err := age.ParseX25519Identity(string(plain))
	if err != nil {
		return nil, fmt.Errorf("keys: %s is damaged; restore it from a backup", path)
	}
	return &seal{identity}, nil
}

// anySealed returns the name of a key that is encrypted, "" where none is.
func (r *Ring) anySealed() (string, error) {
	names, err := r.List()
	for _, name := range names {
		data, errRead := os.ReadFile(filepath.Join(r.dir, name))
		if errRead != nil {
			return "", fmt.Errorf("keys: %w", errRead)
		}
		if isSealed(data) {
			return name, nil
		}
	}
	return "", err
}

// newSeal makes the identity of a ring that gets a passphrase.
func (r *Ring) newSeal(path string, passphrase []byte) (*seal, error) {
	if len(passphrase) < minPassphrase {
		return nil, fmt.Errorf("keys: the passphrase has %d bytes; want at least %d", len(passphrase), minPassphrase)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	under, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	under.SetWorkFactor(r.work)
	data, err := closed([]byte(identity.String()), under)
	if err == nil {
		err = r.write(path, data)
	}
	return &seal{identity}, err
}

// isSealed reports whether a file's text is encrypted.
func isSealed(data []byte) bool { return bytes.HasPrefix(data, []byte(armor.Header)) }

// IsSealed reports whether what a key file holds is encrypted.
func IsSealed(data []byte) bool { return isSealed(data) }

// open returns what a file holds, and whether it stands there in the clear.
func (s *seal) open(data []byte) (plain []byte, inClear bool, err error) {
	if !isSealed(data) {
		return data, true, nil
	}
	if s == nil {
		return nil, false, errors.New("it is encrypted; name the file with the passphrase (issuer.passphrase_file, --passphrase-file)")
	}
	if plain, err = opened(data, s.identity); err != nil {
		return nil, false, errors.New("it is not opened by the passphrase's identity; is it of another ring?")
	}
	return plain, false, nil
}

// shut returns the bytes to write of a key.
func (s *seal) shut(path string, data []byte) ([]byte, error) {
	if s == nil || filepath.Base(path) == plainFile {
		return data, nil
	}
	return closed(data, s.identity.Recipient())
}

func opened(data []byte, identity age.Identity) ([]byte, error) {
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader(data)), identity)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func closed(data []byte, to age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = errors.Join(w.Close(), text.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return out.Bytes(), nil
}
