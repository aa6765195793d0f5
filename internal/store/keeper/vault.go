package keeper

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// maxVault bounds an answer of Vault.
const maxVault = 1 << 20

// VaultConfig says where keys of the Transit engine are.
type VaultConfig struct {
	Address   string // https, or http on loopback
	Mount     string // of the engine
	Prefix    string // of the names of keys
	Namespace string // "" for none
	TokenFile string // read again for every request: an agent of Vault may renew it
	Transport http.RoundTripper
	Random    io.Reader
}

// Vault is the Transit engine of Vault or OpenBao.
type Vault struct {
	VaultConfig
	client *http.Client
}

// NewVault returns the keeper of an engine.
func NewVault(c VaultConfig) *Vault {
	// A redirect would have the token sent to an address that no operator named.
	return &Vault{c, &http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// String names the engine.
func (v *Vault) String() string {
	return "vault " + strings.TrimSuffix(v.Address, "/") + "/v1/" + v.Mount
}

// Close implements [Keeper].
func (v *Vault) Close() error {
	v.client.CloseIdleConnections()
	return nil
}

// kinds are the types of keys of the engine.
var kinds = map[string]string{Ed25519: "ed25519", ES256: "ecdsa-p256"}

// Create implements [Keeper]. The engine has both algorithms.
func (v *Vault) Create(ctx context.Context, name string, algorithms []string) (Made, error) {
	algorithm, err := choose([]string{Ed25519, ES256}, algorithms)
	if err != nil {
		return Made{}, err
	}
	random := make([]byte, 6)
	if _, err := io.ReadFull(v.Random, random); err != nil {
		return Made{}, err
	}
	own := v.Prefix + name + "-" + hex.EncodeToString(random)
	if err := v.do(ctx, http.MethodPost, "keys/"+own, map[string]any{"type": kinds[algorithm]}, nil); err != nil {
		return Made{}, err
	}
	made := Made{Reference: own + ":1"}
	made.Public, err = v.Public(ctx, made.Reference)
	return made, err
}

// split returns the name and the version of a key.
func split(reference string) (name string, version int, err error) {
	name, text, _ := strings.Cut(reference, ":")
	version, err = strconv.Atoi(text)
	if err != nil || version < 1 || name == "" {
		return "", 0, fmt.Errorf("%q is no key of Vault; want NAME:VERSION", reference)
	}
	return name, version, nil
}

// Public implements [Keeper].
func (v *Vault) Public(ctx context.Context, reference string) (jose.JSONWebKey, error) {
	name, version, err := split(reference)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	var key struct {
		Keys map[string]struct {
			Public string `json:"public_key"`
		} `json:"keys"`
	}
	if err := v.do(ctx, http.MethodGet, "keys/"+url.PathEscape(name), nil, &key); err != nil {
		return jose.JSONWebKey{}, err
	}
	return readVaultKey(key.Keys[strconv.Itoa(version)].Public)
}

// readVaultKey reads a public key: Ed25519 as base64, P-256 as PEM.
func readVaultKey(text string) (jose.JSONWebKey, error) {
	if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) == ed25519.PublicKeySize {
		return jose.JSONWebKey{Key: ed25519.PublicKey(raw)}, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return jose.JSONWebKey{}, errors.New("it answered without the public key of that version")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	return jose.JSONWebKey{Key: public}, err
}

// Sign implements [Keeper].
func (v *Vault) Sign(ctx context.Context, reference, algorithm string, message []byte) ([]byte, error) {
	name, version, err := split(reference)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"input": base64.StdEncoding.EncodeToString(message), "key_version": version}
	decode := base64.StdEncoding.DecodeString
	if algorithm == ES256 {
		body["prehashed"], body["hash_algorithm"], body["marshaling_algorithm"] = true, "sha2-256", "jws"
		decode = base64.RawURLEncoding.DecodeString
	}
	var signed struct {
		Signature string `json:"signature"`
	}
	if err := v.do(ctx, http.MethodPost, "sign/"+url.PathEscape(name), body, &signed); err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(signed.Signature, fmt.Sprintf("vault:v%d:", version))
	signature, err := decode(text)
	if err != nil || !ok {
		return nil, errors.New("it answered without a signature of that version")
	}
	return signature, nil
}

// do makes one request. Errors have the words of Vault, and never the token.
func (v *Vault) do(ctx context.Context, method, path string, body, into any) error {
	token, err := os.ReadFile(v.TokenFile)
	if err != nil {
		return fmt.Errorf("token_file: %w", err)
	}
	var payload []byte
	if body != nil {
		if payload, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(v.Address, "/")+"/v1/"+v.Mount+"/"+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	r.Header.Set("X-Vault-Token", strings.TrimSpace(string(token)))
	r.Header.Set("X-Vault-Request", "true")
	if v.Namespace != "" {
		r.Header.Set("X-Vault-Namespace", v.Namespace)
	}
	answer, err := v.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxVault))
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("status %d to %s %s: %s", answer.StatusCode, method, path, said(data))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, &struct{ Data any }{into}); err != nil {
		return errors.New("its answer is not what Vault answers")
	}
	return nil
}

// said are the words of an error of Vault.
func said(data []byte) string {
	var told struct {
		Errors []string `json:"errors"`
	}
	if json.Unmarshal(data, &told) != nil || len(told.Errors) == 0 {
		return "no reason"
	}
	return fmt.Sprintf("%q", cut(strings.TrimSpace(strings.Join(told.Errors, "; "))))
}
