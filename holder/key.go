package holder

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/token"
)

// maxKeyFile bounds a key file: one JWK.
const maxKeyFile = 16 << 10

// LoadKey reads the private key, a JWK, from a file that only its owner
// may read: a mode wider than 0600 is refused. Errors do not quote the file.
func LoadKey(path string) (*token.PrivateKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("holder: key: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("holder: key: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || filemode.Others(mode) != 0 || mode.Perm()&0o100 != 0 {
		return nil, fmt.Errorf("holder: key %s has mode %s; want a file with mode 0600 or less: chmod 600 %s", path, mode, path)
	}
	jwk, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("holder: key %s: %w", path, err)
	}
	key, err := token.ParsePrivateKey(jwk)
	if err != nil {
		return nil, fmt.Errorf("holder: key %s: %w", path, err)
	}
	return key, nil
}

// NewKeyFile makes a key and writes it to a new file with mode 0600. A file
// that exists is left alone, which is an error.
func NewKeyFile(path string, algorithm token.Algorithm, random io.Reader) (*token.PrivateKey, error) {
	key, err := token.GenerateKey(algorithm, random)
	if err != nil {
		return nil, fmt.Errorf("holder: key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("holder: key: %w", err)
	}
	_, err = f.Write(append(key.JWK(), '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("holder: key %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return key, nil
}
