// Package keepertest has what stands in for Vault in tests: the requests of the Transit
// engine that its documentation names, checked, and nothing else.
package keepertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Token is what the stand-in takes.
const Token = "hvs.a-token-of-a-test" //nolint:gosec // of a test

// Vault stands in for Vault.
type Vault struct {
	URL       string
	TokenFile string
	Fails     atomic.Bool // every request is answered as by a sealed Vault
	Hangs     atomic.Bool // no request is answered
	Lies      atomic.Bool // signatures are those of another message
	Signed    atomic.Int64

	mu   sync.Mutex
	keys map[string]crypto.Signer
}

// New starts a stand-in.
func New(t testing.TB) *Vault {
	t.Helper()
	v := &Vault{keys: map[string]crypto.Signer{}, TokenFile: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(v.TokenFile, []byte(Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/transit/keys/{name}", v.create)
	mux.HandleFunc("GET /v1/transit/keys/{name}", v.read)
	mux.HandleFunc("POST /v1/transit/sign/{name}", v.sign)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case v.Hangs.Load():
			_, _ = io.Copy(io.Discard, r.Body) // the server sees only then that a client leaves
			<-r.Context().Done()
		case v.Fails.Load():
			say(w, http.StatusServiceUnavailable, "Vault is sealed")
		case r.Header.Get("X-Vault-Token") != Token || r.Header.Get("X-Vault-Request") != "true":
			say(w, http.StatusForbidden, "permission denied")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	v.URL = s.URL
	t.Cleanup(s.Close)
	return v
}

func say(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{text}})
}

// Forget has a key be gone, by the beginning of its name.
func (v *Vault) Forget(prefix string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range v.keys {
		if strings.HasPrefix(name, prefix) {
			delete(v.keys, name)
		}
	}
}

func (v *Vault) key(name string) crypto.Signer {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.keys[name]
}

func (v *Vault) create(w http.ResponseWriter, r *http.Request) {
	var q struct{ Type string }
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		say(w, http.StatusBadRequest, "no JSON")
		return
	}
	var key crypto.Signer
	switch q.Type {
	case "ed25519":
		_, key, _ = ed25519.GenerateKey(rand.Reader)
	case "ecdsa-p256":
		key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		say(w, http.StatusBadRequest, "unknown key type "+q.Type)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.keys[r.PathValue("name")] == nil {
		v.keys[r.PathValue("name")] = key
	}
	w.WriteHeader(http.StatusNoContent)
}

func (v *Vault) read(w http.ResponseWriter, r *http.Request) {
	key := v.key(r.PathValue("name"))
	if key == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"errors":[]}`))
		return
	}
	text := ""
	if p, ok := key.Public().(ed25519.PublicKey); ok {
		text = base64.StdEncoding.EncodeToString(p)
	} else {
		der, _ := x509.MarshalPKIXPublicKey(key.Public())
		text = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"latest_version": 1, "keys": map[string]any{"1": map[string]any{"public_key": text}}}})
}

func (v *Vault) sign(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Input      []byte `json:"input"`
		Version    int    `json:"key_version"`
		Prehashed  bool   `json:"prehashed"`
		Hash       string `json:"hash_algorithm"`
		Marshaling string `json:"marshaling_algorithm"`
	}
	key := v.key(r.PathValue("name"))
	if json.NewDecoder(r.Body).Decode(&q) != nil || q.Version != 1 || key == nil {
		say(w, http.StatusBadRequest, "signing key not found")
		return
	}
	v.Signed.Add(1)
	if v.Lies.Load() {
		q.Input = append([]byte(nil), q.Input...)
		q.Input[0] ^= 1
	}
	text := ""
	if private, ok := key.(ed25519.PrivateKey); ok {
		text = base64.StdEncoding.EncodeToString(ed25519.Sign(private, q.Input))
	} else {
		private, _ := key.(*ecdsa.PrivateKey)
		if !q.Prehashed || q.Hash != "sha2-256" || q.Marshaling != "jws" || len(q.Input) != 32 {
			say(w, http.StatusBadRequest, "want a digest")
			return
		}
		a, b, _ := ecdsa.Sign(rand.Reader, private, q.Input)
		raw := make([]byte, 64)
		a.FillBytes(raw[:32])
		b.FillBytes(raw[32:])
		text = base64.RawURLEncoding.EncodeToString(raw)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"signature": "vault:v1:" + text}})
}
