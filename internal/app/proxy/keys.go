package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"os"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/store/keeper"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// ReadPassphrase reads the passphrase of a ring of keys, nil without a file. White
// space around it is none of it.
func ReadPassphrase(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil, fmt.Errorf("%s is empty; want the passphrase", file)
	}
	return data, nil
}

// KeyFiles says where the keys of a process are.
type KeyFiles struct {
	Directory  string // of the ring
	Passphrase string // file with the passphrase, "" for none
	Signer     string // file that says where signing keys are that are no files, "" for none
}

// OpenRing opens a ring of keys, and the keeper of those that are elsewhere.
func OpenRing(k KeyFiles, now func() time.Time) (*keyring.Ring, error) {
	passphrase, err := ReadPassphrase(k.Passphrase)
	if err != nil {
		return nil, fmt.Errorf("the file with the passphrase of the keys: %w", err)
	}
	ring, err := keyring.Open(k.Directory, rand.Reader, passphrase)
	if err != nil || k.Signer == "" {
		return ring, err
	}
	file, err := config.LoadSigner(k.Signer, os.ReadFile)
	if err != nil {
		return nil, err
	}
	kept, err := keeperOf(file, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Signer, err)
	}
	ring.Away(kept, file.Timeout, file.StaysFile)
	return ring, nil
}

// keeperOf is the keeper that a file names.
func keeperOf(file *config.SignerFile, now func() time.Time) (keeper.Keeper, error) {
	if len(file.Exec) > 0 {
		return keeper.NewExec(file.Exec, file.Environment, now)
	}
	policy := outbound.Configured()
	if file.Vault.CA != "" {
		pem, err := os.ReadFile(string(file.Vault.CA))
		if err != nil {
			return nil, fmt.Errorf("vault.ca: %w", err)
		}
		roots, err := outbound.Authorities(pem, string(file.Vault.CA))
		if err != nil {
			return nil, fmt.Errorf("vault.ca: %w", err)
		}
		policy.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	v := file.Vault
	return keeper.NewVault(keeper.VaultConfig{
		Address: v.Address, Mount: v.Mount, Prefix: v.Prefix, Namespace: v.Namespace, TokenFile: string(v.TokenFile),
		Transport: outbound.New(policy).Transport(), Random: rand.Reader,
	}), nil
}
