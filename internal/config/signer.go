package config

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"
)

// SignerFile says where signing keys are kept that are not files: the file that
// issuer.signer_file and --signer-file name. docs/how-to/keys.md has every key.
type SignerFile struct {
	Exec        []string      `key:"exec" doc:"Command of a program that keeps the keys, with its arguments. It speaks the protocol on this page."`
	Environment []string      `key:"environment" doc:"Names of variables of the environment that the program gets, in addition to PATH, HOME, TMPDIR and LANG."`
	Vault       SignerVault   `key:"vault" doc:"The Transit engine of Vault or OpenBao, instead of exec."`
	Timeout     time.Duration `key:"timeout" default:"2s" doc:"Longest time for one signature, 10ms to 30s. A call whose record is not signed in this time is refused."`
	Files       []string      `key:"files" doc:"Names of signing keys that stay files, as powerbox keys list prints them. Example: checkpoint."`
}

// SignerVault is the Transit engine of Vault or OpenBao.
type SignerVault struct {
	Address   string `key:"address" format:"origin" doc:"Address of the server, https or on loopback."`
	Mount     string `key:"mount" default:"transit" doc:"Where the engine is mounted."`
	Prefix    string `key:"prefix" default:"powerbox-" doc:"Beginning of the names of keys."`
	Namespace string `key:"namespace" doc:"Namespace of the engine."`
	TokenFile Path   `key:"token_file" doc:"File with the token, read again for every signature, so that an agent of Vault can renew it."`
	CA        Path   `key:"ca" doc:"PEM file with the authorities of the server's certificate. Absent: those of the system."`
}

// SignerTable returns the table of all settings, for docs/how-to/keys.md.
func SignerTable() []byte {
	return table(reflect.TypeFor[SignerFile]())
}

// LoadSigner reads a signer's file, as [LoadAttach] reads its own.
func LoadSigner(path string, read func(string) ([]byte, error)) (*SignerFile, error) {
	c := new(SignerFile)
	if err := loadFile(path, read, c); err != nil {
		return nil, err
	}
	return c, nil
}

// check wants one place of keys.
func (c *SignerFile) check(d *decoder) {
	if (len(c.Exec) == 0) == (c.Vault.Address == "") {
		d.place("exec", "want exec or vault.address, and not both")
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > 30*time.Second {
		d.place("timeout", "is %v; want 10ms to 30s", c.Timeout)
	}
	if c.Vault.Address == "" {
		return
	}
	if c.Vault.TokenFile == "" {
		d.place("vault.token_file", "is missing; want the file with the token")
	}
	if err := encryptedOrLoopback(c.Vault.Address); err != nil {
		d.place("vault.address", "%v", err)
	}
}

// encryptedOrLoopback refuses an address at which a secret would cross a network in the
// clear.
func encryptedOrLoopback(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("is %q; want https, or http on loopback: a token is sent there", address)
}

// StaysFile reports whether a signing key stays a file.
func (c *SignerFile) StaysFile(name string) bool { return slices.Contains(c.Files, name) }
