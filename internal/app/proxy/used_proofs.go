package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
)

// usedName is the file with the proofs that were used before a process ended.
const usedName = "used-proofs.json"

// usedLife is for how long such a file is taken: a start that comes later refuses proofs
// from before it, as after a crash. So a copy that is restored much later cannot bring
// back a memory that lacks later proofs.
const usedLife = time.Minute

// UsedProofs is a memory of proofs that outlives a clean restart. A process that was
// killed leaves none.
type UsedProofs struct {
	Began    time.Time                       `json:"began"`    // every proof since is in Proofs
	Sessions time.Time                       `json:"sessions"` // the same of proofs of callers
	Ended    time.Time                       `json:"ended"`
	Proofs   map[string]map[string]time.Time `json:"proofs"` // by kind, until when
	Callers  identity.Proofs                 `json:"callers"`
}

// TakeUsed reads the memory of the process before, and removes it from the disk before
// any proof is used. It is nil where there is none that can be relied on.
func TakeUsed(dir string, now time.Time, log *slog.Logger) (*UsedProofs, error) {
	name := filepath.Join(dir, usedName)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	if err == nil {
		err = os.Remove(name)
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("proofs that were used before the start: %w", err)
	}
	u := &UsedProofs{}
	if err := json.Unmarshal(data, u); err != nil {
		log.Warn("proofs from before the start are refused: the file with the used ones is damaged", slog.Any("error", err))
		return nil, nil //nolint:nilnil // as after a crash
	}
	if age := now.Sub(u.Ended); age < 0 || age > usedLife || u.Began.IsZero() || u.Sessions.IsZero() {
		return nil, nil //nolint:nilnil // as after a crash
	}
	return u, nil
}

// Keep writes the memory when nothing uses proofs any more.
func (u UsedProofs) Keep(dir string) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".used-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, usedName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
