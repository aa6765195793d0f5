package storetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Migrated makes files that have the schema of a store in a file and nothing else. The schema
// is made once for all tests: most of the time of a short test went into it.
type Migrated struct {
	Migrate func(ctx context.Context, path string) error // of an empty file that is there

	once sync.Once
	data []byte
	err  error
}

// Path is the path of a new file in a new folder.
func (m *Migrated) Path(t testing.TB) string {
	t.Helper()
	m.once.Do(func() { m.data, m.err = m.made(t) })
	path := filepath.Join(t.TempDir(), "powerbox.db")
	err := m.err
	if err == nil {
		err = os.WriteFile(path, m.data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (m *Migrated) made(t testing.TB) ([]byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "powerbox.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	if err := m.Migrate(t.Context(), path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
