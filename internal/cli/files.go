package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// WriteSecret writes a secret to a file that only its owner may read. One that is
// there must be ours to replace.
func WriteSecret(name, secret string) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file; name another for the secret", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".powerbox-*") // mode 0600
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("secret: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// WriteOut writes to standard output, or to a file that is whole or not there.
func (p *Program) WriteOut(name string, mode os.FileMode, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		return write(p.Stdout)
	}
	f, err := beside(name)
	if err != nil {
		return err
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// beside makes a file of mode 0600 in the folder of another, which takes its name once it is whole.
func beside(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; want the name of a file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".powerbox-*")
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		err = fmt.Errorf("%s cannot be written: %w", name, path.Err) // the temporary name means nothing to the user
	}
	return f, err
}

// CanWrite says before something is asked for that cannot be asked for again whether it can be
// kept in the file.
func CanWrite(name string) error {
	if name == "" || name == "-" {
		return nil
	}
	f, err := beside(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// JSONFile reads a file that holds JSON.
func JSONFile(name string) (json.RawMessage, error) {
	data, err := os.ReadFile(name)
	if err == nil && !json.Valid(data) {
		err = errors.New(name + " is not JSON")
	}
	return data, err
}

// ReadPrivateKey reads a private key as a JWK from a file.
func (p *Program) ReadPrivateKey(name string) (*token.PrivateKey, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return nil, err
	}
	k, err := token.ParsePrivateKey(data)
	return k, notAKey(name, err)
}

// ReadPublicKey reads a public key as a JWK from a file.
func (p *Program) ReadPublicKey(name string) (token.PublicKey, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return token.PublicKey{}, err
	}
	k, err := token.ParsePublicKey(data)
	if problem := (*token.Error)(nil); errors.As(err, &problem) && problem.Code == token.CodePrivateKey {
		err = Invalid(fmt.Errorf("%s is a private key; want its public part: powerbox keys public %[1]s > public.jwk", name))
	}
	return k, notAKey(name, err)
}

// notAKey makes err one of a file that is no key, with its name.
func notAKey(name string, err error) error {
	if status := (*exitStatus)(nil); err == nil || errors.As(err, &status) {
		return err
	}
	return Invalid(fmt.Errorf("%s: %w", name, err))
}

// LoadKey reads a holder's key as [holder.LoadKey] does. A file that is no key is invalid, and
// nothing was denied.
func LoadKey(name string) (*token.PrivateKey, error) {
	k, err := holder.LoadKey(name)
	if errors.Is(err, powerbox.ErrDenied) {
		err = Invalid(fmt.Errorf("%w; make a key with: powerbox keys new %s", err, "holder.jwk"))
	}
	return k, err
}
