package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/internal/store/storetest"
)

// place is a file in its own folder, with and without a journal beside it.
func place(spool bool) storetest.Place {
	return func(t *testing.T) func(context.Context, storetest.Keys) (storetest.Store, error) {
		path := filepath.Join(t.TempDir(), "powerbox.db")
		copyMigrated(t, path)
		return func(ctx context.Context, k storetest.Keys) (storetest.Store, error) {
			return Open(ctx, Config{Path: path, Spool: spool, Signer: k.Signer, Batches: k.Batches, Origin: k.Origin, Checkpoint: k.Checkpoint, Random: k.Random})
		}
	}
}

// migrated returns a file with the schema and nothing else.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "powerbox-schema")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "powerbox.db")
	db, err := open(path, "rwc")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(migrate(context.Background(), db), db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// copyMigrated puts the schema into a new file, which then is not migrated once more.
func copyMigrated(t *testing.T, path string) {
	t.Helper()
	data, err := migrated()
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) { storetest.Run(t, place(false)) }

func TestStoreWithAJournal(t *testing.T) { storetest.Run(t, place(true)) }

func TestEXT27_AFailedChangeLeavesNothing(t *testing.T) {
	storetest.AFailedChangeLeavesNothing(t, place(true))
}

func TestEXT34_AKeyIsAsOldAsItIs(t *testing.T) { storetest.AKeyIsAsOldAsItIs(t, place(false)) }

func TestATK42_SettledOnce(t *testing.T) { storetest.SettledOnce(t, place(false)) }

// Capabilities of an older schema are found by their parents, names and single use.
func TestTreesOfOlderSchemas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "powerbox.db")
	storetest.MigratedTrees(t, func(*testing.T) func(context.Context, storetest.Keys) (storetest.Store, error) {
		return func(ctx context.Context, k storetest.Keys) (storetest.Store, error) {
			return Open(ctx, Config{Path: path, Signer: k.Signer, Origin: k.Origin, Checkpoint: k.Checkpoint, Random: k.Random})
		}
	}, func(t *testing.T) {
		db, err := open(path, "rwc")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := must(newProvider(db)).DownTo(t.Context(), 40); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
