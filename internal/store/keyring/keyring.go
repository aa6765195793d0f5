// Package keyring keeps the server's keys in a directory: one file for each,
// mode 0600, made when it is first needed. Nothing in it prints a key.
package keyring

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/mldsa"
	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/internal/store/keeper"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
)

// Ring is a directory of keys.
type Ring struct {
	dir    string
	random io.Reader
	work   int   // of scrypt, where a passphrase is new
	seal   *seal // nil where keys stand in the clear
	away   *away // nil where every key is a file

	// Advice says what can be done about a key that is not the one on record, by the
	// name of its file. It is set before keys are used; nil for no advice.
	Advice func(name string) string
	known  map[string]string // keys on record, by file
	held   map[string][]byte // made and not written yet; nil where keys are written at once

	replace   string    // file of the key that is replaced when it is next used
	replacing time.Time // when

	mu   sync.Mutex        // guards used
	used map[string]string // ids of the keys that were used, by file
}

// Open returns the ring in dir, which is made with mode 0700 when it is
// missing and refused when others than its owner can write to it. With a passphrase
// its files are encrypted with age, those that stand in the clear when they are next
// read; the operator's token stays as it is.
func Open(dir string, random io.Reader, passphrase []byte) (*Ring, error) {
	return openWith(dir, random, passphrase, workFactor)
}

// openWith is [Open] with the work factor of a passphrase that is new.
func openWith(dir string, random io.Reader, passphrase []byte, work int) (*Ring, error) {
	if err := filemode.Keeps("a process that keeps the keys of a server, gateway or witness"); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if filemode.Others(info.Mode())&0o022 != 0 {
		return nil, fmt.Errorf("keys: %s can be written by others (mode %o); run chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	r := &Ring{dir: dir, random: random, work: work}
	r.seal, err = r.unlock(passphrase)
	if err != nil {
		return nil, err
	}
	return r, nil
}

var keyName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// load returns what the file of that name holds, making it when it is missing.
func (r *Ring) load(name string, generate func() ([]byte, error)) ([]byte, error) {
	if !keyName.MatchString(name) {
		return nil, fmt.Errorf("keys: %q cannot name a key; want lower-case letters, digits, '.' and '-'", name)
	}
	path := filepath.Join(r.dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || name == r.replace {
		return r.missing(name, generate)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err := ownersAlone(path, info); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if blank(data) {
		return nil, r.wrong(name, errEmpty)
	}
	plain, inClear, err := r.seal.open(data)
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	id := keyID(name, plain)
	if err := r.expected(name, id); err != nil {
		return nil, err
	}
	r.use(name, id)
	if inClear && r.seal != nil && name != plainFile && !isReference(plain) {
		return plain, r.encrypt(path, plain, info)
	}
	return plain, nil
}

// ownersAlone refuses a key that others can read.
func ownersAlone(path string, info fs.FileInfo) error {
	if filemode.Others(info.Mode()) != 0 {
		return fmt.Errorf("keys: %s can be read by others (mode %o); run chmod 600 %s, and replace the key if it was seen", path, info.Mode().Perm(), path)
	}
	return nil
}

// missing makes a key that there is no file of. A key on record is never made again.
func (r *Ring) missing(name string, generate func() ([]byte, error)) ([]byte, error) {
	if _, ok := r.known[name]; ok {
		return nil, r.wrong(name, ErrGone)
	}
	if data, ok := r.held[name]; ok {
		return data, nil
	}
	path := filepath.Join(r.dir, name)
	data, err := generate()
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	r.use(name, keyID(name, data))
	if r.held != nil {
		r.held[name] = data
		return data, nil
	}
	return data, r.put(name, data)
}

// encrypt puts a key that stands in the clear away. Its time, by which its age is
// told, stays.
func (r *Ring) encrypt(path string, plain []byte, info fs.FileInfo) error {
	data, err := r.seal.shut(path, plain)
	if err == nil {
		err = r.write(path, data)
	}
	if err == nil {
		err = os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	if err != nil {
		return fmt.Errorf("keys: %s is not encrypted: %w", path, err)
	}
	return nil
}

// store writes a key, encrypted where the ring is.
func (r *Ring) store(path string, data []byte) error {
	if isReference(data) { // it holds no secret
		return r.write(path, data)
	}
	stored, err := r.seal.shut(path, data)
	if err != nil {
		return err
	}
	return r.write(path, stored)
}

// write puts a file in place whole.
func (r *Ring) write(path string, data []byte) error {
	f, err := os.CreateTemp(r.dir, "new-*")
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keys: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Agent returns the issuing key of an agent: Ed25519, or ES256 where its keeper has no
// Ed25519.
func (r *Ring) Agent(id string) (token.Signer, error) { return r.agentKey("agent-"+id, id) }

func (r *Ring) agentKey(name, id string) (token.Signer, error) {
	data, away, err := r.signing(name+".jwk", agentAlgorithms, r.newAgentKey)
	if err != nil {
		return nil, err
	}
	if away != nil {
		return newAgentSigner(away)
	}
	k, err := token.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("keys: issuing key of agent %q is damaged: %w", id, err)
	}
	return k, nil
}

var agentAlgorithms = []string{keeper.Ed25519, keeper.ES256}

// newAgentKey makes an issuing key for a file.
func (r *Ring) newAgentKey() ([]byte, error) {
	k, err := token.GenerateKey(token.Ed25519, r.random)
	if err != nil {
		return nil, err
	}
	return k.JWK(), nil
}

// Secret returns 32 random bytes of that name.
func (r *Ring) Secret(name string) ([]byte, error) {
	data, err := r.load(name+".secret", r.newSecret)
	if err != nil {
		return nil, err
	}
	return readSecret(name, data)
}

func (r *Ring) newSecret() ([]byte, error) {
	b := make([]byte, 32)
	_, err := io.ReadFull(r.random, b)
	return []byte(base64.RawURLEncoding.EncodeToString(b)), err
}

func readSecret(name string, data []byte) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(b) != 32 {
		return nil, fmt.Errorf("keys: %s.secret is damaged; want 32 bytes in base64url", name)
	}
	return b, nil
}

// signer returns the signing key of that name, whose file holds a seed or a reference.
func (r *Ring) signer(name, algorithm string) (crypto.Signer, error) {
	data, away, err := r.signing(name+".secret", []string{algorithm}, r.newSecret)
	if err != nil {
		return nil, err
	}
	if away != nil {
		if away.Algorithm() != algorithm {
			return nil, fmt.Errorf("keys: %s.secret refers to a key for %s; want %s", name, away.Algorithm(), algorithm)
		}
		return away, nil
	}
	seed, err := readSecret(name, data)
	if err != nil {
		return nil, err
	}
	key, err := privateOf(algorithm, seed)
	if err != nil {
		return nil, fmt.Errorf("keys: %s.secret: %w", name, err)
	}
	return key, nil
}

// InUse reports whether a server has used the ring before: whether there is a
// key that signs records, checkpoints or the feed.
func (r *Ring) InUse() (bool, error) {
	for _, name := range append(slices.Collect(maps.Values(evidenceNames)), "checkpoint", "feed") {
		if used, err := r.has(name + ".secret"); used || err != nil {
			return used, err
		}
	}
	return false, nil
}

// evidenceNames are the files of the keys that sign records, without their end, by
// algorithm.
var evidenceNames = map[string]string{evidence.Ed25519: "evidence", evidence.ES256: "evidence-es256", evidence.MLDSA87: "evidence-ml-dsa-87"}

func (r *Ring) has(name string) (bool, error) {
	_, err := os.Stat(filepath.Join(r.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// EvidenceName returns the name of the key that signs records by an algorithm, ""
// where none does.
func EvidenceName(algorithm string) string { return evidenceNames[algorithm] }

// Evidence returns the key that signs records by an algorithm, and its public form
// for the recorder of that name. Each algorithm has its own key.
func (r *Ring) Evidence(algorithm, recorder string) (evidence.Signer, evidence.Key, error) {
	name, ok := evidenceNames[algorithm]
	if !ok {
		return nil, evidence.Key{}, fmt.Errorf("keys: records are not signed by %q; want %s, %s or %s", algorithm, evidence.Ed25519, evidence.ES256, evidence.MLDSA87)
	}
	private, err := r.signer(name, algorithm)
	if err != nil {
		return nil, evidence.Key{}, err
	}
	signer, err := evidenceSigner(algorithm, private)
	if err != nil {
		return nil, evidence.Key{}, fmt.Errorf("keys: %s.secret: %w", name, err)
	}
	key, err := evidence.NewKey(private.Public(), recorder)
	return signer, key, err
}

// privateOf makes the key of a seed. For ES256 the seed is the private scalar, which
// of 2^32 random seeds one is too large for.
func privateOf(algorithm string, seed []byte) (crypto.Signer, error) {
	switch algorithm {
	case evidence.MLDSA87:
		return mldsa.NewPrivateKey(mldsa.MLDSA87(), seed)
	case evidence.ES256:
		return ecdsa.ParseRawPrivateKey(elliptic.P256(), seed)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func evidenceSigner(algorithm string, private crypto.Signer) (evidence.Signer, error) {
	if own, ok := private.(*mldsa.PrivateKey); ok {
		return evidence.NewMLDSA87Signer(own)
	}
	if algorithm == evidence.ES256 {
		return evidence.NewES256Signer(private)
	}
	return evidence.NewEd25519Signer(private)
}

// EvidenceFile returns the algorithm of a key that signs records, by the name of
// its file.
func EvidenceFile(file string) (algorithm string, ok bool) {
	for algorithm, name := range evidenceNames {
		if file == name+".secret" {
			return algorithm, true
		}
	}
	return "", false
}

// EvidenceKey returns the public form of a seed that such a file holds.
func EvidenceKey(algorithm string, seed []byte, recorder string) (evidence.Key, error) {
	private, err := privateOf(algorithm, seed)
	if err != nil {
		return evidence.Key{}, err
	}
	return evidence.NewKey(private.Public(), recorder)
}

// Checkpoint returns the key that signs the log's checkpoints and the verifier
// key that readers pin.
func (r *Ring) Checkpoint(origin string) (note.Signer, string, error) {
	private, err := r.signer("checkpoint", evidence.Ed25519)
	if err != nil {
		return nil, "", err
	}
	return evidence.NewLogSigner(origin, private)
}

// HasWitness reports whether the ring has the key of a witness already.
func (r *Ring) HasWitness() (bool, error) { return r.has("witness.secret") }

// Witness returns the key by which a witness of that name cosigns.
func (r *Ring) Witness(name string) (evidence.Cosigner, error) {
	seed, err := r.Secret("witness")
	if err != nil {
		return evidence.Cosigner{}, err
	}
	return evidence.NewCosigner(name, ed25519.NewKeyFromSeed(seed))
}

// Feed returns the key that signs the revocation feed and what else the server
// tells its gateways.
func (r *Ring) Feed() (signed.Key, error) { return r.signedKey("feed") }

// Gateway returns the key by which a remote gateway speaks to the server.
func (r *Ring) Gateway() (signed.Key, error) { return r.signedKey("gateway") }

func (r *Ring) signedKey(name string) (signed.Key, error) {
	private, err := r.signer(name, evidence.Ed25519)
	if err != nil {
		return signed.Key{}, err
	}
	return signed.KeyOf(private)
}

// Tokens returns the key that signs access tokens, nil for a ring of files that has none:
// there it is derived from another secret.
func (r *Ring) Tokens() (crypto.Signer, error) {
	used, err := r.has("oauth.secret")
	if err != nil || !used && !r.awayFrom("oauth") {
		return nil, err
	}
	return r.signer("oauth", evidence.Ed25519)
}

// List returns the names of the keys, for people; never the keys.
func (r *Ring) List() ([]string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jwk") || strings.HasSuffix(e.Name(), ".secret") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
