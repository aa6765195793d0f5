package keyring

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// The ways in which a key is not the one that is on record.
var (
	ErrGone  = errors.New("the file is gone, and this key is on record")
	errEmpty = errors.New("the file is empty")
	ErrOther = errors.New("the file holds another key than the one on record")
)

// Hold keeps keys that are made from now on in memory, until [Ring.Expect] has
// compared them with the keys on record. Evidence must be opened with a key before
// it can be asked which key that should be.
func (r *Ring) Hold() { r.held = map[string][]byte{} }

// Expect tells the ring which keys are on record: the file of each, and its id, ""
// where only the name is known. From now on a key of these names is never made, and
// never another one. Held keys without an expectation are written.
func (r *Ring) Expect(known map[string]string) error {
	r.known = known
	for name, id := range r.Used() {
		if err := r.expected(name, id); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.held)) {
		if err := r.put(name, r.held[name]); err != nil {
			return err
		}
	}
	r.held = nil
	return nil
}

// expected compares a key that is in use with the one on record.
func (r *Ring) expected(name, id string) error {
	want, ok := r.known[name]
	_, made := r.held[name]
	switch {
	case !ok:
		return nil
	case made:
		return r.wrong(name, ErrGone)
	case want != "" && want != id:
		return r.wrong(name, ErrOther)
	}
	return nil
}

// wrong is the error about a key, with what the operator can do.
func (r *Ring) wrong(name string, why error) error {
	err := fmt.Errorf("keys: %s: %w. Restore it from a backup, with mode 0600", filepath.Join(r.dir, name), why)
	if r.Advice != nil {
		err = fmt.Errorf("%w; %s", err, r.Advice(name))
	}
	return err
}

// Fresh reports whether a key was made and is not written yet.
func (r *Ring) Fresh(name string) bool {
	_, ok := r.held[name]
	return ok
}

// Used returns the keys that were used, by their files, with their ids.
func (r *Ring) Used() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.used)
}

func (r *Ring) use(name, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = map[string]string{}
	}
	r.used[name] = id
}

// keyID names a key without telling it: the thumbprint of the public half, or a
// digest of the whole secret. A file that holds no key has no id; the reader of
// the key reports its error.
func keyID(name string, plain []byte) string {
	if _, thumbprint, ok := Where(plain); ok {
		return thumbprint
	}
	if strings.HasSuffix(name, ".jwk") {
		k, err := token.ParsePrivateKey(plain)
		if err != nil {
			return ""
		}
		return k.Public().Thumbprint()
	}
	seed, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(plain)))
	if err != nil {
		return ""
	}
	if algorithm, ok := EvidenceFile(name); ok {
		k, err := EvidenceKey(algorithm, seed, "id")
		if err != nil {
			return ""
		}
		return k.ID
	}
	sum := sha256.Sum256(append([]byte("powerbox key "+name+"\n"), seed...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// blank reports whether a file has nothing in it.
func blank(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }

// Replace makes another key to replace one that was lost or seen, when it is
// next used. The old file is kept under another name, which ends in the
// time.
func (r *Ring) Replace(name string, now time.Time) { r.replace, r.replacing = name, now }

// put writes a key that was made.
func (r *Ring) put(name string, data []byte) error {
	path := filepath.Join(r.dir, name)
	if name == r.replace {
		aside := path + ".replaced-" + strconv.FormatInt(r.replacing.Unix(), 10)
		// A file that has this name already holds a key, too.
		err := os.Link(path, aside)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		r.replace = ""
	}
	return r.store(path, data)
}
