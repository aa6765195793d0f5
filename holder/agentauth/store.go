package agentauth

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/powerbox-project/powerbox/internal/filelock"
	"github.com/powerbox-project/powerbox/internal/filemode"
	"github.com/powerbox-project/powerbox/token"
)

// MinPassphrase is the least length of a passphrase, in bytes.
const MinPassphrase = 16

// format names the form of the file: JSON under AES-256-GCM, the key by Argon2id
// with 46 MiB and one pass, which OWASP's password storage cheat sheet has first.
const format = "powerbox agents 1"

const (
	maxStore   = 16 << 20
	saltBytes  = 16
	argonTime  = 1
	argonKiB   = 46 << 10
	argonLanes = 1
)

// Store keeps the host's key, the providers and the agents: in a file of mode
// 0600, encrypted, or in memory alone. Several processes may use one file. It is
// safe for use by several goroutines.
type Store struct {
	path       string // "" for memory alone
	passphrase string
	random     io.Reader

	mu   sync.Mutex
	salt []byte
	aead cipher.AEAD // of salt
	held []byte      // in memory: the state
}

// NewMemory returns a store that is gone with the process.
func NewMemory(random io.Reader) *Store { return &Store{random: random} }

// Open returns the store in a file, which is made when something is first kept.
// A passphrase that is too short, one that is not the file's, and a file that
// others can read are refused.
func Open(path, passphrase string, random io.Reader) (*Store, error) {
	if len(passphrase) < MinPassphrase {
		return nil, fmt.Errorf("agentauth: the passphrase of a store has %d bytes; want at least %d", len(passphrase), MinPassphrase)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("agentauth: store: %w", err)
	}
	s := &Store{path: path, passphrase: passphrase, random: random}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.load()
	return s, err
}

// String does not show its contents.
func (s *Store) String() string { return "store " + s.path }

// state is what a store keeps.
type state struct {
	HostKey   json.RawMessage      `json:"host_key,omitempty"` // JWK, for providers that have no other
	Providers map[string]*provided `json:"providers"`          // by issuer
	Agents    map[string]*kept     `json:"agents"`             // by id
}

// provided is the stored state of a provider.
type provided struct {
	Provider Provider                   `json:"provider"`
	Fetched  time.Time                  `json:"fetched"`
	Fresh    time.Time                  `json:"fresh"`               // until when it need not be fetched again
	HostKey  json.RawMessage            `json:"host_key,omitempty"`  // by which the host is known there
	NextKeys []json.RawMessage          `json:"next_keys,omitempty"` // whether it is by one of them, an answer was lost
	HostID   string                     `json:"host_id,omitempty"`
	Enrolled bool                       `json:"enrolled,omitempty"` // the host was known before it had an agent
	Drafts   map[string]json.RawMessage `json:"drafts,omitempty"`   // keys of registrations without an answer
	Denied   map[string]time.Time       `json:"denied,omitempty"`   // denied requests
}

// kept is an agent with its key.
type kept struct {
	Agent
	Key   json.RawMessage `json:"key"`
	Draft string          `json:"draft,omitempty"` // digest of what it was registered with
	Open  []open          `json:"open,omitempty"`  // what people have not answered, when it was last seen
}

// envelope is the file.
type envelope struct {
	Format string `json:"format"`
	Salt   []byte `json:"salt"`
	Nonce  []byte `json:"nonce"`
	Sealed []byte `json:"sealed"`
}

// view reads.
func (s *Store) view(read func(*state) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.load()
	if err != nil {
		return err
	}
	return read(st)
}

// update changes the state, with other processes kept out. An error changes
// nothing.
func (s *Store) update(change func(*state) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" {
		lock, err := s.lock()
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }() // gives it up, whatever it says
	}
	st, err := s.load()
	if err != nil {
		return err
	}
	if err := change(st); err != nil {
		return err
	}
	return s.save(st)
}

// lockPatience is how often another process is waited for, and how long each time.
const (
	lockTries    = 200
	lockPatience = 25 * time.Millisecond
)

func (s *Store) lock() (*os.File, error) {
	var err error
	for range lockTries {
		var f *os.File
		if f, err = filelock.Take(s.path + ".lock"); err == nil {
			return f, nil
		}
		<-time.NewTimer(lockPatience).C
	}
	return nil, fmt.Errorf("agentauth: %s is kept by another process: %w", s.path, err)
}

func (s *Store) load() (*state, error) {
	plain, err := s.read()
	if err != nil {
		return nil, err
	}
	st := &state{}
	if plain != nil {
		if err := json.Unmarshal(plain, st); err != nil {
			return nil, fmt.Errorf("agentauth: %s is damaged: %w", s.path, err)
		}
	}
	if st.Providers == nil {
		st.Providers = map[string]*provided{}
	}
	if st.Agents == nil {
		st.Agents = map[string]*kept{}
	}
	return st, nil
}

// read returns the stored state, nil for none yet.
func (s *Store) read() ([]byte, error) {
	if s.path == "" {
		return s.held, nil
	}
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("agentauth: store: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("agentauth: store: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || filemode.Others(mode) != 0 || mode.Perm()&0o100 != 0 {
		return nil, fmt.Errorf("agentauth: store %s has mode %s; want a file with mode 0600 or less: chmod 600 %s", s.path, mode, s.path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxStore))
	if err != nil {
		return nil, fmt.Errorf("agentauth: store: %w", err)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil || e.Format != format || len(e.Salt) != saltBytes {
		return nil, fmt.Errorf("agentauth: %s is no store of agents", s.path)
	}
	if err := s.derive(e.Salt); err != nil {
		return nil, err
	}
	if len(e.Nonce) != s.aead.NonceSize() {
		return nil, fmt.Errorf("agentauth: %s is no store of agents", s.path)
	}
	plain, err := s.aead.Open(nil, e.Nonce, e.Sealed, []byte(e.Format))
	if err != nil {
		return nil, fmt.Errorf("agentauth: %s does not open: another passphrase, or it was tampered with", s.path)
	}
	return plain, nil
}

// derive makes the cipher of a salt, once.
func (s *Store) derive(salt []byte) error {
	if s.aead != nil && string(s.salt) == string(salt) {
		return nil
	}
	block, err := aes.NewCipher(argon2.IDKey([]byte(s.passphrase), salt, argonTime, argonKiB, argonLanes, 32))
	if err != nil {
		return fmt.Errorf("agentauth: %w", err)
	}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return fmt.Errorf("agentauth: %w", err)
	}
	s.salt = salt
	return nil
}

func (s *Store) save(st *state) error {
	plain, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("agentauth: store: %w", err)
	}
	if s.path == "" {
		s.held = plain
		return nil
	}
	if s.aead == nil {
		salt := make([]byte, saltBytes)
		if _, err := io.ReadFull(s.random, salt); err != nil {
			return fmt.Errorf("agentauth: store: %w", err)
		}
		if err := s.derive(salt); err != nil {
			return err
		}
	}
	e := envelope{Format: format, Salt: s.salt, Nonce: make([]byte, s.aead.NonceSize())}
	if _, err := io.ReadFull(s.random, e.Nonce); err != nil {
		return fmt.Errorf("agentauth: store: %w", err)
	}
	e.Sealed = s.aead.Seal(nil, e.Nonce, plain, []byte(format))
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("agentauth: store: %w", err)
	}
	return s.replace(append(data, '\n'))
}

// replace writes the file whole or not at all.
func (s *Store) replace(data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".new-*")
	if err != nil {
		return fmt.Errorf("agentauth: store: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		return fmt.Errorf("agentauth: store: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// hostKey is the key by which the host is known at an issuer; there is one key for
// all that it was not changed for.
func (st *state) hostKey(issuer string) (*token.PrivateKey, error) {
	jwk := st.HostKey
	if p := st.Providers[issuer]; p != nil && p.HostKey != nil {
		jwk = p.HostKey
	}
	if jwk == nil {
		return nil, fmt.Errorf("agentauth: the store has no host: %w", ErrUnknown)
	}
	return token.ParsePrivateKey(jwk)
}
